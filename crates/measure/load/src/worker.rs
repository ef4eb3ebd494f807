//! A thread with its share of the connections and of the schedule.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knee_host::affinity::pin;
use knee_host::clock::{seconds, timespec};
use oorandom::Rand64;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;
use rustix::time::ClockId;

use crate::connection::{Connection, Events, NO_REPLY, Step};
use crate::load::{Load, Pace};
use crate::outcome::Outcome;
use crate::run_delay;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// Bytes received at once.
pub(crate) const BUFFER: usize = 64 << 10;
/// How long to wait for missing replies after a stop, in ns.
const STOPPED: u64 = 250_000_000;
/// How often to check whether to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// A worker gives up after this many failures without a correct reply.
const HOPELESS: u64 = 100;
/// Why requests of a schedule were not sent if the CPU of their worker was full.
const BEHIND: &str = "the generator did not keep up with the requested rate";

pub(crate) struct Worker<'l> {
    load: &'l Load,
    cpu: u32,
    events: Events,
    connections: Vec<Connection>,
    /// Connections without a request, the one that has waited longest first.
    free: VecDeque<usize>,
    clock: Instant,
    /// The measured time, in nanoseconds.
    begin: u64,
    end: u64,
    /// How long to wait for replies after the end, in nanoseconds.
    patience: u64,
    /// `None` if a request is due as soon as a connection is free.
    schedule: Option<Schedule>,
    random: Rand64,
    weights: u64,
    /// How many requests have been sent.
    sent: u64,
    outcome: Outcome,
}

/// What this thread has used so far, in seconds.
struct Times {
    cpu: f64,
    /// For how long it waited for its CPU.
    waited: f64,
}

impl Times {
    fn now() -> Self {
        Self { cpu: seconds(ClockId::ThreadCPUTime), waited: run_delay::seconds() }
    }
}

/// When requests are due.
struct Schedule {
    /// The first request, in nanoseconds.
    first: f64,
    /// Nanoseconds from one request to the next.
    step: f64,
    /// How many requests have been sent.
    sent: u64,
}

impl Schedule {
    /// When the next request is due, in nanoseconds.
    fn due(&self) -> u64 {
        (self.first + self.sent as f64 * self.step) as u64
    }
}

impl<'l> Worker<'l> {
    /// Worker `nr` of `workers`. All workers count time from `clock`.
    pub(crate) fn new(
        load: &'l Load,
        nr: usize,
        workers: usize,
        clock: Instant,
    ) -> io::Result<Self> {
        let share = (load.connections + workers - 1 - nr) / workers;
        let begin = (load.warmup * 1e9) as u64;
        let schedule = match load.pace {
            Pace::Closed => None,
            Pace::Open { rate } => {
                let step = 1e9 / rate;
                // The requests of the workers are interleaved.
                let (first, step) = (nr as f64 * step, step * workers as f64);
                Some(Schedule { first, step, sent: 0 })
            }
        };
        Ok(Self {
            load,
            cpu: load.cpus[nr],
            events: Events::new()?,
            connections: (0..share).map(|_| Connection::default()).collect(),
            free: (0..share).collect(),
            clock,
            begin,
            end: begin + (load.seconds * 1e9) as u64,
            patience: (load.patience * 1e9) as u64,
            schedule,
            random: Rand64::new(nr as u128 + 1),
            sent: 0,
            weights: load.requests.iter().map(|request| u64::from(request.weight)).sum(),
            outcome: Outcome { workers: 1, ..Outcome::default() },
        })
    }

