//! The kernel's heap. Block sizes are powers of two, and each CPU has a list of free blocks for each size.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use crate::arch::{MOST_CPUS, cpu_number};
use crate::lock::Lock;

/// The smallest block has `1 << LEAST` bytes.
const LEAST: u32 = 4;
/// The number of block sizes. The largest block is 32 MiB.
const SIZES: usize = 22;
/// The minimum number of bytes that a CPU takes from undivided memory at a time.
const BATCH: usize = 1 << 16;

/// A free block starts with the link to the next one.
type List = Option<NonNull<Block>>;

struct Block(List);

/// A CPU's free blocks, by size, and the memory that it has not divided into blocks yet.
struct Own {
    lists: [List; SIZES],
    rest: (usize, usize),
}

// SAFETY: free blocks belong to the heap.
unsafe impl Send for Own {}

struct Heap {
    own: [Lock<Own>; MOST_CPUS],
    /// Memory that no CPU has taken yet: an address and a number of bytes.
    rest: Lock<(usize, usize)>,
}

#[global_allocator]
static HEAP: Heap = Heap {
    own: [const { Lock::new(Own { lists: [None; SIZES], rest: (0, 0) }) }; MOST_CPUS],
    rest: Lock::new((0, 0)),
};

/// Gives the heap its memory.
///
/// # Safety
/// The memory must be unused, and aligned to 4096 bytes.
pub(crate) unsafe fn init(start: usize, bytes: usize) {
    *HEAP.rest.lock() = (start, bytes);
}

/// Returns the index of the smallest block size that fits this layout.
fn size_of_block(layout: Layout) -> usize {
    let bytes = layout.size().max(layout.align()).max(1 << LEAST).next_power_of_two();
    (bytes.trailing_zeros() - LEAST) as usize
}

/// Takes a block from undivided memory. Blocks of a page or more are aligned to a page, and smaller blocks to
/// their size.
fn divide(rest: &mut (usize, usize), bytes: usize) -> Option<NonNull<Block>> {
    let (start, left) = *rest;
    let at = start.next_multiple_of(bytes.min(4096));
    let used = at - start + bytes;
    *rest = (start + used, left.checked_sub(used)?);
    NonNull::new(ptr::with_exposed_provenance_mut(at))
}

// SAFETY: blocks are disjoint, and each block has one user at a time. A block's size and alignment are at
// least those of the layout.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = size_of_block(layout);
        if size >= SIZES || layout.align() > 4096 {
            return ptr::null_mut();
        }
        let bytes = 1 << (size as u32 + LEAST);
        let mut own = self.own[cpu_number()].lock();
        if let Some(block) = own.lists[size] {
            // SAFETY: a free block starts with the link.
            own.lists[size] = unsafe { block.as_ref().0 };
            return block.as_ptr().cast();
        }
        let block = divide(&mut own.rest, bytes).or_else(|| {
            let mut rest = self.rest.lock();
            let batch = bytes.max(BATCH);
            let start = divide(&mut rest, batch)?;
            own.rest = (start.addr().get(), batch);
            divide(&mut own.rest, bytes)
        });
        block.map_or(ptr::null_mut(), |block| block.as_ptr().cast())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let size = size_of_block(layout);
        let Some(block) = NonNull::new(block.cast::<Block>()) else { return };
        let mut own = self.own[cpu_number()].lock();
        // SAFETY: the block is free, and large enough for the link.
        unsafe { block.write(Block(own.lists[size])) };
        own.lists[size] = Some(block);
    }
}
