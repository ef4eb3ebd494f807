//! Whose programs accept connections at an address of this machine.
//!
//! Everybody can listen at a free port. Another user may thus take the port of a server before the server does, and
//! answer in its place.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::net::sockopt::socket_peercred;

/// The listening state in `/proc/net/tcp` (`TCP_LISTEN` of net/tcp_states.h).
const LISTENING: &str = "0A";

/// A socket that accepts connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The user who created it.
    pub user: u32,
    socket: Socket,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Socket {
    /// The number of a TCP socket.
    Tcp(u64),
    /// The process that listened at a Unix socket.
    Unix(i32),
}

impl Listener {
    /// Whether the process `pid` has it open. `false` if its descriptors cannot be read.
    pub fn is_open_in(&self, pid: i32) -> bool {
        let inode = match self.socket {
            Socket::Unix(process) => return process == pid,
            Socket::Tcp(inode) => inode,
        };
        let name = format!("socket:[{inode}]");
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors
            .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
            .any(|target| target == Path::new(&name))
    }
}

/// The TCP sockets of this network namespace to which the kernel may give a connection to `address`. Empty if the
/// address belongs to another machine or namespace.
///
/// # Errors
/// The kernel does not list its sockets.
pub fn of_tcp(address: SocketAddr) -> io::Result<Vec<Listener>> {
    let mut text = fs::read_to_string("/proc/net/tcp")?;
    // Missing if IPv6 is disabled.
    text += &fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    Ok(matching(&text, address))
}

/// The listener at the other end of a connection over a Unix socket.
///
/// # Errors
/// It is not a connection over a Unix socket.
pub fn of_unix(connection: impl AsFd) -> io::Result<Listener> {
    let peer = socket_peercred(connection)?;
    let socket = Socket::Unix(peer.pid.as_raw_pid());
    Ok(Listener { user: peer.uid.as_raw(), socket })
}

fn matching(text: &str, address: SocketAddr) -> Vec<Listener> {
    let ip = address.ip().to_canonical();
    let at_port: Vec<(IpAddr, Listener)> = text
        .lines()
        .filter_map(parse)
        .filter(|(local, _)| local.port() == address.port())
        .map(|(local, listener)| (local.ip(), listener))
        .collect();
    let select = |is_selected: &dyn Fn(IpAddr) -> bool| -> Vec<Listener> {
        let selected = at_port.iter().filter(|(local, _)| is_selected(*local));
        selected.map(|(_, listener)| listener.clone()).collect()
    };
    // The kernel prefers a socket with the address itself to one for all addresses. A socket for all addresses of
    // IPv6 usually accepts IPv4 as well.
    let exact = select(&|local| local.to_canonical() == ip);
    if !exact.is_empty() {
        return exact;
    }
    select(&|local| local.is_unspecified() && (local.is_ipv6() || ip.is_ipv4()))
}

/// The address of a listening socket, from a line of `/proc/net/tcp` or `/proc/net/tcp6`; see proc_pid_net(5).
fn parse(line: &str) -> Option<(SocketAddr, Listener)> {
    let mut fields = line.split_ascii_whitespace();
    let (ip, port) = fields.nth(1)?.split_once(':')?;
    let state = fields.nth(1)?;
    let user = fields.nth(3)?.parse().ok()?;
    let socket = Socket::Tcp(fields.nth(1)?.parse().ok()?);
    let address = SocketAddr::new(parse_ip(ip)?, u16::from_str_radix(port, 16).ok()?);
    (state == LISTENING).then_some((address, Listener { user, socket }))
}

/// An address as the kernel prints it: 32 bits at a time, each as a number of this machine.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let word = |nr: usize| {
        let digits = text.get(8 * nr..8 * nr + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.as_flattened().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    use rustix::process::{geteuid, getpid};

    use super::*;

    /// The users of the listeners in `lines` that accept connections to `address`. Each line is a local address, a
    /// state and a user.
    fn users(lines: &[(&str, &str, u32)], address: &str) -> Vec<u32> {
        let line = |(local, state, user): &(&str, &str, u32)| {
            format!("0: {local} 0:0 {state} 0:0 00:0 0 {user} 0 77 1 0 100 0 0 10 0\n")
        };
        let text: String = lines.iter().map(line).collect();
        let found = matching(&text, address.parse().unwrap());
        found.into_iter().map(|listener| listener.user).collect()
    }

    /// As the kernel prints it.
    fn printed(address: &str) -> String {
        let address: SocketAddr = address.parse().unwrap();
        let octets = match address.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let word = |word: &[u8]| u32::from_ne_bytes(word.try_into().unwrap());
        let ip: String = octets.chunks(4).map(|four| format!("{:08X}", word(four))).collect();
        format!("{ip}:{:04X}", address.port())
    }

    #[test]
    fn a_socket_with_the_address_itself_precedes_one_for_all_addresses() {
        let [all, own, other] = ["0.0.0.0:80", "127.0.0.1:80", "127.0.0.1:81"].map(printed);
        let lines = [(&*all, "0A", 1), (&*own, "0A", 2), (&*other, "0A", 3), (&*own, "01", 4)];
        assert_eq!(users(&lines, "127.0.0.1:80"), [2]);
        assert_eq!(users(&lines, "127.0.0.2:80"), [1]);
        assert_eq!(users(&lines, "127.0.0.1:82"), [0_u32; 0]);
    }

    #[test]
    fn a_socket_for_all_addresses_of_ipv6_accepts_ipv4_but_not_the_reverse() {
        let [v4, v6, mapped] = ["0.0.0.0:80", "[::]:80", "[::ffff:127.0.0.1]:81"].map(printed);
        let lines = [(&*v4, "0A", 4), (&*v6, "0A", 6), (&*mapped, "0A", 7)];
        assert_eq!(users(&lines, "127.0.0.1:80"), [4, 6]);
        assert_eq!(users(&lines, "[::1]:80"), [6]);
        assert_eq!(users(&lines, "127.0.0.1:81"), [7]);
    }

    #[test]
    fn a_listener_has_the_user_and_the_process_that_made_it() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let of_tcp = of_tcp(tcp.local_addr().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _unix = UnixListener::bind(&path).unwrap();
        let of_unix = of_unix(UnixStream::connect(&path).unwrap()).unwrap();
        for listener in [&of_tcp[..], &[of_unix]].concat() {
            assert_eq!(listener.user, geteuid().as_raw());
            assert!(listener.is_open_in(getpid().as_raw_pid()) && !listener.is_open_in(1));
        }
        assert_eq!(of_tcp.len(), 1);
    }
}
