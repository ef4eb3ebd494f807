//! Turns the kernel's records into distinct stacks. Records come from our own ring buffers or from a file of
//! `perf record`.
//!
//! Samples with the same addresses are counted together at once. Their addresses get names when sampling
//! ends, or earlier if there are too many stacks or mappings: processes share names, but not addresses.

mod areas;
mod family;
mod naming;
mod off_cpu;
mod order;
mod programs;
mod space;

use std::collections::HashSet;
use std::ops::Range;

use foldhash::{HashMap, HashMapExt};

use linux_perf_event_reader::constants::{
    PERF_CONTEXT_KERNEL, PERF_CONTEXT_MAX, PERF_CONTEXT_USER,
};
use linux_perf_event_reader::{CpuMode, EventRecord, Mmap2FileId, SampleRecord};
use space::NO_MAPS;

pub(crate) use areas::{CodeFile, FileId};
pub(crate) use family::Family;
pub(crate) use off_cpu::OffCpu;
pub(crate) use order::InOrder;
use programs::Programs;
pub(crate) use space::{Place, Spaces, read_maps};

use crate::capture::{Losses, Stacks};
use crate::kernel_symbols::KernelSymbols;
use crate::symbols::Symbols;

/// Maximum distinct stacks without names: about 100 MiB of deep stacks.
const STACKS_WITHOUT_NAMES: usize = 1 << 17;
/// Maximum addresses in these stacks. While they get names, each different one takes about 250 bytes.
const ADDRESSES_WITHOUT_NAMES: usize = 1 << 21;

/// The name of unknown programs.
const UNKNOWN_PROGRAM: &str = "[unknown]";

/// Collects records into stacks.
pub(crate) struct Records {
    programs: Programs,
    pub(crate) spaces: Spaces,
    /// Samples and weight by stack: its program and maps, then its addresses from the innermost, with the
    /// kernel's context markers between them.
    unnamed: HashMap<Box<[u64]>, (u64, u64)>,
    /// Addresses in the stacks without names.
    addresses: usize,
    key: Vec<u64>,
    symbols: Symbols,
    stacks: Stacks,
    pub(crate) losses: Losses,
    /// The length at which the kernel cuts stacks, if known.
    pub(crate) deepest: Option<usize>,
    /// The processes whose records count; `None` for all.
    pub(crate) family: Option<Family>,
    /// Whether records of new processes may be lost; [`Records::adopt`] repairs that.
    pub(crate) lacks_births: bool,
    /// A thread whose samples are left out.
    pub(crate) without: Option<i32>,
    /// Off-CPU threads, if off-CPU time is sampled.
    pub(crate) off_cpu: Option<OffCpu>,
}

impl Records {
    /// `kernel` contains the names of the kernel's functions, if they are known.
    pub(crate) fn new(kernel: Option<KernelSymbols>) -> Records {
        Records {
            programs: Programs::default(),
            spaces: Spaces::default(),
            unnamed: HashMap::new(),
            addresses: 0,
            key: Vec::new(),
            symbols: Symbols::new(kernel),
            stacks: Stacks::default(),
            losses: Losses::default(),
            deepest: None,
            family: None,
            lacks_births: false,
            without: None,
            off_cpu: None,
        }
    }

    /// Collects records of processes of another time or machine; see [`Symbols::without_perf_maps`].
    pub(crate) fn of_other_processes(self) -> Records {
        Records { symbols: self.symbols.without_perf_maps(), ..self }
    }

    /// Adds descendants whose start was not recorded, given all processes and their parents. Returns the new
    /// ones.
    pub(crate) fn adopt(&mut self, there: Vec<(i32, i32)>) -> Vec<i32> {
        self.lacks_births = false;
        self.family.as_mut().map_or_else(Vec::new, |family| family.adopt(there))
    }

    /// A thread is on a CPU again.
    pub(crate) fn on_cpu(&mut self, thread: i32, time: u64) {
        let samples = self.off_cpu.as_mut().and_then(|off| off.come(thread, time));
        self.count_off_cpu(samples);
    }

