//! Memory calls. Addresses and offsets are in pages.

use crate::models::posix::fd;
use crate::models::posix::state::{Area, PROCESSES, Posix, Va};
use crate::{Call, Execution, Int, Natural, Outcome, State, Stop, Term, Truth};

/// The maximum offset `off` of `mmap`, in pages.
const PAGES: i64 = 1_000_000;

pub(super) fn mmap(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let process = call.process(PROCESSES)?;
    let anonymous = call.flag("anonymous")?;
    let mut area = Area::unknown(call.execution, "no memory");
    area.anonymous = Truth::Known(anonymous);
    if anonymous {
        area.datum = Term::constant(call.execution, "zeroes");
    } else {
        let fd = fd::fd_argument(call);
        match fd::file_of(state, process, fd, call)? {
            Err(error) => return Ok(Outcome::of(error)),
            Ok(inode) => area.inode = inode,
        }
        area.off = Natural(call.int("off", 0..=PAGES));
    }
    area.writable = Truth::Known(call.flag("writable")?);
    let va: Term<Va> = if call.flag("fixed")? {
        let va = call.term("va");
        tear_down(state, process, &va, call.execution)?;
        va
    } else {
        call.fresh("new va")?
    };
    state.process(process).memory.insert(va, area);
    Ok(Outcome::of(va))
}

/// Asks which kind of page is mapped at `va`. The result of the call does not depend on this kind. But an
/// implementation does different work for an unmapped address, for anonymous memory and for a page of a file,
/// so each case needs its own test.
fn tear_down(
    state: &mut Posix,
    process: u8,
    va: &Term<Va>,
    execution: &mut Execution,
) -> Result<(), Stop> {
    if let Some(area) = state.process(process).memory.get(va, execution)? {
        area.anonymous.ask(execution)?;
    }
    Ok(())
}

pub(super) fn munmap(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let process = call.process(PROCESSES)?;
    let va = call.term("va");
    tear_down(state, process, &va, call.execution)?;
    state.process(process).memory.remove(va);
    Ok(Outcome::of("0"))
}

pub(super) fn mprotect(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let process = call.process(PROCESSES)?;
    let va = call.term("va");
    let memory = &mut state.process(process).memory;
    let Some(mut area) = memory.get(&va, call.execution)? else { return Ok(Outcome::of("ENOMEM")) };
    area.writable = Truth::Known(call.flag("writable")?);
    memory.insert(va, area);
    Ok(Outcome::of("0"))
}

/// The calling process, the address that the argument names, and the page that is mapped there.
fn access(state: &mut Posix, call: &mut Call<'_>) -> Result<(u8, Term<Va>, Option<Area>), Stop> {
    let process = call.process(PROCESSES)?;
    let va = call.term("va");
    let area = state.process(process).memory.get(&va, call.execution)?;
    Ok((process, va, area))
}

pub(super) fn memread(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (_, _, Some(area)) = access(state, call)? else { return Ok(Outcome::of("SIGSEGV")) };
    if area.anonymous.ask(call.execution)? {
        return Ok(Outcome::of(area.datum));
    }
    let off: Int = area.off.0;
    let datum = state.inodes.get(&area.inode, call.execution)?.data.read(off, call.execution)?;
    Ok(datum.map_or(Outcome::of("SIGBUS"), Outcome::of))
}

pub(super) fn memwrite(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (process, va, Some(mut area)) = access(state, call)? else {
        return Ok(Outcome::of("SIGSEGV"));
    };
    if !area.writable.ask(call.execution)? {
        return Ok(Outcome::of("SIGSEGV"));
    }
    let datum = call.term("datum");
    if area.anonymous.ask(call.execution)? {
        area.datum = datum;
        state.process(process).memory.insert(va, area);
        return Ok(Outcome::of("0"));
    }
    let mut file = state.inodes.get(&area.inode, call.execution)?;
    if call.execution.at_most(file.data.len.0, area.off.0)? {
        return Ok(Outcome::of("SIGBUS"));
    }
    file.data.write(area.off.0, datum, call.execution)?;
    state.inodes.insert(area.inode, file);
    Ok(Outcome::of("0"))
}
