//! The address of a broker, and the meaning of its errors; messages never contain the credentials.

use lapin::types::{FrameSize, Heartbeat, ShortString};
use lapin::uri::AMQPUri;
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::broker::{ExchangeType, SecretString};

use crate::failure;
use crate::publish::answers::{ANSWER_TIMEOUT, CONNECT_TIMEOUT};

/// The interval of heartbeats in each direction, in seconds. A peer that was silent for twice as long counts as dead.
const HEARTBEAT: Heartbeat = 10;

/// The maximum size of a frame, in bytes. lapin allocates memory for 64 frames; RabbitMQ's own limit would make that 8 MiB. A
/// larger event takes several frames.
const FRAME_MAX: FrameSize = 16 << 10;

/// The reason for which RabbitMQ blocks publishers.
const SHORTAGE: &str =
    ", because the broker is short of memory or disk space (rabbitmqctl status names the alarm)";

/// The default virtual host.
const DEFAULT_VHOST: &str = "/";

/// The address of a broker, with the credentials.
pub(super) struct Server {
    uri: AMQPUri,
    /// The name of the broker in messages.
    name: String,
}

impl Server {
    /// Parses a URL such as `amqp://user:password@host:5672/vhost`. An empty path means the virtual host `/`, as in the Go
    /// client.
    pub(super) fn new(url: &SecretString) -> Result<Self, Failure> {
        // The parser's error may quote the URL.
        let mut uri = url.reveal().parse::<AMQPUri>().map_err(|_| {
            let message = "the URL of the RabbitMQ broker can't be read: it must look like \
                           amqp://USER:PASSWORD@HOST:5672/VHOST or amqps://..., with special characters \
                           percent-encoded";
            Failure::new(ErrorKind::Invalid, message)
        })?;
        // The parser reads an IPv6 address as no host, and no host as localhost.
        if let Some(host) = bracketed_host(url.reveal()) {
            host.clone_into(&mut uri.authority.host);
        }
        if uri.vhost.is_empty() {
            DEFAULT_VHOST.clone_into(&mut uri.vhost);
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        uri.query.frame_max.get_or_insert(FRAME_MAX);
        let host = &uri.authority.host;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let name = format!("RabbitMQ at {host}:{} (virtual host {:?})", uri.authority.port, uri.vhost);
        Ok(Self { uri, name })
    }

    /// Returns the address and the user of the connection.
    pub(super) fn uri(&self) -> &AMQPUri {
        &self.uri
    }

    /// Converts a text of at most 255 bytes, the limit of the protocol.
    pub(super) fn short_string(&self, what: &str, text: &str) -> Result<ShortString, Failure> {
        ShortString::try_new(text)
            .map_err(|error| Failure::new(ErrorKind::Invalid, format!("{what} of {}: {error}", self.name)))
    }

    /// Returns the failure of a connection that the broker refused.
    pub(super) fn refused(&self, error: &lapin::Error, exchange_type: ExchangeType) -> Failure {
        let (class, advice) = match error.kind() {
            lapin::ErrorKind::ProtocolError(refusal) => match refusal.get_id() {
                // ACCESS_REFUSED, NOT_ALLOWED
                403 | 530 => (
                    ErrorKind::Forbidden,
                    "check the user, its password and its permissions on this virtual host, and that the virtual host \
                     exists"
                        .to_owned(),
                ),
                // PRECONDITION_FAILED
                406 => (
                    ErrorKind::Invalid,
                    format!(
                        "an exchange of this name exists with other properties than durable and of type {}: set \
                         spec.broker.exchangeType to its type (fanout or topic), name another exchange, or delete it",
                        exchange_type.name()
                    ),
                ),
                _ => (ErrorKind::Unavailable, "see the broker's log".to_owned()),
            },
            _ => (
                ErrorKind::Unavailable,
                "check the address, and that the broker runs and can be reached from here".to_owned(),
            ),
        };
        Failure::new(class, format!("{}: {}; {advice}", self.name, describe(error)))
    }

    /// Returns the failure of a connection that was not established in time.
    pub(super) fn silent(&self) -> Failure {
        let message = format!(
            "{}: not connected within {} s; check the address, and that the broker is well",
            self.name,
            CONNECT_TIMEOUT.as_secs()
        );
        Failure::new(ErrorKind::Unavailable, message)
    }

    /// Returns the failure of a message whose connection ended before the broker's answer.
    pub(super) fn lost(&self, error: &lapin::Error) -> Failure {
        let message = format!("{}: the connection ended before it confirmed: {}", self.name, describe(error));
        Failure::new(ErrorKind::Unknown, message)
    }

    /// Returns the failure of a message that the broker did not confirm in time.
    pub(super) fn unconfirmed(&self, is_paused: bool) -> Failure {
        let why = if is_paused { SHORTAGE } else { "" };
        let message = format!("{}: not confirmed within {} s{why}", self.name, ANSWER_TIMEOUT.as_secs());
        Failure::new(ErrorKind::Unknown, message)
    }

    /// Returns the failure of a broker that has blocked its publishers.
    pub(super) fn blocks(&self) -> Failure {
        Failure::new(ErrorKind::Unavailable, format!("{}: no messages are taken{SHORTAGE}", self.name))
    }

    /// Returns the failure of a message that the broker rejected.
    pub(super) fn nack(&self) -> Failure {
        Failure::new(ErrorKind::Unavailable, format!("{}: the broker refused it (nack)", self.name))
    }
}

/// Returns the broker's own message, if the error has one.
fn describe(error: &lapin::Error) -> String {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(refusal) => refusal.get_message().to_string(),
        _ => failure::describe(error),
    }
}

/// Returns the IPv6 address in a URL.
fn bracketed_host(url: &str) -> Option<&str> {
    let authority = url.split_once("//")?.1.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    Some(host.strip_prefix('[')?.split_once(']')?.0)
}
