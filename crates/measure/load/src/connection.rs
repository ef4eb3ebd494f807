//! A connection, with at most one request under way.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{SendFlags, send};

use crate::reply::{Arriving, Progress, Reply};
use crate::target::Target;

/// Why a request failed if no byte of its reply has arrived.
pub(crate) const NO_REPLY: &str = "the server did not reply in time";

/// A connection of a worker.
#[derive(Default)]
pub(crate) struct Connection {
    socket: Option<OwnedFd>,
    state: State,
    /// Whether the socket is watched until it can send, and not until it can receive.
    watches_sending: bool,
    /// The request, and how much of it has been sent.
    pub(crate) request: Vec<u8>,
    sent: usize,
    arriving: Arriving,
    /// Which of the requests of the load it is.
    pub(crate) kind: usize,
    /// When the request was due, in nanoseconds.
    pub(crate) due: u64,
    /// Since when the connection has had nothing to do, in nanoseconds.
    pub(crate) free_since: u64,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    Connecting,
    Sending,
    Waiting,
}

/// What became of the request of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Its reply is not yet complete.
    Pending,
    /// Its reply is complete and correct.
    Replied,
    /// Its reply is wrong. The connection is closed.
    Wrong(String),
    /// The connection could not be made or broke, and is closed.
    Broken(String),
}

/// Where the events of a worker's connections arrive.
pub(crate) struct Events {
    pub(crate) epoll: OwnedFd,
}

impl Events {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }
}

impl Connection {
    /// Whether it has no request under way.
    pub(crate) fn is_free(&self) -> bool {
        self.state == State::Free
    }

    /// Sends [`Connection::request`], over a new connection to `target` if there is none.
    pub(crate) fn start(&mut self, target: &Target, nr: u64, events: &Events) -> Step {
        (self.sent, self.state) = (0, State::Sending);
        self.arriving.reset();
        if self.socket.is_some() {
            return self.send(nr, events);
        }
        let begun = match target.connect() {
            Ok(begun) => begun,
            Err(error) => return self.broken(&format!("cannot connect to {target}: {error}")),
        };
        self.watches_sending = !begun.is_connected;
        let wanted = if begun.is_connected { EventFlags::IN } else { EventFlags::OUT };
        if let Err(error) = epoll::add(&events.epoll, &begun.socket, EventData::new_u64(nr), wanted)
        {
            return self.broken(&format!("cannot watch a connection: {error}"));
        }
        self.socket = Some(begun.socket);
        if begun.is_connected {
            return self.send(nr, events);
        }
        self.state = State::Connecting;
        Step::Pending
    }

    /// Continues after an event. `buffer` is scratch memory.
    pub(crate) fn go_on(
        &mut self,
        nr: u64,
        events: &Events,
        reply: &Reply,
        buffer: &mut [u8],
    ) -> Step {
        match self.state {
            State::Connecting => {
                let socket = self.socket.as_ref().expect("it is connecting");
                match socket_error(socket) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) | Err(error) => {
                        return self.broken(&format!("cannot connect: {error}"));
                    }
                }
                self.state = State::Sending;
                self.send(nr, events)
            }
            State::Sending => self.send(nr, events),
            State::Waiting => self.receive(reply, buffer),
            // The server closed the connection, or sent something without a request.
            State::Free => self.broken("the server closed an idle connection"),
        }
    }

    fn send(&mut self, nr: u64, events: &Events) -> Step {
        let Some(socket) = self.socket.as_ref() else { return Step::Pending };
        while self.sent < self.request.len() {
            match send(socket, &self.request[self.sent..], SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    return match self.watch(nr, events, true) {
                        Ok(()) => Step::Pending,
                        Err(error) => self.broken(&error.to_string()),
                    };
                }
                Err(error) => return self.broken(&format!("cannot send: {error}")),
            }
        }
        self.state = State::Waiting;
        match self.watch(nr, events, false) {
            Ok(()) => Step::Pending,
            Err(error) => self.broken(&error.to_string()),
        }
    }

    fn receive(&mut self, reply: &Reply, buffer: &mut [u8]) -> Step {
        let Some(socket) = self.socket.as_ref() else { return Step::Pending };
        let length = match rustix::io::read(socket, &mut *buffer) {
            Ok(0) => {
                let part =
                    self.arriving.part(reply).map_or(String::new(), |part| format!(": {part}"));
                let reason = "the server closed the connection without a whole reply";
                return self.broken(&format!("{reason}{part}"));
            }
            Ok(length) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Step::Pending,
            Err(error) => return self.broken(&format!("cannot receive: {error}")),
        };
        match self.arriving.take(&buffer[..length], reply) {
            Progress::Partial => Step::Pending,
            Progress::Whole => {
                self.state = State::Free;
                // A request sent on it would be lost.
                if self.arriving.closes() {
                    self.close();
                }
                Step::Replied
            }
            Progress::Wrong(reason) => {
                self.close();
                Step::Wrong(reason)
            }
        }
    }

    /// Watches the socket until it can send, or until it can receive. Both at once would report a socket
    /// without a request all the time.
    fn watch(&mut self, nr: u64, events: &Events, sending: bool) -> io::Result<()> {
        if self.watches_sending != sending {
            let socket = self.socket.as_ref().expect("it is open").as_fd();
            let wanted = if sending { EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(&events.epoll, socket, EventData::new_u64(nr), wanted)?;
            self.watches_sending = sending;
        }
        Ok(())
    }

    /// Why the request has failed if its `reply` is still missing, in words.
    pub(crate) fn lateness(&self, reply: &Reply) -> String {
        match self.arriving.part(reply).filter(|_| self.state == State::Waiting) {
            Some(part) => format!("the server did not complete its reply in time: {part}"),
            None => NO_REPLY.to_owned(),
        }
    }

    fn broken(&mut self, reason: &str) -> Step {
        self.close();
        Step::Broken(reason.to_owned())
    }

    /// Closes the connection; the next request opens another one.
    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.state = State::Free;
    }
}
