//! Where the server listens: on an address of a network, with or without TLS, or on a Unix socket.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use tokio::net::{TcpListener, TcpStream};

use super::tls::Tls;
#[cfg(unix)]
use super::unix::{Connection as UnixConnection, UnixSocket};
use crate::config::Config;

/// Where a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// HTTP on an address.
    Http(SocketAddr),
    /// HTTPS on an address.
    Https(SocketAddr),
    /// HTTP on a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// The address of the network, if it is one.
    pub fn socket(&self) -> Option<SocketAddr> {
        match self {
            Self::Http(address) | Self::Https(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Address {
    /// As a URL, or as `unix:PATH`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(address) => write!(f, "http://{address}"),
            Self::Https(address) => write!(f, "https://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An open socket that accepts connections.
pub(crate) enum Listener {
    Tcp {
        listener: TcpListener,
        tls: Option<Arc<Tls>>,
    },
    #[cfg(unix)]
    Unix(UnixSocket),
}

/// A connection that was accepted, before any byte of it is read.
pub(super) enum Stream {
    Tcp {
        stream: TcpStream,
        tls: Option<Arc<Tls>>,
    },
    #[cfg(unix)]
    Unix(UnixConnection),
}

impl Listener {
    /// Opens the socket that a configuration names.
    pub(crate) async fn bind(config: &Config, tls: Option<Arc<Tls>>) -> io::Result<Self> {
        match config.unix_path() {
            None => {
                let address = (config.host.as_str(), config.port);
                Ok(Self::Tcp { listener: TcpListener::bind(address).await?, tls })
            }
            #[cfg(unix)]
            Some(path) => Ok(Self::Unix(UnixSocket::bind(path).await?)),
            #[cfg(not(unix))]
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(crate) fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Self::Tcp { listener, tls: None } => Address::Http(listener.local_addr()?),
            Self::Tcp { listener, tls: Some(_) } => Address::Https(listener.local_addr()?),
            #[cfg(unix)]
            Self::Unix(socket) => Address::Unix(socket.path().to_owned()),
        })
    }

    /// The next connection, and the machine at its other end.
    pub(super) async fn accept(&self) -> io::Result<(Stream, IpAddr)> {
        match self {
            Self::Tcp { listener, tls } => {
                let (stream, peer) = listener.accept().await?;
                Ok((Stream::Tcp { stream, tls: tls.clone() }, peer.ip().to_canonical()))
            }
            #[cfg(unix)]
            Self::Unix(socket) => {
                let this_machine = IpAddr::from([127, 0, 0, 1]);
                Ok((Stream::Unix(socket.accept().await?), this_machine))
            }
        }
    }
}
