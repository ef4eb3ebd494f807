//! Processes, and descriptors that share what they refer to.
//!
//! What is surprising: `fork` commutes with almost nothing that its process does to descriptors,
//! because the child gets a copy of them all and so can tell which were open at the time. An
//! `lseek` next to a `fork` commutes all the same: the offset is no part of what is copied, parent
//! and child share it. `posix_spawn` does the work of a `fork` and an `exec` but names what the
//! child gets, and commutes with all that is done to other descriptors. (Clements et al., "The
//! scalable commutativity rule", SOSP 2013, section 4.) A descriptor that is shared keeps the cost
//! of the offset: two `lseek` of different descriptors need not commute, if one was made by `dup`.
//!
//! There are two processes at first. Of the descriptors that one of them has then, at most one is
//! close-on-exec. What was open at first may be held by others too, so its offset can always be
//! seen. `posix_spawn` closes all that it does not name, as Apple's does with
//! POSIX_SPAWN_CLOEXEC_DEFAULT; the one of POSIX lets the child inherit what is not close-on-exec,
//! and would commute with no more than `fork` does. Pids are left open, and children do not run.

use crate::models::descriptors::{DESCRIPTORS, Descriptors};
use crate::{
    Call, Int, Interface, Map, Natural, Operation, Outcome, Part, State, Stop, Term, TotalMap,
};
use crate::{Execution, Truth, join, sort, state};

sort!(File, Description, Pid);

state! {
    /// An open file description: what all descriptors that were made of it share.
    struct Open {
        file: Term<File>,
        off: Natural,
    }
}

state! {
    /// What a descriptor refers to.
    struct Slot {
        description: Term<Description>,
        cloexec: Truth,
    }
}

/// The descriptors of a process.
#[derive(Debug, Clone)]
struct Process {
    fds: Descriptors<Slot>,
    /// Of those that were open at first this one is close-on-exec, if it was open.
    cloexec: Int,
}

