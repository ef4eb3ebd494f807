//! Finds out what a physical page is used for, from its `struct page`.

use super::btf::Btf;
use super::memory::{Memory, PAGE_BYTES};

/// Linux before 6.11 defines the following values as macros (include/linux/page-flags.h), so BTF does not
/// contain them. If the bits `OLD_TYPED` of `page_type` are set, the page has a type, and the bit of this
/// type is clear.
const OLD_TYPED: u32 = 0xf000_0000;
const OLD_BUDDY: u32 = 0x80;
const OLD_TABLE: u32 = 0x200;
/// The lowest bits of `page.mapping`: the bit for anonymous memory, and the mask of all bits that
/// mark special kinds of pages.
const MAPPING_ANONYMOUS: u64 = 1;
const MAPPING_KINDS: u64 = 3;
/// Maximum size of a `struct page` in bytes.
const MAX_PAGE_STRUCT: u64 = 256;

/// The use of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// Objects of the slab cache whose `struct kmem_cache` is at `cache`. `first` is the physical address of
    /// the slab's first byte.
    Slab { cache: u64, first: u64 },
    /// A page table.
    Table,
    /// The page is free.
    Free,
    /// Anonymous memory of processes.
    Anonymous,
    /// Part of a file, or shared memory, with the address of its `struct address_space`.
    File(u64),
    /// The `struct page` does not show what the page is used for.
    Other,
}

/// The layout of `struct page` in this kernel.
#[derive(Debug)]
pub(crate) struct Pages {
    bytes: u64,
    flags: u64,
    head: u64,
    mapping: u64,
    page_type: u64,
    slab_cache: u64,
    slab: Mark,
    table: Mark,
    free: Mark,
}

/// How a `struct page` encodes what its page is used for.
#[derive(Clone, Copy, Debug)]
enum Mark {
    /// This bit of `flags` is set.
    Flag(u32),
    /// The uppermost byte of `page_type` has this value.
    Type(u32),
    /// In `page_type`, this bit is clear and the bits `OLD_TYPED` are set.
    ClearBit(u32),
}

impl Pages {
    /// Returns `None` if the kernel's types do not have the necessary fields.
    pub(crate) fn new(btf: &Btf) -> Option<Pages> {
        let typed = |name| btf.enumerator(name).map(|kind| Mark::Type(kind as u32));
        let flag = |name| btf.enumerator(name).map(|bit| Mark::Flag(bit as u32));
        let bytes = btf.bytes(btf.composite("page")?);
        Some(Pages {
            bytes: (8..=MAX_PAGE_STRUCT).contains(&bytes).then_some(bytes)?,
            flags: btf.offset("page.flags")?,
            head: btf.offset("page.compound_head").or_else(|| btf.offset("page.compound_info"))?,
            mapping: btf.offset("page.mapping")?,
            page_type: btf.offset("page.page_type")?,
            slab_cache: btf.offset("slab.slab_cache").or_else(|| btf.offset("page.slab_cache"))?,
            slab: typed("PGTY_slab").or_else(|| flag("PG_slab"))?,
            table: typed("PGTY_table").unwrap_or(Mark::ClearBit(OLD_TABLE)),
            free: typed("PGTY_buddy").unwrap_or(Mark::ClearBit(OLD_BUDDY)),
        })
    }

    /// The number of the page whose `struct page` contains an address, and the offset of the
    /// address in the struct.
    pub(crate) fn described_at(&self, memory: &Memory, address: u64) -> (u64, u64) {
        let offset = address.wrapping_sub(memory.vmemmap);
        (offset / self.bytes, offset % self.bytes)
    }

    /// The use of the page that contains a physical address.
    pub(crate) fn at(&self, memory: &Memory, physical: u64) -> Option<Page> {
        let number = physical / PAGE_BYTES;
        let page = self.read(memory, number)?;
        let link = page.word(self.head);
        if link & 1 == 0 {
            return Some(self.kind(&page, number));
        }
        let first = self.first(memory, number, link)?;
        Some(self.kind(&self.read(memory, first)?, first))
    }

