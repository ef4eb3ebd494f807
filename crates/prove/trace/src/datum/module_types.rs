//! Reads the types of loaded modules. For each module, the kernel keeps a description that extends
//! the kernel's own description (`btf_module_notify` of kernel/bpf/btf.c).

use std::collections::HashSet;

use super::btf::{Btf, MAX_BTF};
use super::memory::{Memory, PAGE_BYTES};
use super::symbols::Symbols;

/// Maximum number of modules that are read; a longer list must be corrupt.
const MAX_MODULES: usize = 1024;

/// Offsets of the fields that lead to a module's description.
struct Layout {
    /// In `struct btf_module`.
    link: u64,
    btf: u64,
    /// In `struct btf`.
    data: u64,
    bytes: u64,
}

/// Adds the types of all modules that the kernel describes. Skips descriptions that cannot be read.
pub(super) fn add(memory: &Memory, symbols: &Symbols, btf: &mut Btf) {
    let (Some(head), Some(layout)) = (symbols.address_of("btf_modules"), Layout::of(btf)) else {
        return;
    };
    let mut link = memory.word(head);
    // A corrupt list may contain a cycle without its head, and many links to the same description.
    let mut visited = HashSet::from([head]);
    let mut left = MAX_BTF;
    for _ in 0..MAX_MODULES {
        let Some(at) = link.filter(|at| visited.insert(*at)) else { return };
        if let Some(described) = layout.read(memory, at, &mut left) {
            // If the description is invalid, the module's data are not named.
            let _ = btf.add_module(&described);
        }
        // `next` is the first word of a list link.
        link = memory.word(at);
    }
}

impl Layout {
    fn of(btf: &Btf) -> Option<Layout> {
        Some(Layout {
            link: btf.offset("btf_module.list")?,
            btf: btf.offset("btf_module.btf")?,
            data: btf.offset("btf.data")?,
            bytes: btf.offset("btf.data_size")?,
        })
    }

    /// The description of the module with this list link; `None` if it is longer than `left`. Otherwise, subtracts its
    /// length from `left`.
    fn read(&self, memory: &Memory, link: u64, left: &mut u64) -> Option<Vec<u8>> {
        let btf = memory.word(link.checked_sub(self.link)?.checked_add(self.btf)?)?;
        let data = memory.word(btf.checked_add(self.data)?)?;
        let bytes = u64::from(memory.half(btf.checked_add(self.bytes)?)?);
        *left = left.checked_sub(bytes)?;
        let mut read = vec![0; usize::try_from(bytes).ok()?];
        // Read page by page, because the description's pages need not be physically contiguous.
        let (mut at, mut rest) = (data, &mut read[..]);
        while !rest.is_empty() {
            let here = (PAGE_BYTES - at % PAGE_BYTES) as usize;
            let (page, behind) = rest.split_at_mut(here.min(rest.len()));
            memory.read(at, page)?;
            (at, rest) = (at.checked_add(here as u64)?, behind);
        }
        Some(read)
    }
}
