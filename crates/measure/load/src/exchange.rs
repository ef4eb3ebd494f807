//! Requests one after the other, to fill a server with data before a measurement.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knee_host::clock::timespec;
use oorandom::Rand64;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event};
use rustix::io::Errno;

use crate::connection::{Connection, Events, Step};
use crate::load::LoadError;
use crate::request::Request;
use crate::target::Target;
use crate::worker::{BUFFER, LOOK};

/// Sends `request` `count` times over one connection, each time after the reply to the previous one. Ends
/// early once `stop` is true.
///
/// # Errors
/// The server did not send a correct reply to a request, or not within `patience`.
pub fn exchange(
    target: &Target,
    request: &Request,
    count: u64,
    patience: Duration,
    stop: &AtomicBool,
) -> Result<(), LoadError> {
    let events = Events::new()?;
    let mut connection = Connection::default();
    let mut random = Rand64::new(1);
    let mut buffer = vec![0; BUFFER];
    for number in 0..count {
        request.write(number, &mut random, &mut connection.request);
        let until = Instant::now() + patience;
        let mut step = connection.start(target, 0, &events);
        while step == Step::Pending && !stop.load(Ordering::Relaxed) {
            step = match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => Step::Broken(connection.lateness(&request.reply)),
                _ if !is_ready(&events)? => Step::Pending,
                _ => connection.go_on(0, &events, &request.reply, &mut buffer),
            };
        }
        match step {
            Step::Replied => {}
            Step::Pending => return Ok(()),
            Step::Wrong(reason) | Step::Broken(reason) => {
                return Err(LoadError::Request { number, reason });
            }
        }
    }
    Ok(())
}

/// Whether the connection can go on; waits a moment for it.
fn is_ready(events: &Events) -> io::Result<bool> {
    let mut ready: Vec<Event> = Vec::with_capacity(1);
    match epoll::wait(&events.epoll, spare_capacity(&mut ready), Some(&timespec(LOOK))) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
