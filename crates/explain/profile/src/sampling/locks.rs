//! Watching who waits for locks of the kernel.

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
use super::{Watch, machine};
use crate::capture::Work;
use crate::kernel_symbols::KernelSymbols;
use crate::locks::{Contention, LockWaits, SCHEMA, Thread, WaitLosses, sites};

/// Bytes of all buffers. Waits come in bursts, and what finds no room is lost.
const BYTES: usize = 256 << 20;
/// Bytes of one buffer at most: some 25,000 waits.
const MOST: usize = 8 << 20;

/// What is being watched. Dropping it ends that.
#[derive(Debug)]
pub struct LockSampler {
    session: Session<Waits>,
    kernel: KernelSymbols,
}

impl LockSampler {
    /// Readies all for watching, which [`Watch::enable`] begins; an [`Target::Exec`] begins it by
    /// itself. The waits of `without`, a thread, are left out.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn open(target: &Target, without: Option<i32>) -> Result<LockSampler, SampleError> {
        let layout = Layout::of_running()?;
        let cpus = CpuList::online().map_err(SampleError::Cpus)?.len();
        let each = (BYTES / cpus.next_power_of_two()).clamp(Ring::BYTES, MOST);
        let Layout { begin, end, .. } = layout;
        let chosen = event::choose(target, What::Waits { begin, end }, each)?;
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
}

impl Watch for LockSampler {
    type Taken = LockWaits;

    fn enable(&mut self) -> Result<(), SampleError> {
        self.session.enable()
    }

    fn disable(&mut self) -> Result<(), SampleError> {
        self.session.disable()
    }

    fn seen(&self) -> u64 {
        self.session.seen()
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
        let lost = self.session.lost();
        let Waits { contention, lost: said, unreadable, .. } = self.session.collected();
        Ok(LockWaits {
            schema: SCHEMA,
            title: title.into(),
            machine: machine(started_at),
            seconds: self.session.seconds,
            work,
            // What the events count includes what the buffers could not say for want of room.
            losses: WaitLosses {
                lost: lost.unwrap_or(said),
                unmatched: contention.unmatched,
                unreadable,
            },
            sites: sites(contention.stacks(), &self.kernel),
        })
    }
}

/// What the kernel writes of waits, and where.
#[derive(Debug, Clone, Copy)]
struct Layout {
    begin: u64,
    end: u64,
    /// Which tracepoint it is, which all write alike.
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

/// Takes in records.
#[derive(Debug)]
struct Waits {
    layout: Layout,
    without: Option<i32>,
    contention: Contention,
    lost: u64,
    unreadable: u64,
}

impl Waits {
    /// `None` if there is less in a sample than there should be.
    fn sample(&mut self, sample: &SampleRecord<'_>) -> Option<()> {
        let (number, cpu) = (sample.tid?, sample.cpu?);
        // Emptying buffers wakes and locks as well, and would be seen in them.
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
