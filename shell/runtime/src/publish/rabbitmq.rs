//! Publishes through AMQP 0-9-1, with publisher confirms.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, maybe_done};
use handshake::{Socket, handshake};
use lapin::options::BasicPublishOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation};
use lockstep_engine::action::Failure;
use lockstep_engine::broker::{CloudEvent, Exchange, SecretString};
use server::Server;

use super::answers::{CONNECT_TIMEOUT, settle};
use super::connection::{self, Answer};
use super::message;

mod handshake;
mod server;

/// How long the broker may take to close the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The delivery mode of a message that survives a restart of the broker.
const PERSISTENT: u8 = 2;

/// A connection with one channel in confirm mode and a declared exchange.
pub(super) struct Connection {
    server: Server,
    exchange: ShortString,
    routing_key: ShortString,
    amqp: lapin::Connection,
    channel: Channel,
    socket: Arc<Socket>,
    /// Held while events are passed to the channel. The channel numbers a message first and queues it then, so two concurrent
    /// callers could otherwise get each other's confirms.
    sending: Mutex<()>,
    /// The number of received answers. It distinguishes a slow broker from a silent one.
    answers: AtomicU64,
}

/// A message's body and properties.
type Message = (Vec<u8>, BasicProperties);

impl Connection {
    /// Connects and declares the exchange.
    pub(super) async fn open(url: &SecretString, to: &Exchange) -> Result<Self, Failure> {
        let server = Server::new(url)?;
        let exchange = server.short_string("exchange", &to.name)?;
        let routing_key = server.short_string("routing key", &to.routing_key)?;
        let socket = Arc::new(Socket::default());
        let handshake = handshake(server.uri().clone(), exchange.clone(), to.r#type, Arc::clone(&socket));
        match tokio::time::timeout(CONNECT_TIMEOUT, handshake).await {
            Ok(Ok((amqp, channel))) => Ok(Self {
                server,
                exchange,
                routing_key,
                amqp,
                channel,
                socket,
                sending: Mutex::default(),
                answers: AtomicU64::default(),
            }),
            Ok(Err(error)) => Err(server.refused(&error, to.r#type)),
            Err(_) => {
                socket.end();
                Err(server.silent())
            }
        }
    }

    async fn publish_all(&self, events: &[CloudEvent]) -> Vec<Answer> {
        let answers_before = self.answers.load(Ordering::Relaxed);
        let messages = events.iter().map(encode).collect::<Vec<_>>();
        let sending = |message| maybe_done(Box::pin(self.send(message).map(Answer::now)));
        let mut sendings = messages.into_iter().map(sending).collect::<Vec<_>>();
        {
            let _in_order = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
            for sending in &mut sendings {
                // The first poll passes the message to the channel.
                let _ = sending.now_or_never();
            }
        }
        let answers = settle(sendings).await;
        let is_paused = self.amqp.status().blocked();
        let is_silent = self.answers.load(Ordering::Relaxed) == answers_before;
        if answers.iter().any(Option::is_none) && is_silent && !is_paused {
            self.socket.end();
        }
        let unconfirmed = || Answer::now(Err(self.server.unconfirmed(is_paused)));
        answers.into_iter().map(|answer| answer.unwrap_or_else(unconfirmed)).collect()
    }

    /// Closes the connection within [`CLOSE_TIMEOUT`].
    async fn say_goodbye(&self) {
        let goodbye = self.amqp.close(lapin::protocol::constants::REPLY_SUCCESS, "OK".into());
        // There is no wait for a broker that does not answer.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, goodbye).await;
        self.socket.end();
    }

    async fn send(&self, message: Result<Message, Failure>) -> Result<(), Failure> {
        let (body, properties) = message?;
        let (exchange, routing_key) = (self.exchange.clone(), self.routing_key.clone());
        let options = BasicPublishOptions::default();
        let sent = self.channel.basic_publish(exchange, routing_key, options, &body, properties).await;
        let confirm = sent.map_err(|error| self.server.lost(&error))?;
        let confirmation = confirm.await.map_err(|error| self.server.lost(&error))?;
        self.answers.fetch_add(1, Ordering::Relaxed);
        match confirmation {
            Confirmation::Ack(_) => Ok(()),
            Confirmation::Nack(_) | Confirmation::NotRequested => Err(self.server.nack()),
        }
    }
}

impl connection::Connection for Connection {
    /// Returns whether messages can be sent, as far as is known.
    fn is_open(&self) -> bool {
        self.amqp.status().connected() && self.channel.status().connected()
    }

    /// Returns why no message can be sent for now, although the connection is open. A broker that is short of memory or disk
    /// space notifies its publishers, and reads no more from them until it has recovered.
    fn pause(&self) -> Option<Failure> {
        self.amqp.status().blocked().then(|| self.server.blocks())
    }

    fn publish<'a>(&'a self, events: &'a [CloudEvent]) -> BoxFuture<'a, Vec<Answer>> {
        self.publish_all(events).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.say_goodbye().boxed()
    }
}

/// Encodes the message as in the AMQP protocol binding for CloudEvents, in structured mode. It also sets the attributes as the
/// binding's binary mode would, for clients that route messages without reading their bodies.
fn encode(event: &CloudEvent) -> Result<Message, Failure> {
    let short = |text: &str| ShortString::try_new(text).map_err(|error| message::invalid(&error));
    let mut headers = FieldTable::default();
    for (name, value) in message::attributes(event) {
        headers.insert(format!("cloudEvents:{name}").into(), AMQPValue::LongString(value.into()));
    }
    let properties = BasicProperties::default()
        .with_content_type(message::CONTENT_TYPE.into())
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers)
        .with_message_id(short(&event.id)?)
        .with_timestamp(u64::try_from(event.time.as_second()).unwrap_or_default())
        .with_type(short(&event.r#type)?);
    Ok((message::body(event)?, properties))
}

#[cfg(test)]
mod tests;
