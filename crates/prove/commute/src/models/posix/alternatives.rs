//! Alternatives to POSIX calls, next to the originals and with the same state.
//!
//! A small change to an interface is often enough to make more calls commute. `fstatx` returns the
//! same values as `fstat` except the number of links, and commutes with every `link` and `unlink`.
//! `open_anyfd` and `pipe_anyfd` return any unused descriptors, because few callers need the lowest
//! descriptors. (Clements et al., "The scalable commutativity rule", SOSP 2013, section 4.) `munmap`
//! takes effect at once, for all threads of a process. So `munmap` commutes with no access to the page, and
//! must interrupt every core that runs a thread of the process. `munmap_delayed` permits accesses until
//! `munmap_wait`, and commutes with all these accesses. A caller must call `munmap_wait` before it relies on
//! the page being unmapped.
//!
//! In this model, the page stays mapped between `munmap_delayed` and `munmap_wait`, so that accesses
//! have the same results in every order. An implementation could also unmap the page earlier. If `mmap`
//! or `munmap` changes the page in the meantime, the delayed unmapping is cancelled.

use crate::models::posix::state::{PROCESSES, Posix};
use crate::models::posix::{fd, file, memory, setup};
use crate::{Call, Interface, Operation, Outcome, Stop};

fn open_anyfd(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    file::open_as(state, call, |fds, call| fds.any(0, call))
}

fn pipe_anyfd(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    fd::pipe_as(state, call, |fds, nth, call| fds.any(nth, call))
}

fn fstatx(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    Ok(fd::fstat(state, call)?.without("nlink"))
}

/// Maps or unmaps a page, and cancels a delayed unmapping of this page.
fn at_once(
    state: &mut Posix,
    call: &mut Call<'_>,
    apply: fn(&mut Posix, &mut Call<'_>) -> Result<Outcome, Stop>,
) -> Result<Outcome, Stop> {
    let process = call.process(PROCESSES)?;
    let before = state.process(process).memory.writes().len();
    let outcome = apply(state, call)?;
    let process = state.process(process);
    let changed = process.memory.writes()[before..].iter().map(|(va, _)| *va);
    changed.for_each(|va| process.leaving.remove(va));
    Ok(outcome)
}

fn munmap_delayed(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let process = call.process(PROCESSES)?;
    let va = call.term("va");
    let process = state.process(process);
    if process.memory.contains(&va, call.execution)? {
        process.leaving.insert(va, ());
    }
    Ok(Outcome::of("0"))
}

fn munmap_wait(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let process = call.process(PROCESSES)?;
    let va = call.term("va");
    let process = state.process(process);
    // Only a mapped page can have a delayed unmapping.
    if process.memory.contains(&va, call.execution)?
        && process.leaving.contains(&va, call.execution)?
    {
        process.memory.remove(va);
        process.leaving.remove(va);
    }
    Ok(Outcome::of("0"))
}

/// POSIX calls, and alternatives that promise less.
pub fn posix_plus() -> Interface<Posix> {
    let operation = |name, about, apply| Operation { name, about, apply };
    Interface {
        name: "posix+",
        about: "POSIX calls and alternatives that return or promise less, and commute more often",
        operations: vec![
            operation(
                "open",
                "(name, creat, excl, trunc, anyfd): the lowest unused descriptor, or any",
                file::open,
            ),
            operation(
                "open_anyfd",
                "(name, creat, excl, trunc): any unused descriptor",
                open_anyfd,
            ),
            operation("link", "(old, new)", file::link),
            operation("unlink", "(name)", file::unlink),
            operation("fstat", "(fd): inode, size, links, times of an open file", fd::fstat),
            operation("fstatx", "(fd): the same as fstat without the number of links", fstatx),
            operation("close", "(fd)", fd::close),
            operation("pipe", "(): the two lowest unused descriptors", fd::pipe),
            operation("pipe_anyfd", "(): any two unused descriptors", pipe_anyfd),
            operation(
                "mmap",
                "(anonymous or fd and off, writable, fixed va or any): a page of memory",
                |state, call| at_once(state, call, memory::mmap),
            ),
            operation("munmap", "(va): takes effect at once", |state, call| {
                at_once(state, call, memory::munmap)
            }),
            operation("munmap_delayed", "(va): takes effect at munmap_wait", munmap_delayed),
            operation(
                "munmap_wait",
                "(va): completes a delayed unmapping of the page",
                munmap_wait,
            ),
            operation("memread", "(va): loads from memory", memory::memread),
            operation("memwrite", "(va, datum): stores to memory", memory::memwrite),
        ],
        setup: Some(setup::setup),
        ..Interface::default()
    }
}
