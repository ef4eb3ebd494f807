//! Finds per-CPU variables.

use std::collections::BTreeMap;

use super::btf::{Btf, TypeId};
use super::memory::{Memory, PAGE_BYTES};
use super::symbols::Symbols;

/// Per-CPU variables whose types are not described by kernels before Linux 6.12.
const TYPES: &[(&str, &str)] = &[("cpu_tlbstate", "tlb_state"), ("runqueues", "rq")];
const MAX_CPUS: u64 = 4096;
/// Maximum size in bytes of the space for allocations in each CPU's area.
const MAX_CHUNK: u64 = 2 << 20;

/// The areas of all CPUs.
#[derive(Debug)]
pub(crate) struct PerCpu {
    /// Each CPU's offset, which the kernel adds to the address of a variable.
    offsets: Vec<u64>,
    /// Where the kernel's own variables begin and end.
    begin: u64,
    end: u64,
    /// The end of the space for allocations, which follows the kernel's own variables.
    end_of_first: u64,
    types: BTreeMap<u64, TypeId>,
}

/// What an address in a CPU's area belongs to. The addresses here do not include the CPU's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A variable of the kernel.
    Variable(u64),
    /// An allocation.
    Allocated(u64),
}

impl PerCpu {
    /// Returns `None` if a symbol is missing.
    pub(crate) fn new(memory: &Memory, symbols: &Symbols, btf: Option<&Btf>) -> Option<PerCpu> {
        let begin = symbols.address_of("__per_cpu_start")?;
        let end = symbols.address_of("__per_cpu_end")?;
        let offsets = symbols.address_of("__per_cpu_offset")?;
        let cpus = u64::from(memory.half(symbols.address_of("nr_cpu_ids")?)?).min(MAX_CPUS);
        let offsets: Vec<u64> =
            (0..cpus).filter_map(|cpu| memory.word(offsets.checked_add(8 * cpu)?)).collect();
        let first_chunk = btf.zip(offsets.first()).and_then(|(btf, offset)| {
            let chunk = memory.word(symbols.address_of("pcpu_first_chunk")?)?;
            let field = |path| chunk.checked_add(btf.offset(path)?);
            let begin = memory.word(field("pcpu_chunk.base_addr")?)?.wrapping_sub(*offset);
            let pages = memory.half(field("pcpu_chunk.nr_pages")?)?;
            begin.checked_add(u64::from(pages) * PAGE_BYTES)
        });
        let end_of_first = first_chunk.unwrap_or(end).clamp(end, end.saturating_add(MAX_CHUNK));
        let mut types = BTreeMap::new();
        if let Some(btf) = btf {
            let address = |(offset, of): &(u64, TypeId)| Some((begin.checked_add(*offset)?, *of));
            types.extend(btf.per_cpu().iter().filter_map(address));
            types.extend(TYPES.iter().filter_map(|(variable, of)| {
                Some((symbols.address_of(variable)?, btf.composite(of)?))
            }));
        }
        Some(PerCpu { offsets, begin, end, end_of_first, types })
    }

    /// What an address belongs to; `None` if the address is not in any CPU's area.
    pub(crate) fn at(&self, address: u64) -> Option<Place> {
        self.offsets.iter().find_map(|offset| {
            let address = address.wrapping_sub(*offset);
            if (self.begin..self.end).contains(&address) {
                return Some(Place::Variable(address));
            }
            (self.end..self.end_of_first).contains(&address).then_some(Place::Allocated(address))
        })
    }

    /// The start and the type of the variable that contains `address`; `None` if the variable's type
    /// is unknown. `address` must not include a CPU's offset.
    pub(crate) fn variable(&self, btf: &Btf, address: u64) -> Option<(u64, TypeId)> {
        let (begin, of) = self.types.range(..=address).next_back()?;
        (address - begin < btf.bytes(*of)).then_some((*begin, *of))
    }
}
