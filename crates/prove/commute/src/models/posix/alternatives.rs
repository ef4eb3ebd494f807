//! Calls that POSIX might have had, next to those that it has, with the same state.
//!
//! What is surprising is how little has to be given up. `fstatx` tells all that `fstat` does but
//! the number of links, and commutes with every `link` and `unlink`. `open_anyfd` and `pipe_anyfd`
//! return any unused descriptor, where nobody ever needed the lowest. (Clements et al., "The
//! scalable commutativity rule", SOSP 2013, section 4.) `munmap` takes effect at once, for all
//! threads of a process, and so does not commute with any access to the page, and every core is
//! interrupted for it. `munmap_delayed` lets accesses go on until `munmap_wait`, commutes with all
//! of them, and leaves it to the caller to wait before it relies on the page being gone.
//!
//! Between the two a page is mapped as before, so what an access finds is not left open: it is the
//! page. That is one of the choices that an implementation has, and one that lets accesses agree
//! in every order. `mmap` and `munmap` of the page end the delay: it is gone, or another one.

use crate::models::posix::state::Posix;
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

/// Maps or unmaps a page, which no longer leaves then.
fn at_once(
    state: &mut Posix,
    call: &mut Call<'_>,
    apply: fn(&mut Posix, &mut Call<'_>) -> Result<Outcome, Stop>,
) -> Result<Outcome, Stop> {
    let process = call.process()?;
    let before = state.process(process).memory.writes().len();
    let outcome = apply(state, call)?;
    let process = state.process(process);
    let changed = process.memory.writes()[before..].iter().map(|(va, _)| *va);
    changed.for_each(|va| process.leaving.remove(va));
    Ok(outcome)
}

fn munmap_delayed(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let process = call.process()?;
    let va = call.term("va");
    let process = state.process(process);
    if process.memory.contains(&va, call.execution)? {
        process.leaving.insert(va, ());
    }
    Ok(Outcome::of("0"))
}

fn munmap_wait(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let process = call.process()?;
    let va = call.term("va");
    let process = state.process(process);
    // Only what is mapped can leave.
    if process.memory.contains(&va, call.execution)?
        && process.leaving.contains(&va, call.execution)?
    {
        process.memory.remove(va);
        process.leaving.remove(va);
    }
    Ok(Outcome::of("0"))
}

/// What is gained by asking for less.
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
            operation("fstatx", "(fd): the same without the number of links", fstatx),
            operation("close", "(fd)", fd::close),
            operation("pipe", "(): the two lowest unused descriptors", fd::pipe),
            operation("pipe_anyfd", "(): any two unused descriptors", pipe_anyfd),
            operation(
                "mmap",
                "(anonymous or fd and off, writable, fixed va or any): a page of memory",
                |state, call| at_once(state, call, memory::mmap),
            ),
            operation("munmap", "(va): at once", |state, call| {
                at_once(state, call, memory::munmap)
            }),
            operation("munmap_delayed", "(va): takes effect at munmap_wait", munmap_delayed),
            operation("munmap_wait", "(va): a page that leaves is gone now", munmap_wait),
            operation("memread", "(va): loads from memory", memory::memread),
            operation("memwrite", "(va, datum): stores to memory", memory::memwrite),
        ],
        setup: Some(setup::setup),
        ..Interface::default()
    }
}
