//! Programs that are part of the kernel's image: static ELF files (System V ABI, "Object Files").

use alloc::boxed::Box;

use knee_vm::{Object, PAGE, Page, Pager, PagerError, Pages, Protection, Sharing};

use crate::cpu;
use crate::machine::Space;

/// The pager of a program's segment: provides the bytes from the kernel's image, and zeros after them.
struct Segment(&'static [u8]);

impl Pager for Segment {
    fn page_in(&self, index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        let rest = self.0.get(index as usize * PAGE..).unwrap_or(&[]);
        let count = rest.len().min(PAGE);
        page[..count].copy_from_slice(&rest[..count]);
        Ok(())
    }

    fn page_out(&self, _index: u64, _page: &[u8; PAGE]) -> Result<(), PagerError> {
        // Never called: segments are mapped privately, so a store changes a copy and never makes a page of
        // the segment dirty.
        Err(PagerError::Failed)
    }
}

/// Maps a program into a space, and returns the program's entry point.
pub(crate) fn load(space: &Space, program: &'static [u8]) -> u64 {
    const LOAD: u32 = 1;
    let word = |at: usize| u64::from_le_bytes(program[at..at + 8].try_into().expect("8 bytes"));
    let half = |at: usize| u16::from_le_bytes(program[at..at + 2].try_into().expect("2 bytes"));
    assert!(program.starts_with(b"\x7fELF\x02\x01"), "programs are 64-bit little-endian ELF files");
    let (headers, size, count) = (word(32) as usize, half(54) as usize, half(56) as usize);
    for header in (0..count).map(|index| headers + index * size) {
        let kind_and_flags = word(header);
        if kind_and_flags as u32 != LOAD {
            continue;
        }
        let flags = kind_and_flags >> 32;
        let (offset, address) = (word(header + 8) as usize, word(header + 16));
        let (in_file, in_memory) = (word(header + 32) as usize, word(header + 40));
        assert!(address % PAGE as u64 == 0, "segments begin with a page");
        let count = in_memory.div_ceil(PAGE as u64);
        let pager = Box::new(Segment(&program[offset..offset + in_file]));
        let object =
            Object::with_pager(cpu::current(), count, count, pager).expect("there is memory");
        let mut protection = Protection::READ;
        protection.set(Protection::EXECUTE, flags & 1 != 0);
        protection.set(Protection::WRITE, flags & 2 != 0);
        let pages = Pages::new(Page(address / PAGE as u64), count);
        let sharing = Sharing::Private;
        let mapped = space.map_object(cpu::current(), pages, &object, 0, protection, sharing);
        mapped.expect("the pages are free, and there is memory");
    }
    word(24)
}
