//! Opens a connection and a channel, and declares the exchange.

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
use lockstep_engine::broker::ExchangeType;

use crate::publish::answers::CONNECT_TIMEOUT;

/// The name of this client in the broker's list of connections.
const CONNECTION_NAME: &str = "lockstep-sentinel";

/// The socket of the connection, which allows to end the connection if the broker is silent: lapin waits for the broker's close
/// without a limit.
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
            // A socket that is closed already returns an error.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Stores the stream of a new connection. It ends the stream if the attempt was given up in the meantime.
    fn keep(&self, stream: TcpStream) {
        // Without recovery there is only one stream.
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