    /// The use of each page, by page number.
    pub(crate) fn all(&self, memory: &Memory) -> Vec<Page> {
        let mut all: Vec<Page> = Vec::with_capacity(memory.pages() as usize);
        let bytes = self.bytes as usize;
        // Read at most one page of the array of `struct page` at a time, because the pages of this array may
        // not be physically contiguous.
        let mut chunk = vec![0; PAGE_BYTES as usize / bytes * bytes];
        while (all.len() as u64) < memory.pages() {
            let number = all.len() as u64;
            let read = memory.read(self.description(memory, number), &mut chunk);
            for (nr, one) in chunk.chunks_exact(bytes).enumerate() {
                let mut raw = Raw([0; MAX_PAGE_STRUCT as usize]);
                raw.0[..bytes].copy_from_slice(one);
                let number = number + nr as u64;
                let link = raw.word(self.head);
                let page = match self.first(memory, number, link) {
                    _ if read.is_none() => Page::Other,
                    _ if link & 1 == 0 => self.kind(&raw, number),
                    Some(first) => all.get(first as usize).copied().unwrap_or(Page::Other),
                    None => Page::Other,
                };
                all.push(page);
            }
        }
        all.truncate(memory.pages() as usize);
        all
    }

    /// The number of the first page of the allocation that contains the page `number`. `link` is a pointer to
    /// the first page's `struct page`. Since Linux 7.0, `link` may instead be a mask: the pointer is then the
    /// address of the page's own `struct page`, ANDed with this mask.
    fn first(&self, memory: &Memory, number: u64, link: u64) -> Option<u64> {
        let own = self.description(memory, number);
        let pointer = link & !1;
        let head = if pointer <= own && pointer >= memory.vmemmap { pointer } else { own & link };
        (head >= memory.vmemmap && head <= own).then(|| self.described_at(memory, head).0)
    }

    /// The address of a page's `struct page`. The array may begin at any address: the guest's memory says where.
    fn description(&self, memory: &Memory, number: u64) -> u64 {
        memory.vmemmap.wrapping_add(number * self.bytes)
    }

    fn read(&self, memory: &Memory, number: u64) -> Option<Raw> {
        if number >= memory.pages() {
            return None;
        }
        let mut raw = Raw([0; MAX_PAGE_STRUCT as usize]);
        memory.read(self.description(memory, number), &mut raw.0[..self.bytes as usize])?;
        Some(raw)
    }

    fn kind(&self, page: &Raw, number: u64) -> Page {
        let is = |mark| match mark {
            Mark::Flag(bit) => page.word(self.flags).checked_shr(bit).unwrap_or(0) & 1 == 1,
            Mark::Type(kind) => page.half(self.page_type) >> 24 == kind,
            Mark::ClearBit(bit) => page.half(self.page_type) & (OLD_TYPED | bit) == OLD_TYPED,
        };
        if is(self.slab) {
            return Page::Slab { cache: page.word(self.slab_cache), first: number * PAGE_BYTES };
        }
        if is(self.table) {
            return Page::Table;
        }
        if is(self.free) {
            return Page::Free;
        }
        match page.word(self.mapping) {
            0 => Page::Other,
            mapping if mapping & MAPPING_ANONYMOUS != 0 => Page::Anonymous,
            mapping if mapping & MAPPING_KINDS == 0 => Page::File(mapping),
            _ => Page::Other,
        }
    }
}

/// A copy of a `struct page`.
struct Raw([u8; MAX_PAGE_STRUCT as usize]);

impl Raw {
    fn word(&self, at: u64) -> u64 {
        let bytes = self.0.get(at as usize..).and_then(|from| from.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn half(&self, at: u64) -> u32 {
        self.word(at) as u32
    }
}
