//! Address spaces, in pages.

use super::{Datum, Inode, Posix, Va};
use crate::models::posix::fd;
use crate::{Call, Int, Natural, Outcome, Part, State, Stop, Term, Truth, World};

/// Pages of a file that can be mapped.
const PAGES: i64 = 1_000_000;

/// A mapped page.
#[derive(Debug, Clone)]
pub(super) struct Area {
    pub(super) anonymous: Truth,
    pub(super) writable: Truth,
    /// Of anonymous memory.
    pub(super) datum: Term<Datum>,
    /// Of a file.
    pub(super) inode: Term<Inode>,
    pub(super) off: Natural,
}

impl State for Area {
    fn unknown(world: &mut World, label: &str) -> Self {
        Self {
            anonymous: Truth::unknown(world, &format!("{label} is anonymous")),
            writable: Truth::unknown(world, &format!("{label} is writable")),
            datum: Term::unknown(world, &format!("{label}.datum")),
            inode: Term::unknown(world, &format!("{label}.inode")),
            off: Natural::unknown(world, &format!("{label}.off")),
        }
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        let kinds = ["anonymous memory", "a page of a file"];
        let permissions = ["writable memory", "read-only memory"];
        if !self.anonymous.same_in_words(&other.anonymous, kinds, world)?
            || !self.writable.same_in_words(&other.writable, permissions, world)?
        {
            return Ok(false);
        }
        Ok(if self.anonymous.ask(world)? {
            self.datum.same(&other.datum, world)?
        } else {
            self.inode.same(&other.inode, world)? && self.off.same(&other.off, world)?
        })
    }

    fn show(&self, world: &World) -> String {
        self.datum.show(world)
    }

    fn part(&self, world: &mut World) -> Part {
        Part::Fields(match self.anonymous.known(world) {
            Some(false) => vec![("inode", self.inode.part(world))],
            Some(true) => vec![("datum", self.datum.part(world))],
            None => Vec::new(),
        })
    }
}

pub(super) fn mmap(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let process = call.process()?;
    let anonymous = call.flag("anonymous")?;
    let mut area = Area::unknown(call.world, "no memory");
    area.anonymous = Truth::Known(anonymous);
    if anonymous {
        area.datum = Term::constant(call.world, "zeroes");
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
        tear_down(state, process, &va, call.world)?;
        va
    } else {
        call.fresh("new va")?
    };
    state.process(process).memory.insert(va, area);
    Ok(Outcome::of(va))
}

/// Looks at what has to go. Nobody sees a difference, but tests should have each: to unmap nothing,
/// anonymous memory or a page of a file is not the same work.
fn tear_down(state: &mut Posix, process: u8, va: &Term<Va>, world: &mut World) -> Result<(), Stop> {
    if let Some(area) = state.process(process).memory.get(va, world)? {
        area.anonymous.ask(world)?;
    }
    Ok(())
}

pub(super) fn munmap(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let process = call.process()?;
    let va = call.term("va");
    tear_down(state, process, &va, call.world)?;
    state.process(process).memory.remove(va);
    Ok(Outcome::of("0"))
}

pub(super) fn mprotect(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let process = call.process()?;
    let va = call.term("va");
    let memory = &mut state.process(process).memory;
    let Some(mut area) = memory.get(&va, call.world)? else { return Ok(Outcome::of("ENOMEM")) };
    area.writable = Truth::Known(call.flag("writable")?);
    memory.insert(va, area);
    Ok(Outcome::of("0"))
}

/// The area of the argument, the page of the file that is mapped there if one is, and who calls.
fn access(state: &mut Posix, call: &mut Call<'_>) -> Result<(u8, Term<Va>, Option<Area>), Stop> {
    let process = call.process()?;
    let va = call.term("va");
    let area = state.process(process).memory.get(&va, call.world)?;
    Ok((process, va, area))
}

pub(super) fn memread(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (_, _, Some(area)) = access(state, call)? else { return Ok(Outcome::of("SIGSEGV")) };
    if area.anonymous.ask(call.world)? {
        return Ok(Outcome::of(area.datum));
    }
    let off: Int = area.off.0;
    let datum = state.inodes.get(&area.inode, call.world)?.data.read(off, call.world)?;
    Ok(datum.map_or(Outcome::of("SIGBUS"), Outcome::of))
}

pub(super) fn memwrite(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (process, va, Some(mut area)) = access(state, call)? else {
        return Ok(Outcome::of("SIGSEGV"));
    };
    if !area.writable.ask(call.world)? {
        return Ok(Outcome::of("SIGSEGV"));
    }
    let datum = call.term("datum");
    if area.anonymous.ask(call.world)? {
        area.datum = datum;
        state.process(process).memory.insert(va, area);
        return Ok(Outcome::of("0"));
    }
    let mut file = state.inodes.get(&area.inode, call.world)?;
    if call.world.at_most(file.data.len.0, area.off.0)? {
        return Ok(Outcome::of("SIGBUS"));
    }
    file.data.write(area.off.0, datum, call.world)?;
    state.inodes.insert(area.inode, file);
    Ok(Outcome::of("0"))
}