    /// Sampling ends: threads that are off-CPU now were so until now.
    pub(crate) fn all_on_cpu(&mut self, time: u64) {
        let samples = self.off_cpu.as_mut().map_or_else(Vec::new, |off| off.all(time));
        self.count_off_cpu(samples);
    }

    fn count_off_cpu(&mut self, samples: impl IntoIterator<Item = off_cpu::Samples>) {
        let period = self.off_cpu.as_ref().map_or(0, |off| off.period);
        for (stack, samples) in samples {
            let count = self.unnamed.entry(stack).or_default();
            (count.0, count.1) = (count.0 + samples, count.1 + samples * period);
        }
    }

    /// A thread runs a program.
    pub(crate) fn name(&mut self, thread: i32, program: &str) {
        self.programs.name(thread, program);
    }

    /// Samples so far.
    pub(crate) fn seen(&self) -> u64 {
        self.unnamed.values().map(|count| count.0).sum::<u64>() + self.stacks.seen()
    }

    /// Takes in the next record in the order of time.
    pub(crate) fn take(&mut self, record: EventRecord<'_>) {
        if !self.is_wanted(&record) {
            return;
        }
        match record {
            EventRecord::Sample(sample) => self.sample(&sample),
            EventRecord::Comm(comm) => {
                if comm.is_execve {
                    self.spaces.exec(comm.pid);
                }
                self.name(comm.tid, &String::from_utf8_lossy(&comm.name.as_slice()));
            }
            EventRecord::Fork(fork) => {
                self.programs.fork(fork.ptid, fork.tid);
                match fork.pid == fork.ppid {
                    true => self.spaces.thread(fork.pid),
                    false => self.spaces.fork(fork.ppid, fork.pid),
                }
            }
            EventRecord::Exit(exit) => {
                let samples = self.off_cpu.as_mut().and_then(|off| off.exit(exit.tid));
                self.count_off_cpu(samples);
                match self.off_cpu {
                    // The thread leaves its CPU once more, for the last time.
                    Some(_) => self.programs.remove(exit.tid),
                    None => self.programs.exit(exit.tid),
                }
                self.spaces.exit(exit.pid);
            }
            EventRecord::Mmap2(map) => {
                let area = map.address..map.address.saturating_add(map.length);
                let id = match &map.file_id {
                    // Without a file, the inode is 0.
                    Mmap2FileId::InodeAndVersion(file) if file.inode != 0 => {
                        Some(FileId { device: (file.major, file.minor), inode: file.inode })
                    }
                    _ => None,
                };
                self.map(map.cpu_mode, map.pid, area, map.page_offset, &map.path.as_slice(), id);
            }
            EventRecord::Mmap(map) if map.is_executable => {
                let area = map.address..map.address.saturating_add(map.length);
                self.map(map.cpu_mode, map.pid, area, map.page_offset, &map.path.as_slice(), None);
            }
            EventRecord::Lost(lost) => {
                self.losses.lost = self.losses.lost.saturating_add(lost.count);
                self.off_cpu.iter_mut().for_each(OffCpu::lost);
            }
            EventRecord::Throttle(_) => self.losses.throttled += 1,
            _ => (),
        }
    }

    /// Whether a record belongs to the family or to no process.
    fn is_wanted(&mut self, record: &EventRecord<'_>) -> bool {
        let Some(family) = &mut self.family else { return true };
        match record {
            EventRecord::Sample(sample) => sample.pid.is_some_and(|pid| family.has(pid)),
            EventRecord::Fork(fork) => {
                if fork.pid != fork.ppid {
                    family.born(fork.ppid, fork.pid);
                }
                family.has(fork.pid)
            }
            EventRecord::Comm(comm) => {
                if comm.is_execve {
                    family.exec(comm.pid);
                }
                family.has(comm.pid)
            }
            EventRecord::Exit(exit) => {
                family.ended(exit.pid, exit.ppid, exit.timestamp);
                family.has(exit.pid)
            }
            EventRecord::Lost(_) => {
                self.lacks_births = true;
                true
            }
            EventRecord::Mmap2(map) => family.has(map.pid),
            _ => true,
        }
    }

