//! From nothing to a channel with an exchange to publish to.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use lapin::options::{ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::runtime::default_runtime;
use lapin::tcp::{AMQPUriTcpExt as _, AsyncTcpStream, TLSConfig};
use lapin::types::{FieldTable, ShortString};
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind, Result};
use lockstep_core::engine::broker::ExchangeType;

use crate::publish::connection::answers::CONNECT_TIMEOUT;

/// How the broker lists this client.
const CONNECTION_NAME: &str = "lockstep-sentinel";

/// The connection's socket, to end it where the broker is silent: lapin waits for the broker's farewell as long as it takes.
#[derive(Default)]
pub(super) struct Socket {
    stream: OnceLock<TcpStream>,
    ended: AtomicBool,
}

impl Socket {
    /// Ends the connection at once.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(stream) = self.stream.get() {
            // One that has ended by itself needs no more.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Takes the stream of a connection that was just made; it ends, too, if the attempt was given up meanwhile.
    fn keep(&self, stream: TcpStream) {
        // Without recovery there is only one.
        let _ = self.stream.set(stream);
        if self.ended.load(Ordering::SeqCst) {
            self.end();
        }
    }
}

/// Connects, opens a channel in confirm mode, and declares the exchange, which is durable.
pub(super) async fn handshake(
    uri: AMQPUri,
    exchange: ShortString,
    exchange_type: ExchangeType,
    socket: Arc<Socket>,
) -> Result<(Connection, Channel)> {
    let properties = ConnectionProperties::default().with_connection_name(CONNECTION_NAME.into());
    let connect = Connection::connector(
        uri,
        default_runtime()?,
        async move |uri, runtime| {
            let connecting = uri.connect_with_config_async(TLSConfig::default(), &runtime);
            let stream =
                tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.map_err(io::Error::from)??;
            let plain = match &stream {
                AsyncTcpStream::Plain(plain) => plain.get_ref(),
                AsyncTcpStream::Rustls(tls) => tls.get_ref().0.get_ref(),
                _ => return Err(io::Error::from(io::ErrorKind::Unsupported).into()),
            };
            socket.keep(plain.as_fd().try_clone_to_owned()?.into());
            Ok(stream)
        },
        properties,
    );
    let connection = connect.await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let kind = match exchange_type {
        ExchangeType::Fanout => ExchangeKind::Fanout,
        ExchangeType::Topic => ExchangeKind::Topic,
    };
    channel.exchange_declare(exchange, kind, durable, FieldTable::default()).await?;
    Ok((connection, channel))
}
