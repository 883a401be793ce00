//! Listen addresses in flags.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// The address to listen on, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// None: `0` or the empty text.
    Off,
    /// On every interface: `:8080`.
    Everywhere(u16),
    /// On one interface: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`.
    At {
        /// A host name or an IP address, without brackets.
        host: String,
        /// The port; 0 lets the operating system choose.
        port: u16,
    },
}

/// The error for text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST:PORT, or :PORT for every interface, or 0 to disable it")]
pub struct ParseAddressError;

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if matches!(text, "" | "0") {
            return Ok(Self::Off);
        }
        let (host, port) = text.rsplit_once(':').ok_or(ParseAddressError)?;
        let port = port.parse().map_err(|_| ParseAddressError)?;
        if host.is_empty() {
            return Ok(Self::Everywhere(port));
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(bare) => bare.parse::<Ipv6Addr>().map_err(|_| ParseAddressError)?.to_string(),
            None if host.contains([':', '[', ']', '/', ' ']) => return Err(ParseAddressError),
            None => host.to_owned(),
        };
        Ok(Self::At { host, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::Everywhere(port) => write!(f, ":{port}"),
            Self::At { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::At { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl Address {
    /// Starts to listen; returns `None` if the address is off.
    pub async fn bind(&self) -> io::Result<Option<TcpListener>> {
        match self {
            Self::Off => Ok(None),
            Self::Everywhere(port) => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).await {
                Ok(listener) => Ok(Some(listener)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
                // The host has no IPv6.
                Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).await.map(Some),
            },
            Self::At { host, port } => TcpListener::bind((host.as_str(), *port)).await.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address::At { host: host.to_owned(), port }
    }

    #[test]
    fn addresses_as_flags_give_them() {
        let table = [
            ("", Ok(Address::Off)),
            ("0", Ok(Address::Off)),
            (":8080", Ok(Address::Everywhere(8080))),
            (":0", Ok(Address::Everywhere(0))),
            ("127.0.0.1:8080", Ok(at("127.0.0.1", 8080))),
            ("localhost:1", Ok(at("localhost", 1))),
            ("[::1]:8080", Ok(at("::1", 8080))),
            ("8080", Err(ParseAddressError)),
            ("::1:8080", Err(ParseAddressError)),
            ("[::1:8080", Err(ParseAddressError)),
            ("[x]:8080", Err(ParseAddressError)),
            ("localhost:", Err(ParseAddressError)),
            ("localhost:65536", Err(ParseAddressError)),
            ("http://localhost:80", Err(ParseAddressError)),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<Address>(), expected, "{text:?}");
            if let Ok(address) = expected {
                assert_eq!(address.to_string().parse(), Ok(address), "{text:?}");
            }
        }
    }

    #[tokio::test]
    async fn an_address_that_is_off_binds_nothing() {
        assert!(Address::Off.bind().await.unwrap().is_none());
    }
}