    fn map(
        &mut self,
        mode: CpuMode,
        pid: i32,
        area: Range<u64>,
        offset: u64,
        path: &[u8],
        id: Option<FileId>,
    ) {
        let path = String::from_utf8_lossy(path);
        match mode {
            CpuMode::Kernel | CpuMode::GuestKernel | CpuMode::Hypervisor => {
                self.symbols.kernel_mapped(&path, offset);
            }
            _ => {
                if self.spaces.is_full() {
                    self.give_names();
                }
                self.spaces.map(pid, area, offset, CodeFile { path: &path, id });
            }
        }
    }

    fn sample(&mut self, sample: &SampleRecord<'_>) {
        let thread = sample.tid.unwrap_or(-1);
        if self.without == Some(thread) {
            return;
        }
        let is_full =
            self.unnamed.len() >= STACKS_WITHOUT_NAMES || self.addresses >= ADDRESSES_WITHOUT_NAMES;
        if is_full || self.spaces.is_full() {
            self.give_names();
        }
        let program = match self.programs.number(thread, &mut self.stacks) {
            Some(program) => program,
            None if thread == 0 => self.stacks.program("swapper"),
            None => self.stacks.program(UNKNOWN_PROGRAM),
        };
        self.key.clear();
        self.key.push(0);
        let mut depth = 0;
        match sample.callchain {
            Some(chain) if !chain.is_empty() => {
                if chain.get(0).is_some_and(|address| address < PERF_CONTEXT_MAX) {
                    self.key.push(PERF_CONTEXT_KERNEL);
                }
                for address in (0..chain.len()).filter_map(|place| chain.get(place)) {
                    depth += usize::from(address < PERF_CONTEXT_MAX);
                    self.key.push(address);
                }
            }
            _ => {
                let is_kernel = matches!(sample.cpu_mode, CpuMode::Kernel | CpuMode::GuestKernel);
                self.key.push(if is_kernel { PERF_CONTEXT_KERNEL } else { PERF_CONTEXT_USER });
                self.key.extend(sample.ip);
            }
        }
        let maps = match self.key.contains(&PERF_CONTEXT_USER) {
            true => self.spaces.of(sample.pid.unwrap_or(-1)),
            false => NO_MAPS,
        };
        self.key[0] = u64::from(program) << 32 | u64::from(maps);
        self.losses.cut += u64::from(self.deepest.is_some_and(|deepest| depth >= deepest));
        if let Some(off) = &mut self.off_cpu {
            // An unknown thread has ended already.
            if self.programs.is_known(thread) {
                off.leave(thread, &self.key, sample.timestamp.unwrap_or(0));
            }
            return;
        }
        let weight = sample.period.unwrap_or(1);
        match self.unnamed.get_mut(self.key.as_slice()) {
            Some(count) => (count.0, count.1) = (count.0 + 1, count.1.saturating_add(weight)),
            None => {
                self.addresses += self.key.len();
                self.unnamed.insert(self.key.as_slice().into(), (1, weight));
            }
        }
    }

    /// Gives names to the stacks without them.
    fn give_names(&mut self) {
        self.addresses = 0;
        let unnamed = self.unnamed.drain().collect();
        naming::give_names(unnamed, &self.spaces, &mut self.symbols, &mut self.stacks);
        let off_cpu = self.off_cpu.as_ref().map_or_else(HashSet::new, OffCpu::maps);
        self.spaces.forget(|maps| off_cpu.contains(&maps));
        // Each of a thousand waiting threads may have other maps. Their functions then get no names.
        if self.spaces.is_full() {
            self.spaces.forget(|_| false);
        }
    }

    /// The collected stacks, and the losses.
    pub(crate) fn finish(mut self) -> (Stacks, Losses) {
        self.give_names();
        self.losses.unnamed_files = self.symbols.left_out();
        self.losses.unknown_mappings = self.spaces.left_out();
        self.losses.left_out = self.stacks.left_out();
        (self.stacks, self.losses)
    }
}

#[cfg(test)]
mod tests;