    pub(crate) fn run(mut self, stop: &AtomicBool) -> io::Result<Outcome> {
        pin(self.cpu)?;
        // By default, the kernel lets a timer expire 50 µs late.
        set_current_timer_slack(NonZeroU64::new(1))?;
        let mut buffer = vec![0; BUFFER];
        let mut ready: Vec<Event> = Vec::with_capacity(EVENTS);
        let mut cpu_before = None;
        let mut cpu_after = None;
        loop {
            let now = self.now();
            if now >= self.begin && cpu_before.is_none() {
                cpu_before = Some(Times::now());
            }
            if stop.load(Ordering::Relaxed) {
                self.end = self.end.min(now);
                self.patience = self.patience.min(STOPPED);
            }
            if now >= self.end && cpu_after.is_none() {
                cpu_after = Some(Times::now());
            }
            self.send_due(now);
            if self.is_over(now) {
                break;
            }
            self.wait(&mut ready)?;
            for event in ready.drain(..) {
                let nr = event.data.u64();
                let connection = &mut self.connections[nr as usize];
                let was_free = connection.is_free();
                let reply = &self.load.requests[connection.kind].reply;
                let step = connection.go_on(nr, &self.events, reply, &mut buffer);
                // An idle connection that the server closes costs no request.
                if !was_free {
                    self.finish(nr as usize, step);
                }
            }
        }
        let used = cpu_before.zip(cpu_after);
        let (cpu, waited) = used.map_or((0.0, 0.0), |(before, after): (Times, Times)| {
            (after.cpu - before.cpu, after.waited - before.waited)
        });
        let seconds = self.end.saturating_sub(self.begin) as f64 / 1e9;
        self.outcome = Outcome { cpu, waited, seconds, ..self.outcome };
        self.count_unanswered();
        Ok(self.outcome)
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Sends the requests that are due, as long as connections are free.
    fn send_due(&mut self, now: u64) {
        // Each connection at most once, because a request may fail at once.
        for _ in 0..self.free.len() {
            let at = self.now();
            // Connecting to Unix sockets takes time if the server's queue is full.
            if at > now + LOOK.as_nanos() as u64 {
                return;
            }
            let due = self.schedule.as_ref().map_or(at, Schedule::due);
            if (self.schedule.is_some() && due > now) || due >= self.end {
                return;
            }
            let Some(nr) = self.free.pop_front() else { return };
            if let Some(schedule) = &mut self.schedule {
                schedule.sent += 1;
                let ready = due.max(self.connections[nr].free_since);
                if due >= self.begin {
                    self.outcome.lateness.saturating_record(at.saturating_sub(ready));
                }
            }
            let kind = self.choose();
            let connection = &mut self.connections[nr];
            (connection.kind, connection.due) = (kind, due);
            let request = &self.load.requests[kind];
            request.write(self.sent, &mut self.random, &mut connection.request);
            self.sent += 1;
            let step = connection.start(&self.load.target, nr as u64, &self.events);
            self.finish(nr, step);
        }
    }

    /// One of the requests, by weight.
    fn choose(&mut self) -> usize {
        let requests = &self.load.requests;
        if requests.len() == 1 {
            return 0;
        }
        let mut left = self.random.rand_range(0..self.weights.max(1));
        let is_it = |weight: u64| match left.checked_sub(weight) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        };
        requests.iter().map(|request| u64::from(request.weight)).position(is_it).unwrap_or(0)
    }

    /// Counts what became of a request.
    fn finish(&mut self, nr: usize, step: Step) {
        let now = self.now();
        let (is_open, connection) = (self.schedule.is_some(), &mut self.connections[nr]);
        let is_measured = (self.begin..self.end).contains(&now);
        match step {
            Step::Pending => return,
            Step::Replied => {
                self.outcome.has_reply = true;
                let counts = if is_open { connection.due >= self.begin } else { is_measured };
                if counts {
                    self.outcome.latency.saturating_record(now - connection.due);
                }
                self.outcome.replies += u64::from(is_measured);
                if self.load.reconnect {
                    connection.close();
                }
            }
            Step::Wrong(reason) => {
                self.outcome.failures.wrong += 1;
                self.outcome.failures.note(reason);
            }
            Step::Broken(reason) => {
                self.outcome.failures.errors += 1;
                self.outcome.failures.note(reason);
            }
        }
        connection.free_since = now;
        self.free.push_back(nr);
    }

