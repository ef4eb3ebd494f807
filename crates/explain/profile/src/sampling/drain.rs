//! Emptying the buffers while others run.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use linux_perf_event_reader::{ContextSwitchRecord, EventRecord, RecordParseInfo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::event::now;
use super::processes;
use super::ring::Ring;
use crate::capture::{Losses, Stacks};
use crate::records::{Family, InOrder, Records};

/// Milliseconds from look to look at buffers that are not a quarter full.
const PAUSE: i64 = 200;

/// What a process has mapped, as `/proc/PID/maps` says, and those that it has started have as well.
pub(super) struct Code {
    pub(super) pid: i32,
    pub(super) maps: Vec<u8>,
    pub(super) started: Vec<i32>,
}

/// What becomes of records, which come in the order of their times.
pub(super) trait Collector {
    /// What is left of them in the end.
    type Collected;

    fn take(&mut self, record: EventRecord<'_>);

    /// A thread has a CPU again, at a time in nanoseconds.
    fn on_cpu(&mut self, _thread: i32, _time: u64) {}

    /// What is mapped where, for samples from now on.
    fn code(&mut self, _: &Code) {}

    /// All that was found in a look has been taken.
    fn looked(&mut self) {}

    /// A record could not be read.
    fn unreadable(&mut self);

    /// Samples so far.
    fn seen(&self) -> u64;

    fn finish(self) -> Self::Collected;
}

/// What became of samples.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) stacks: Stacks,
    pub(super) losses: Losses,
    /// Whose they are, where not all are taken.
    pub(super) family: Option<Family>,
}

impl Collector for Records {
    type Collected = Collected;

    fn take(&mut self, record: EventRecord<'_>) {
        Records::take(self, record);
    }

    fn on_cpu(&mut self, thread: i32, time: u64) {
        Records::on_cpu(self, thread, time);
    }

    fn code(&mut self, code: &Code) {
        self.spaces.read_text(code.pid, &code.maps);
        for &process in &code.started {
            self.spaces.fork(code.pid, process);
        }
    }

    fn looked(&mut self) {
        if self.lacks_births {
            processes::adopt(self);
        }
    }

    fn unreadable(&mut self) {
        self.losses.unreadable += 1;
    }

    fn seen(&self) -> u64 {
        Records::seen(self)
    }

    fn finish(mut self) -> Collected {
        self.all_on_cpu(now());
        let family = self.family.take();
        let (stacks, losses) = Records::finish(self);
        Collected { stacks, losses, family }
    }
}

/// Empties buffers.
pub(super) struct Drain<C> {
    rings: Vec<Ring>,
    order: InOrder,
    codes: Receiver<Code>,
    collector: C,
    bytes: Vec<u8>,
    /// When the last look began, in nanoseconds of the events' clock.
    before: u64,
}

impl<C: Collector> Drain<C> {
    pub(super) fn new(
        rings: Vec<Ring>,
        info: RecordParseInfo,
        codes: Receiver<Code>,
        collector: C,
    ) -> Drain<C> {
        Drain { rings, order: InOrder::new(info), codes, collector, bytes: Vec::new(), before: 0 }
    }

    /// Until somebody says that it is enough.
    pub(super) fn run(mut self, enough: &OwnedFd, seen: &AtomicU64) -> C::Collected {
        loop {
            let mut fds = vec![PollFd::new(enough, PollFlags::IN)];
            fds.extend(
                self.rings.iter().map(|ring| PollFd::from_borrowed_fd(ring.fd(), PollFlags::IN)),
            );
            let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE * 1_000_000 };
            let _ = poll(&mut fds, Some(&pause));
            let is_enough = !fds[0].revents().is_empty();
            let all_gone = fds[1..].iter().all(|fd| fd.revents().contains(PollFlags::HUP));
            drop(fds);
            self.look(is_enough);
            seen.store(self.collector.seen(), Ordering::Relaxed);
            if is_enough {
                return self.collector.finish();
            }
            if all_gone {
                // Their buffers say so at once from now on.
                let mut fds = [PollFd::from_borrowed_fd(enough.as_fd(), PollFlags::IN)];
                let _ = poll(&mut fds, Some(&pause));
            }
        }
    }

    /// Empties all buffers, and takes in what is older than the last look; all if it is the last.
    fn look(&mut self, is_last: bool) {
        let now = now();
        for ring in &mut self.rings {
            self.bytes.clear();
            ring.read(&mut self.bytes);
            if !self.order.push(&self.bytes) {
                self.collector.unreadable();
            }
        }
        let collector = &mut self.collector;
        // What was sent before the samples were taken that we have is there by now.
        self.codes.try_iter().for_each(|code| collector.code(&code));
        self.order.hand_on(if is_last { u64::MAX } else { self.before }, |raw| match raw.parse() {
            Ok(EventRecord::ContextSwitch(ContextSwitchRecord::In { .. })) => {
                let common = raw.common_data().unwrap_or_default();
                if let (Some(thread), Some(time)) = (common.tid, common.timestamp) {
                    collector.on_cpu(thread, time);
                }
            }
            Ok(record) => collector.take(record),
            Err(_) => collector.unreadable(),
        });
        collector.looked();
        self.before = now;
    }
}
