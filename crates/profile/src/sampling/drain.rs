//! Emptying the buffers while others run.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use linux_perf_event_reader::{RawEventRecord, RecordParseInfo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::Target;
use super::ring::Ring;
use crate::capture::{Losses, Stacks};
use crate::kernel_symbols::KernelSymbols;
use crate::records::{InOrder, Records};

/// Milliseconds from look to look at buffers that are not a quarter full.
const PAUSE: i64 = 200;

/// Empties buffers.
pub(super) struct Drain {
    rings: Vec<Ring>,
    order: InOrder,
    records: Records,
    bytes: Vec<u8>,
    /// When the last look began, in nanoseconds of the events' clock.
    before: u64,
}

/// What was in the buffers.
#[derive(Debug)]
pub(super) struct Drained {
    pub(super) stacks: Stacks,
    pub(super) losses: Losses,
}

impl Drain {
    pub(super) fn new(
        rings: Vec<Ring>,
        info: RecordParseInfo,
        kernel: Option<KernelSymbols>,
        without: Option<i32>,
    ) -> Drain {
        let mut records = Records::new(kernel).with_deepest(deepest());
        if let Some(thread) = without {
            records.leave_out(thread);
        }
        Drain { rings, order: InOrder::new(info), records, bytes: Vec::new(), before: 0 }
    }

    /// Takes in what runs already.
    pub(super) fn read_processes(&mut self, target: &Target, threads: &[i32]) {
        match target {
            Target::Process(pid) | Target::Exec(pid) => {
                self.records.spaces().read(*pid);
                for &thread in threads {
                    self.read_name(*pid, thread);
                }
            }
            Target::System => {
                let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
                let all = fs::read_dir("/proc").into_iter().flatten().flatten();
                for pid in all.filter_map(number) {
                    self.records.spaces().read(pid);
                    let threads = fs::read_dir(format!("/proc/{pid}/task"));
                    for thread in threads.into_iter().flatten().flatten().filter_map(number) {
                        self.read_name(pid, thread);
                    }
                }
            }
        }
    }

    fn read_name(&mut self, pid: i32, thread: i32) {
        if let Ok(name) = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")) {
            self.records.name(thread, name.trim_end_matches('\n'));
        }
    }

    /// Until somebody says that it is enough.
    pub(super) fn run(mut self, enough: &OwnedFd, seen: &AtomicU64) -> Drained {
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
            seen.store(self.records.seen(), Ordering::Relaxed);
            if is_enough {
                let (stacks, losses) = self.records.finish();
                return Drained { stacks, losses };
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
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        for ring in &mut self.rings {
            self.bytes.clear();
            ring.read(&mut self.bytes);
            if !self.order.push(&self.bytes) {
                self.records.losses().unreadable += 1;
            }
        }
        let records = &mut self.records;
        self.order.hand_on(if is_last { u64::MAX } else { self.before }, |raw| take(records, &raw));
        self.before = now;
    }
}

fn take(records: &mut Records, raw: &RawEventRecord<'_>) {
    match raw.parse() {
        Ok(record) => records.take(record),
        Err(_) => records.losses().unreadable += 1,
    }
}

/// Addresses of a stack that the kernel records at most.
fn deepest() -> usize {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_max_stack").unwrap_or_default();
    // The kernel's own default, PERF_MAX_STACK_DEPTH.
    text.trim().parse().unwrap_or(127)
}