    fn is_over(&self, now: u64) -> bool {
        let failures = self.outcome.failures.errors + self.outcome.failures.wrong;
        if failures >= HOPELESS && !self.outcome.has_reply {
            return true;
        }
        let is_idle = self.free.len() == self.connections.len();
        let all_sent = self.schedule.as_ref().is_none_or(|schedule| schedule.due() >= self.end);
        now >= self.end && ((is_idle && all_sent) || now >= self.end + self.patience)
    }

    /// Waits for the next event, due request, or end of a phase.
    fn wait(&self, ready: &mut Vec<Event>) -> io::Result<()> {
        let now = self.now();
        let mut until = now + LOOK.as_nanos() as u64;
        if now < self.end {
            until = until.min(if now < self.begin { self.begin } else { self.end });
        }
        if let (Some(schedule), false) = (&self.schedule, self.free.is_empty())
            && schedule.due() < self.end
        {
            until = until.min(schedule.due());
        }
        let mut left = timespec(Duration::from_nanos(until.saturating_sub(now)));
        if self.schedule.is_some() {
            // epoll_wait(2) rounds timeouts up to milliseconds.
            let mut watched = [PollFd::new(&self.events.epoll, PollFlags::IN)];
            match poll(&mut watched, Some(&left)) {
                Ok(0) | Err(Errno::INTR) => return Ok(()),
                Ok(_) => left = Timespec::default(),
                Err(error) => return Err(error.into()),
            }
        }
        match epoll::wait(&self.events.epoll, spare_capacity(ready), Some(&left)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Counts the requests that were due, but have no reply.
    fn count_unanswered(&mut self) {
        let now = self.now();
        // A worker that gives up leaves requests that are not yet due.
        let end = self.end.min(now);
        while let Some(schedule) = self.schedule.as_mut().filter(|next| next.due() < end) {
            let due = schedule.due();
            schedule.sent += 1;
            if due >= self.begin {
                self.outcome.failures.unanswered += 1;
                self.outcome.latency.saturating_record(now.saturating_sub(due));
            }
        }
        if self.outcome.failures.unanswered > 0 && self.outcome.is_full() {
            self.outcome.failures.note(BEHIND);
        }
        // In a closed loop, a request that was sent in the warm-up has occupied its connection ever since.
        let first = if self.schedule.is_some() { self.begin } else { 0 };
        for connection in self.connections.iter().filter(|connection| !connection.is_free()) {
            if connection.due >= first {
                self.outcome.failures.unanswered += 1;
                let reply = &self.load.requests[connection.kind].reply;
                self.outcome.failures.note(connection.lateness(reply));
                self.outcome.latency.saturating_record(now.saturating_sub(connection.due));
            }
        }
        if self.outcome.failures.unanswered > 0 {
            self.outcome.failures.note(NO_REPLY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::{End, Reply};
    use crate::request::Request;

    #[test]
    fn requests_that_a_full_cpu_did_not_send_are_not_blamed_on_the_server() {
        let load = Load {
            target: "127.0.0.1:1".parse().unwrap(),
            requests: vec![Request::new("a", Reply::new("", End::Bytes(1)).unwrap()).unwrap()],
            connections: 1,
            pace: Pace::Open { rate: 1e6 },
            reconnect: false,
            warmup: 0.0,
            seconds: 1e-3,
            patience: 0.0,
            cpus: vec![0],
        };
        let reason = |busy: f64| {
            let begun = Instant::now() - Duration::from_secs(1);
            let mut worker = Worker::new(&load, 0, 1, begun).unwrap();
            (worker.outcome.seconds, worker.outcome.cpu) = (1.0, busy);
            worker.count_unanswered();
            assert_eq!(worker.outcome.failures.unanswered, 1000);
            worker.outcome.failures.first.unwrap()
        };
        assert_eq!((reason(0.5).as_str(), reason(1.0).as_str()), (NO_REPLY, BEHIND));
    }
}
