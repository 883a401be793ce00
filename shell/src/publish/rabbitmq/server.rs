//! Which broker is meant, and what it means when it refuses: never with the credentials.

use lapin::ErrorKind;
use lapin::types::{Heartbeat, ShortString};
use lapin::uri::AMQPUri;
use lockstep_core::engine::action::{Class, Failure};
use lockstep_core::engine::broker::{ExchangeType, SecretString};

use crate::failure;
use crate::publish::connection::answers::{ANSWER_TIMEOUT, CONNECT_TIMEOUT};

/// How often each side shows that it lives, in seconds. A peer that was silent for twice as long is given up.
const HEARTBEAT: Heartbeat = 10;

/// What RabbitMQ blocks publishers for.
const SHORTAGE: &str =
    ", because the broker is short of memory or disk space (rabbitmqctl status names the alarm)";

/// The default virtual host.
const DEFAULT_VHOST: &str = "/";

/// A broker's address, with the credentials.
pub(super) struct Server {
    uri: AMQPUri,
    /// How it is called in messages.
    name: String,
}

impl Server {
    /// Reads a URL such as `amqp://user:password@host:5672/vhost`. Nothing after the slash stands for the virtual host
    /// `/`, as it does for the Go client.
    pub(super) fn new(url: &SecretString) -> Result<Self, Failure> {
        // The parser's error may quote the URL.
        let mut uri = url.reveal().parse::<AMQPUri>().map_err(|_| {
            let message = "the URL of the RabbitMQ broker can't be read: it must look like \
                           amqp://USER:PASSWORD@HOST:5672/VHOST or amqps://..., with special characters \
                           percent-encoded";
            Failure::new(Class::Invalid, message)
        })?;
        // The parser takes an IPv6 address for no host, and no host for localhost.
        if let Some(host) = bracketed_host(url.reveal()) {
            host.clone_into(&mut uri.authority.host);
        }
        if uri.vhost.is_empty() {
            DEFAULT_VHOST.clone_into(&mut uri.vhost);
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        let host = &uri.authority.host;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let name = format!("RabbitMQ at {host}:{} (virtual host {:?})", uri.authority.port, uri.vhost);
        Ok(Self { uri, name })
    }

    /// Where to connect to, and as whom.
    pub(super) fn uri(&self) -> &AMQPUri {
        &self.uri
    }

    /// A text of at most 255 bytes, as the protocol has it.
    pub(super) fn short_string(&self, what: &str, text: &str) -> Result<ShortString, Failure> {
        ShortString::try_new(text)
            .map_err(|error| Failure::new(Class::Invalid, format!("{what} of {}: {error}", self.name)))
    }

    /// The attempt to connect failed.
    pub(super) fn refused(&self, error: &lapin::Error, exchange_type: ExchangeType) -> Failure {
        let (class, advice) = match error.kind() {
            ErrorKind::ProtocolError(refusal) => match refusal.get_id() {
                // ACCESS_REFUSED, NOT_ALLOWED
                403 | 530 => (
                    Class::Forbidden,
                    "check the user, its password and its permissions on this virtual host, and that the virtual host \
                     exists"
                        .to_owned(),
                ),
                // PRECONDITION_FAILED
                406 => (
                    Class::Invalid,
                    format!(
                        "an exchange of this name exists with other properties than durable and of type {}: set \
                         spec.broker.exchangeType to its type (fanout or topic), name another exchange, or delete it",
                        exchange_type.name()
                    ),
                ),
                _ => (Class::Unavailable, "see the broker's log".to_owned()),
            },
            _ => (
                Class::Unavailable,
                "check the address, and that the broker runs and can be reached from here".to_owned(),
            ),
        };
        Failure::new(class, format!("{}: {}; {advice}", self.name, words(error)))
    }

    /// Nothing came of the attempt to connect.
    pub(super) fn silent(&self) -> Failure {
        let message = format!(
            "{}: not connected within {} s; check the address, and that the broker is well",
            self.name,
            CONNECT_TIMEOUT.as_secs()
        );
        Failure::new(Class::Unavailable, message)
    }

    /// The connection ended before the broker's answer to a message.
    pub(super) fn lost(&self, error: &lapin::Error) -> Failure {
        let message = format!("{}: the connection ended before it confirmed: {}", self.name, words(error));
        Failure::new(Class::Unknown, message)
    }

    /// The broker's answer to a message didn't come in time.
    pub(super) fn unconfirmed(&self, is_paused: bool) -> Failure {
        let why = if is_paused { SHORTAGE } else { "" };
        let message = format!("{}: not confirmed within {} s{why}", self.name, ANSWER_TIMEOUT.as_secs());
        Failure::new(Class::Unknown, message)
    }

    /// The broker has asked its publishers to wait.
    pub(super) fn blocks(&self) -> Failure {
        Failure::new(Class::Unavailable, format!("{}: no messages are taken{SHORTAGE}", self.name))
    }

    /// The broker didn't take a message.
    pub(super) fn nack(&self) -> Failure {
        Failure::new(Class::Unavailable, format!("{}: the broker refused it (nack)", self.name))
    }
}

/// The broker's own words, if the error has any.
fn words(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) => refusal.get_message().to_string(),
        _ => failure::describe(error),
    }
}

/// The IPv6 address in a URL.
fn bracketed_host(url: &str) -> Option<&str> {
    let authority = url.split_once("//")?.1.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    Some(host.strip_prefix('[')?.split_once(']')?.0)
}
