//! Where the server listens.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use knee_host::listener::{self, Listener};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{Timeout, set_socket_linger, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The longest path of a Unix socket, in bytes: `sun_path` of linux/un.h without its final zero.
const LONGEST_PATH: usize = 107;
/// How long a server may take to accept the first connection.
const CHECK: Duration = Duration::from_secs(5);
/// How long a Unix socket waits until the server's queue of connections has room. Its worker does nothing else
/// meanwhile.
const QUEUE: Duration = Duration::from_millis(100);
/// Prefix of the path of a Unix socket.
const UNIX: &str = "unix:";

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix stream socket.
    Unix(PathBuf),
}

/// A text that is not the address of a server.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It names no host and port.
    #[error("{text:?} is not an address; write HOST:PORT or unix:PATH ({reason})")]
    Unusable {
        /// The text.
        text: String,
        /// Why.
        reason: io::Error,
    },
    /// The path of a Unix socket is too long for the kernel.
    #[error("the path of a Unix socket may have {LONGEST_PATH} bytes, but {0} has more")]
    TooLong(PathBuf),
}

impl FromStr for Target {
    type Err = TargetError;

    /// If the host has several addresses, such as `localhost`, chooses the first one on which a server accepts a
    /// connection.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return match PathBuf::from(path) {
                path if path.as_os_str().len() > LONGEST_PATH => Err(TargetError::TooLong(path)),
                path => Ok(Self::Unix(path)),
            };
        }
        let unusable = |reason| TargetError::Unusable { text: text.to_owned(), reason };
        let addresses: Vec<SocketAddr> = text.to_socket_addrs().map_err(unusable)?.collect();
        let accepts = |address: &&SocketAddr| check_tcp(address).is_ok();
        let address = match &addresses[..] {
            [address] => Some(address),
            several => several.iter().find(accepts).or(several.first()),
        };
        let none = || unusable(io::Error::other("the host has no address"));
        address.copied().map(Self::Tcp).ok_or_else(none)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// A connection that has been begun.
pub(crate) struct Begun {
    pub(crate) socket: OwnedFd,
    /// Whether the connection is already established.
    pub(crate) is_connected: bool,
}

impl Target {
    /// Connects and closes the connection, to find out whether the server can be reached.
    ///
    /// # Errors
    /// The server does not accept a connection within five seconds.
    pub fn check(&self) -> io::Result<()> {
        match self {
            Self::Tcp(address) => check_tcp(address),
            Self::Unix(path) => connect_unix(path, CHECK).map(drop),
        }
    }

    /// Whose programs of this machine accept connections here. Empty if the server is on another machine.
    ///
    /// # Errors
    /// The kernel does not list them, or the server does not accept a connection within five seconds.
    pub fn listeners(&self) -> io::Result<Vec<Listener>> {
        match self {
            Self::Tcp(address) => listener::of_tcp(*address),
            Self::Unix(path) => Ok(vec![listener::of_unix(connect_unix(path, CHECK)?)?]),
        }
    }

    /// Begins to connect. The socket does not block.
    pub(crate) fn connect(&self) -> io::Result<Begun> {
        match self {
            Self::Tcp(address) => {
                let family = match address {
                    SocketAddr::V4(_) => AddressFamily::INET,
                    SocketAddr::V6(_) => AddressFamily::INET6,
                };
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let socket = socket_with(family, SocketType::STREAM, flags, None)?;
                set_tcp_nodelay(&socket, true)?;
                // Closed connections would otherwise keep their ports for a minute.
                set_socket_linger(&socket, Some(Duration::ZERO))?;
                match connect(&socket, address) {
                    Ok(()) => Ok(Begun { socket, is_connected: true }),
                    Err(Errno::INPROGRESS) => Ok(Begun { socket, is_connected: false }),
                    Err(error) => Err(error.into()),
                }
            }
            Self::Unix(path) => {
                let socket = connect_unix(path, QUEUE)?;
                ioctl_fionbio(&socket, true)?;
                Ok(Begun { socket, is_connected: true })
            }
        }
    }
}

fn check_tcp(address: &SocketAddr) -> io::Result<()> {
    require_other_end(&TcpStream::connect_timeout(address, CHECK)?)
}

/// Refuses a connection to itself. If nothing listens at a port, the kernel may choose this port for the connection.
fn require_other_end(connection: &TcpStream) -> io::Result<()> {
    match connection.local_addr()? == connection.peer_addr()? {
        true => Err(Errno::CONNREFUSED.into()),
        false => Ok(()),
    }
}

/// Connects to a Unix socket. Waits at most for `patience` while the server's queue of connections is full;
/// epoll cannot wait for that.
fn connect_unix(path: &Path, patience: Duration) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(socket),
        Err(Errno::AGAIN) => {
            Err(io::Error::other("the server accepts no connection, and its queue is full"))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port_or_a_path() {
        let target = |text: &str| text.parse::<Target>();
        assert_eq!(target("127.0.0.1:80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(target("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert_eq!(target("unix:/run/a").unwrap(), Target::Unix("/run/a".into()));
        for text in ["", "127.0.0.1", "127.0.0.1:x", ":80000"] {
            let refused = target(text).unwrap_err().to_string();
            assert!(refused.contains("write HOST:PORT or unix:PATH"), "{refused}");
        }
        let long = format!("unix:/{}", "a".repeat(LONGEST_PATH));
        assert!(target(&long).unwrap_err().to_string().contains("may have 107 bytes"));
    }

    #[test]
    fn a_connection_to_itself_reaches_no_server() {
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let own = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
        connect(&socket, &own).unwrap();
        let refused = require_other_end(&socket.into()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
