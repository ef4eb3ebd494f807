//! Empties the buffers while the target runs.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use linux_perf_event_reader::{ContextSwitchRecord, EventRecord, RecordParseInfo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::event::now;
use super::once::Once;
use super::processes;
use super::ring::Ring;
use crate::capture::{Losses, Stacks};
use crate::records::{Family, InOrder, Records};

/// Milliseconds between scans of buffers that are less than a quarter full.
const PAUSE: i64 = 200;

/// The mappings of a process, as in `/proc/PID/maps`, which its descendants share.
pub(super) struct Code {
    pub(super) pid: i32,
    pub(super) maps: Vec<u8>,
    pub(super) started: Vec<i32>,
}

/// Collects records in the order of time.
pub(super) trait Collector {
    /// The result.
    type Collected;

    fn take(&mut self, record: EventRecord<'_>);

    /// A thread is on a CPU again at a time in nanoseconds.
    fn on_cpu(&mut self, _thread: i32, _time: u64) {}

    /// Sets the mappings for the samples that follow.
    fn code(&mut self, _: &Code) {}

    /// All records of a scan have been taken in.
    fn scanned(&mut self) {}

    /// A record could not be read.
    fn unreadable(&mut self);

    /// Samples so far.
    fn seen(&self) -> u64;

    fn finish(self) -> Self::Collected;
}

/// The result of sampling.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) stacks: Stacks,
    pub(super) losses: Losses,
    /// The sampled processes; `None` for all.
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

    fn scanned(&mut self) {
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
    /// Filters records if some threads may have two events of a kind.
    once: Option<Once>,
    codes: Receiver<Code>,
    collector: C,
    bytes: Vec<u8>,
    /// The start of the last scan, in nanoseconds of the events' clock.
    before: u64,
}

impl<C: Collector> Drain<C> {
    pub(super) fn new(
        rings: Vec<Ring>,
        info: RecordParseInfo,
        once: Option<Once>,
        codes: Receiver<Code>,
        collector: C,
    ) -> Drain<C> {
        let order = InOrder::new(info);
        Drain { rings, order, once, codes, collector, bytes: Vec::new(), before: 0 }
    }

    /// Empties buffers until `enough` is readable.
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
            self.scan(is_enough);
            seen.store(self.collector.seen(), Ordering::Relaxed);
            if is_enough {
                return self.collector.finish();
            }
            if all_gone {
                // From now on, poll returns at once for these buffers.
                let mut fds = [PollFd::from_borrowed_fd(enough.as_fd(), PollFlags::IN)];
                let _ = poll(&mut fds, Some(&pause));
            }
        }
    }

    /// Empties all buffers. Hands on the records from before the last scan, or all records if this is the last.
    fn scan(&mut self, is_last: bool) {
        let now = now();
        for ring in &mut self.rings {
            self.bytes.clear();
            ring.read(&mut self.bytes);
            if !self.order.push(&self.bytes) {
                self.collector.unreadable();
            }
        }
        let (collector, once) = (&mut self.collector, &mut self.once);
        // Mappings that were sent before these samples have arrived by now.
        self.codes.try_iter().for_each(|code| collector.code(&code));
        self.order.hand_on(if is_last { u64::MAX } else { self.before }, |raw| match raw.parse() {
            _ if once.as_mut().is_some_and(|once| !once.accepts(&raw)) => (),
            Ok(EventRecord::ContextSwitch(ContextSwitchRecord::In { .. })) => {
                let common = raw.common_data().unwrap_or_default();
                if let (Some(thread), Some(time)) = (common.tid, common.timestamp) {
                    collector.on_cpu(thread, time);
                }
            }
            Ok(record) => collector.take(record),
            Err(_) => collector.unreadable(),
        });
        collector.scanned();
        self.before = now;
    }
}