impl State for Process {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        let cloexec = execution.int(&join(label, "cloexec"), Some(0), Some(DESCRIPTORS));
        Self { fds: Descriptors::unknown(execution, &join(label, "fds")), cloexec }
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        for fd in self.fds.written().chain(other.fds.written()) {
            let same = match (self.find(fd, execution)?, other.find(fd, execution)?) {
                (Some(a), Some(b)) => a.same(&b, execution)?,
                (a, b) => execution.same_presence(a.is_some(), b.is_some()),
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show(&self, execution: &Execution) -> String {
        self.fds.show(execution)
    }

    fn part(&self, execution: &mut Execution) -> Part {
        let mut slots = Vec::new();
        for (fd, slot) in self.fds.known(execution) {
            let slot = slot.map(|slot| {
                let [below, above] = [(fd, self.cloexec), (self.cloexec, fd)].map(|(a, b)| {
                    execution.facts().answer(&crate::Question::AtMost(a, b)) == Some(true)
                });
                let cloexec = Part::Truth(Truth::Known(below && above));
                let description = slot.description.part(execution);
                Part::Fields(vec![("description", description), ("cloexec", cloexec)])
            });
            slots.push((Part::Int(fd), slot));
        }
        Part::Fields(vec![("fds", Part::Entries(slots))])
    }
}

impl Process {
    /// What `fd` refers to, and whether it is close-on-exec, which only few care for.
    fn find(&self, fd: Int, execution: &mut Execution) -> Result<Option<Slot>, Stop> {
        let Some((mut slot, initial)) = self.fds.find(fd, execution)? else { return Ok(None) };
        if initial {
            let cloexec = execution.search(|execution| execution.same_int(fd, self.cloexec))?;
            slot.cloexec = Truth::Known(cloexec);
        }
        Ok(Some(slot))
    }

    /// Closes what is close-on-exec.
    fn exec(&mut self, execution: &mut Execution) -> Result<(), Stop> {
        let written: Vec<Int> = self.fds.written().collect();
        for fd in written.into_iter().chain([self.cloexec]) {
            if let Some(slot) = self.find(fd, execution)?
                && slot.cloexec.ask(execution)?
            {
                self.fds.remove(fd);
            }
        }
        Ok(())
    }
}

state! {
    /// Two processes, and the children that they make.
    pub struct Processes {
        proc0: Process,
        proc1: Process,
        descriptions: TotalMap<Term<Description>, Open>,
        forked: Map<Term<Pid>, Process>,
        /// What the one descriptor of a child refers to.
        spawned: Map<Term<Pid>, Term<Description>>,
    }
}

/// Who calls.
fn caller<'s>(state: &'s mut Processes, call: &mut Call<'_>) -> Result<&'s mut Process, Stop> {
    Ok(if call.process()? == 0 { &mut state.proc0 } else { &mut state.proc1 })
}

/// Who calls, and what the descriptor of the argument refers to.
fn target<'s>(
    state: &'s mut Processes,
    call: &mut Call<'_>,
) -> Result<(&'s mut Process, Int, Option<Term<Description>>), Stop> {
    let process = caller(state, call)?;
    let fd = call.int("fd", 0..=DESCRIPTORS);
    let found = process.fds.find(fd, call.execution)?;
    Ok((process, fd, found.map(|(slot, _)| slot.description)))
}

/// Which descriptor a call hands out.
type Choose = fn(&Process, &mut Call<'_>) -> Result<Int, Stop>;

const LOWEST: Choose = |process, call| process.fds.lowest(call.execution);
const ANY: Choose = |process, call| process.fds.any(0, call);

fn open(state: &mut Processes, call: &mut Call<'_>, choose: Choose) -> Result<Outcome, Stop> {
    let description = call.fresh("description")?;
    let new = Open { file: call.term("file"), off: Natural(0.into()) };
    state.descriptions.insert(description, new);
    let process = caller(state, call)?;
    let fd = choose(process, call)?;
    let cloexec = Truth::Known(call.flag("cloexec")?);
    process.fds.insert(fd, Slot { description, cloexec });
    Ok(Outcome::of(fd))
}

fn dup(state: &mut Processes, call: &mut Call<'_>, choose: Choose) -> Result<Outcome, Stop> {
    let (process, _, found) = target(state, call)?;
    let Some(description) = found else { return Ok(Outcome::of("EBADF")) };
    let fd = choose(process, call)?;
    process.fds.insert(fd, Slot { description, cloexec: Truth::Known(false) });
    Ok(Outcome::of(fd))
}

fn dup2(state: &mut Processes, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (process, fd, found) = target(state, call)?;
    let Some(description) = found else { return Ok(Outcome::of("EBADF")) };
    let new = call.int("new", 0..=DESCRIPTORS);
    if !new.same(&fd, call.execution)? {
        process.fds.insert(new, Slot { description, cloexec: Truth::Known(false) });
    }
    Ok(Outcome::of(new))
}

fn close(state: &mut Processes, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (process, fd, Some(_)) = target(state, call)? else { return Ok(Outcome::of("EBADF")) };
    process.fds.remove(fd);
    Ok(Outcome::of("0"))
}

fn lseek(state: &mut Processes, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let Some(description) = target(state, call)?.2 else { return Ok(Outcome::of("EBADF")) };
    let mut open = state.descriptions.get(&description, call.execution)?;
    open.off = Natural(call.int("off", 0..=DESCRIPTORS));
    state.descriptions.insert(description, open);
    Ok(Outcome::of("0"))
}

fn fork(state: &mut Processes, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let child = caller(state, call)?.clone();
    let pid = call.fresh("pid")?;
    state.forked.insert(pid, child);
    Ok(Outcome::of(pid))
}

fn exec(state: &mut Processes, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    caller(state, call)?.exec(call.execution)?;
    Ok(Outcome::nothing())
}

fn posix_spawn(state: &mut Processes, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let Some(description) = target(state, call)?.2 else { return Ok(Outcome::of("EBADF")) };
    let pid = call.fresh("pid")?;
    state.spawned.insert(pid, description);
    Ok(Outcome::of(pid))
}

/// Descriptors, and the two ways to hand them to a child.
pub fn processes() -> Interface<Processes> {
    let operation = |name, about, apply| Operation { name, about, apply };
    Interface {
        name: "processes",
        about: "descriptors and children: fork copies all descriptors, posix_spawn passes a few",
        operations: vec![
            operation("open", "(file, cloexec): the lowest unused descriptor", |state, call| {
                open(state, call, LOWEST)
            }),
            operation("open_anyfd", "(file, cloexec): any unused descriptor", |state, call| {
                open(state, call, ANY)
            }),
            operation("close", "(fd)", close),
            operation("dup", "(fd): the lowest unused descriptor", |state, call| {
                dup(state, call, LOWEST)
            }),
            operation("dup_anyfd", "(fd): any unused descriptor", |state, call| {
                dup(state, call, ANY)
            }),
            operation("dup2", "(fd, new): closes new first if it is open", dup2),
            operation("lseek", "(fd, off): sets the offset that is shared", lseek),
            operation("fork", "(): the child has a copy of all descriptors", fork),
            operation("exec", "(): closes the close-on-exec descriptors", exec),
            operation("posix_spawn", "(fd): the child has this descriptor, no other", posix_spawn),
        ],
        ..Interface::default()
    }
}
