//! Reads a guest's memory at virtual addresses of its kernel
//! (Documentation/arch/x86/x86_64/mm.rst of Linux).

use super::symbols::Symbols;
use crate::ram::Ram;

/// Where the kernel's image is mapped. The kernel is started without address randomisation, so subtracting
/// this address from an address in the image gives the physical address.
const IMAGE: u64 = 0xffff_ffff_8000_0000;
/// The area of modules follows the 1 GiB area of the image (KERNEL_IMAGE_SIZE).
const MODULES: u64 = 0xffff_ffff_c000_0000;
const END_OF_MODULES: u64 = 0xffff_ffff_ff00_0000;
/// The CPUs' descriptor tables and entry stacks are in this area of half a TiB.
const ENTRY_AREA: u64 = 0xffff_fe00_0000_0000;
const ENTRY_AREA_BYTES: u64 = 1 << 39;
const END_OF_USER: u64 = 1 << 47;
/// The start of the direct map, of the vmalloc area and of the `struct page` array, if page tables have four
/// levels and addresses are not randomised.
const DIRECT: u64 = 0xffff_8880_0000_0000;
const VMALLOC: u64 = 0xffff_c900_0000_0000;
const VMEMMAP: u64 = 0xffff_ea00_0000_0000;
/// Size in bytes of the area for the array of `struct page`.
const VMEMMAP_BYTES: u64 = 1 << 40;

pub(crate) const PAGE_BYTES: u64 = 4096;
/// The size of a cache line in bytes.
pub const LINE_BYTES: u64 = 64;
/// Mask of the physical address in a page-table entry.
const FRAME: u64 = 0x000f_ffff_ffff_f000;
const PRESENT: u64 = 1;
const HUGE: u64 = 1 << 7;
/// Names longer than this are truncated.
const MAX_STRING: usize = 64;

/// What a virtual address is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// The address space of a process.
    User,
    /// The direct map of all physical memory, with the physical address.
    Direct(u64),
    /// Memory that is only virtually contiguous.
    Vmalloc,
    /// The array of `struct page`, with an element for each physical page.
    Vmemmap,
    /// The data that CPUs need to enter the kernel.
    CpuEntry,
    /// The kernel's code and static variables.
    Image,
    /// The code and static variables of modules.
    Modules,
    Other,
}

/// A guest's memory, with the addresses at which its areas begin.
#[derive(Debug)]
pub(crate) struct Memory {
    ram: Ram,
    direct: u64,
    vmalloc: u64,
    pub(crate) vmemmap: u64,
    /// Physical address of the kernel's top page table.
    top: Option<u64>,
}

impl Memory {
    pub(crate) fn new(ram: Ram, symbols: &Symbols) -> Memory {
        let mut memory =
            Memory { ram, direct: DIRECT, vmalloc: VMALLOC, vmemmap: VMEMMAP, top: None };
        let base = |name, default| {
            let read = symbols.address_of(name).and_then(|at| memory.word(at));
            read.filter(|base| base >> 47 == 0x1ffff).unwrap_or(default)
        };
        let areas = ["page_offset_base", "vmalloc_base", "vmemmap_base"];
        let [direct, vmalloc, vmemmap] = areas;
        let (direct, vmalloc, vmemmap) =
            (base(direct, DIRECT), base(vmalloc, VMALLOC), base(vmemmap, VMEMMAP));
        (memory.direct, memory.vmalloc, memory.vmemmap) = (direct, vmalloc, vmemmap);
        memory.top = symbols.address_of("init_top_pgt").and_then(|top| memory.physical(top));
        memory
    }

    /// The number of physical pages.
    pub(crate) fn pages(&self) -> u64 {
        self.ram.bytes() / PAGE_BYTES
    }

    pub(crate) fn area(&self, address: u64) -> Area {
        match address {
            0..END_OF_USER => Area::User,
            IMAGE..MODULES => Area::Image,
            MODULES..END_OF_MODULES => Area::Modules,
            _ if address.wrapping_sub(self.direct) < self.ram.bytes() => {
                Area::Direct(address.wrapping_sub(self.direct))
            }
            _ if address.wrapping_sub(self.vmemmap) < VMEMMAP_BYTES => Area::Vmemmap,
            _ if address.wrapping_sub(ENTRY_AREA) < ENTRY_AREA_BYTES => Area::CpuEntry,
            _ if address >= self.vmalloc && address < self.vmemmap => Area::Vmalloc,
            _ => Area::Other,
        }
    }

    /// Where the direct map maps a physical address.
    pub(crate) fn direct(&self, physical: u64) -> u64 {
        self.direct.wrapping_add(physical)
    }

    /// The physical address of a kernel address.
    pub(crate) fn physical(&self, address: u64) -> Option<u64> {
        match self.area(address) {
            Area::User => None,
            Area::Direct(physical) => Some(physical),
            Area::Image => Some(address - IMAGE),
            _ => self.walk(address),
        }
    }

    /// Looks up an address in the kernel's page tables.
    fn walk(&self, address: u64) -> Option<u64> {
        let mut table = self.top?;
        for shift in [39, 30, 21, 12] {
            let index = address >> shift & 0x1ff;
            let entry = u64::from_le_bytes(self.at_physical(table + 8 * index)?);
            if entry & PRESENT == 0 {
                return None;
            }
            if shift == 12 || shift < 39 && entry & HUGE != 0 {
                let within = (1 << shift) - 1;
                return Some((entry & FRAME & !within) + (address & within));
            }
            table = entry & FRAME;
        }
        None
    }

    fn at_physical<const BYTES: usize>(&self, physical: u64) -> Option<[u8; BYTES]> {
        let mut bytes = [0; BYTES];
        self.ram.read(physical, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Fills `to` with the bytes at a kernel address. These bytes must be in one page or in a
    /// physically contiguous area.
    pub(crate) fn read(&self, address: u64, to: &mut [u8]) -> Option<()> {
        self.ram.read(self.physical(address)?, to).ok()
    }

    /// Reads a pointer or another word of 8 bytes.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        self.at_physical(self.physical(address)?).map(u64::from_le_bytes)
    }

    /// Reads a word of 4 bytes.
    pub(crate) fn half(&self, address: u64) -> Option<u32> {
        self.at_physical(self.physical(address)?).map(u32::from_le_bytes)
    }

    /// Reads a NUL-terminated name of printable characters; `None` if it is empty or invalid.
    pub(crate) fn name(&self, address: u64) -> Option<String> {
        let mut name = Vec::new();
        for at in 0..MAX_STRING as u64 {
            let [byte] = self.at_physical(self.physical(address.checked_add(at)?)?)?;
            match byte {
                0 => break,
                b'!'..=b'~' => name.push(byte),
                _ => return None,
            }
        }
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    }
}
