//! Moving the end of the heap up and down by a page; each of the two calls counts.
//!
//! A process has one break. In thread mode all tasks move it between the same two places, so a
//! call may find it where it is to go; it takes the lock of the address space for writing all the
//! same, and that is what thread mode measures. (In will-it-scale threads use different places,
//! each what `sbrk` happens to say at its start, and so unmap what their neighbour has mapped.)
//!
//! `malloc` has memory below the break. It stays mapped, because
//! - nobody moves the break below [`Break::base`], which is above all that the C library had when
//!   all tasks had been created (the break is read after the start gate, and from then on nobody
//!   allocates: tasks only loop, the thread that created them sleeps);
//! - should the C library extend its heap all the same, there is a gap for it: it goes on from
//!   its own idea of the break, which system calls do not change.

use knee_run::{During, Family, Outcome, Task, TaskError, Testcase};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "brk1",
        description: "brk() up by a page, which creates a mapping, and down again; counts both",
        ..Testcase::new(Family::Memory, brk1)
    },
    Testcase {
        name: "brk2",
        description: "brk() up by a page, which extends a mapping, and down again; counts both",
        ..Testcase::new(Family::Memory, brk2)
    },
];

fn brk1(task: &Task<'_>) -> Outcome {
    up_and_down(task, Page::OwnMap)
}

fn brk2(task: &Task<'_>) -> Outcome {
    up_and_down(task, Page::Extension)
}

/// Room for the C library between the heap that it knows and the page that comes and goes.
const GAP: usize = 1 << 20;

/// What the page above the base becomes.
#[derive(PartialEq)]
enum Page {
    /// A map of its own, made and destroyed each time.
    OwnMap,
    /// More of the map below it.
    Extension,
}

fn up_and_down(task: &Task<'_>, page: Page) -> Outcome {
    let mut count = task.start();
    let heap = Break::claim(page)?;
    loop {
        heap.up()?;
        heap.down()?;
        count.add(2);
    }
}

/// The break of this process.
struct Break {
    base: usize,
    page: usize,
}

impl Break {
    /// Reads the break and puts the gap above it.
    fn claim(kind: Page) -> Result<Self, TaskError> {
        let page = page_size();
        // SAFETY: an increment of 0 only asks where the heap ends.
        let end = unsafe { libc::sbrk(0) };
        if end.addr() == usize::MAX {
            return Err(TaskError::last("sbrk"));
        }
        let gap = end.addr().next_multiple_of(page);
        let heap = Self { base: gap + GAP, page };
        heap.down()?;
        if kind == Page::OwnMap {
            // Maps with different flags are never merged. will-it-scale relies on the heap having
            // been inherited by `fork`, which prevents it too but not in thread mode.
            // SAFETY: this decides what a core dump contains, nothing else.
            unsafe {
                madvise(end.with_addr(gap), GAP, Advice::LinuxDontDump).during("madvise")?;
            }
        }
        Ok(heap)
    }

    #[inline]
    fn up(&self) -> Result<(), TaskError> {
        set_break(self.base + self.page)
    }

    #[inline]
    fn down(&self) -> Result<(), TaskError> {
        set_break(self.base)
    }
}

/// Only for [`Break`], whose addresses are not below its base.
#[inline]
fn set_break(to: usize) -> Result<(), TaskError> {
    // SAFETY: `to` is at or above `Break::base`, so what this may unmap is the page above it or,
    // before the loop, nothing; no one keeps anything there (see the head of this file).
    let at = unsafe { libc::syscall(libc::SYS_brk, to) };
    // The kernel answers with the address asked for, or with the old break if it refuses; not
    // with where another thread has moved it meanwhile.
    if at as usize == to { Ok(()) } else { Err(TaskError::new("brk", Errno::NOMEM)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_break_goes_up_and_down_and_the_heap_survives() {
        let on_the_heap = vec![1u8; 100 << 10];
        for kind in [Page::OwnMap, Page::Extension] {
            let heap = Break::claim(kind).unwrap();
            for _ in 0..100 {
                heap.up().unwrap();
                heap.down().unwrap();
            }
        }
        let grown: Vec<_> = (0..200u8).map(|i| vec![i; 10 << 10]).collect();
        assert!(on_the_heap.iter().all(|&byte| byte == 1));
        assert!(grown.iter().zip(0..200u8).all(|(bytes, i)| bytes.iter().all(|&b| b == i)));
    }
}
