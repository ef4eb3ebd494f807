//! Records waits for kernel locks.

use knee_host::CpuList;
use linux_perf_event_reader::constants::PERF_CONTEXT_MAX;
use linux_perf_event_reader::{EventRecord, SampleRecord};

use super::access::SampleError;
use super::drain::Collector;
use super::event::{self, What};
use super::ring::Ring;
use super::session::Session;
use super::target::Target;
use super::tracefs::{Field, Format, Tracefs};
use super::{Options, Watch, machine};
use crate::capture::Work;
use crate::kernel_symbols::KernelSymbols;
use crate::locks::{Contention, LockWaits, SCHEMA, Thread, WaitLosses, sites};

/// Bytes of all buffers together. Waits come in bursts, and records that find no room are lost.
const BYTES: usize = 256 << 20;
/// Maximum bytes of one buffer: about 25,000 waits.
const MOST: usize = 8 << 20;

/// A recording of lock waits. Dropping it ends the recording.
#[derive(Debug)]
pub struct LockSampler {
    session: Session<Waits>,
    kernel: KernelSymbols,
}

impl Watch for LockSampler {
    type Taken = LockWaits;

    /// The waits of the thread [`Options::without`] are left out, and its other options are not used.
    fn open(target: &Target, options: &Options) -> Result<LockSampler, SampleError> {
        let layout = Layout::of_running()?;
        let cpus = CpuList::online().map_err(SampleError::Cpus)?.len();
        let each = (BYTES / cpus.next_power_of_two()).clamp(Ring::BYTES, MOST);
        let Layout { begin, end, .. } = layout;
        let chosen = event::choose(target, What::Waits { begin, end }, each)?;
        let without = options.without;
        let session = Session::open(target, chosen, move |_| Waits {
            layout,
            without,
            contention: Contention::default(),
            lost: 0,
            unreadable: 0,
        })?;
        let kernel = KernelSymbols::of_running().unwrap_or_default();
        Ok(LockSampler { session, kernel })
    }

    fn enable(&mut self) -> Result<(), SampleError> {
        self.session.enable()
    }

    fn disable(&mut self) -> Result<(), SampleError> {
        self.session.disable()
    }

    fn seen(&self) -> u64 {
        self.session.seen()
    }

    fn running(&self) -> usize {
        self.session.running
    }

    fn knows_kernel_names(&self) -> bool {
        self.kernel.are_known()
    }

    fn finish(
        mut self,
        title: impl Into<String>,
        started_at: impl Into<String>,
        work: Option<Work>,
    ) -> Result<LockWaits, SampleError> {
        self.disable()?;
        let lost = self.session.lost(self.session.chosen.roles());
        let Waits { contention, lost: said, unreadable, .. } = self.session.collected();
        Ok(LockWaits {
            schema: SCHEMA,
            title: title.into(),
            machine: machine(started_at),
            seconds: self.session.seconds,
            work,
            // The count of the events includes losses that a full buffer could not report.
            losses: WaitLosses {
                lost: lost.unwrap_or(said),
                unmatched: contention.unmatched,
                unreadable,
            },
            sites: sites(contention.stacks(), &self.kernel),
        })
    }
}

/// The layout of the kernel's records of waits.
#[derive(Debug, Clone, Copy)]
struct Layout {
    begin: u64,
    end: u64,
    /// The ID of the tracepoint, at the same offset in all records.
    number: Field,
    begin_lock: Field,
    begin_flags: Field,
    end_lock: Field,
}

impl Layout {
    fn of_running() -> Result<Layout, SampleError> {
        let tracefs = Tracefs::open()?;
        let format = |name: &str| {
            tracefs.format(&format!("lock/{name}"))?.ok_or(SampleError::NoContentionEvents)
        };
        let (begin, end) = (format("contention_begin")?, format("contention_end")?);
        let field = |of: &Format, name| of.field(name).ok_or(SampleError::NoContentionEvents);
        Ok(Layout {
            begin: begin.number,
            end: end.number,
            number: field(&begin, "common_type")?,
            begin_lock: field(&begin, "lock_addr")?,
            begin_flags: field(&begin, "flags")?,
            end_lock: field(&end, "lock_addr")?,
        })
    }
}

/// Collects records into waits.
#[derive(Debug)]
struct Waits {
    layout: Layout,
    without: Option<i32>,
    contention: Contention,
    lost: u64,
    unreadable: u64,
}

impl Waits {
    /// `None` if a field is missing in the sample.
    fn sample(&mut self, sample: &SampleRecord<'_>) -> Option<()> {
        let (number, cpu) = (sample.tid?, sample.cpu?);
        // The thread that empties the buffers takes locks as well.
        let is_own = sample.pid == Some(std::process::id() as i32);
        if is_own || self.without == Some(number) {
            return Some(());
        }
        let (thread, time) = (Thread::new(number, cpu), sample.timestamp?);
        let raw = sample.raw?;
        let raw = raw.as_slice();
        let layout = &self.layout;
        let tracepoint = layout.number.read(&raw)?;
        if tracepoint == layout.begin {
            let lock = layout.begin_lock.read(&raw)?;
            let flags = layout.begin_flags.read(&raw)? as u32;
            let chain = sample.callchain?;
            let stack = (0..chain.len()).filter_map(|place| chain.get(place));
            let stack = stack.filter(|address| *address < PERF_CONTEXT_MAX);
            self.contention.begin(thread, lock, flags, time, stack);
        } else if tracepoint == layout.end {
            self.contention.end(thread, layout.end_lock.read(&raw)?, time);
        }
        Some(())
    }
}

impl Collector for Waits {
    type Collected = Waits;

    fn take(&mut self, record: EventRecord<'_>) {
        match record {
            EventRecord::Sample(sample) => {
                let is_whole = self.sample(&sample).is_some();
                self.unreadable += u64::from(!is_whole);
            }
            EventRecord::Exit(exit) => self.contention.exit(Thread::new(exit.tid, 0)),
            EventRecord::Lost(lost) => {
                self.lost += lost.count;
                self.contention.lost();
            }
            _ => (),
        }
    }

    fn unreadable(&mut self) {
        self.unreadable += 1;
    }

    fn seen(&self) -> u64 {
        self.contention.seen
    }

    fn finish(mut self) -> Waits {
        self.contention.close();
        self
    }
}
