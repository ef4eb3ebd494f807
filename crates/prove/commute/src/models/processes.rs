//! Processes, and descriptors that share open file descriptions.
//!
//! `fork` commutes with almost no descriptor operation of its process, because the child gets a copy
//! of all descriptors and can find out which were open at the time. `fork` does commute with `lseek`,
//! because parent and child share the offset. `posix_spawn` does the work of a `fork` and an `exec`,
//! but its caller names the descriptor that the child gets, so it commutes with operations on all
//! other descriptors. (Clements et al., "The scalable commutativity rule", SOSP 2013, section 4.)
//! Shared offsets have a cost: two `lseek` calls on different descriptors may fail to commute if one
//! descriptor is a `dup` of the other.
//!
//! The initial state has two processes. At most one initial descriptor of each process is
//! close-on-exec. Other processes may hold the initial open file descriptions, too, so the offsets
//! of these descriptions are always visible. `posix_spawn` closes all descriptors that its caller
//! does not name, as Apple's `posix_spawn` does with POSIX_SPAWN_CLOEXEC_DEFAULT. With POSIX's own
//! `posix_spawn`, the child inherits all descriptors that are not close-on-exec, so the call would
//! commute no more often than `fork`. Pids are left open, and children do not run.

use crate::models::descriptors::{DESCRIPTORS, Descriptors};
use crate::{
    Call, Int, Interface, Map, Natural, Operation, Outcome, Part, State, Stop, Term, TotalMap,
};
use crate::{Execution, Truth, join, sort, state};

sort!(File, Description, Pid);

state! {
    /// An open file description, which the copies of a descriptor share.
    struct Open {
        file: Term<File>,
        off: Natural,
    }
}

state! {
    /// A descriptor.
    struct Slot {
        description: Term<Description>,
        cloexec: Truth,
    }
}

/// The descriptors of a process.
#[derive(Debug, Clone)]
struct Process {
    fds: Descriptors<Slot>,
    /// In the initial state, this descriptor is close-on-exec if it is open, and no other descriptor is
    /// close-on-exec.
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
    /// Looks up the descriptor `fd`, and decides whether it is close-on-exec. Most operations do not need
    /// this decision, so they search `fds` directly.
    fn find(&self, fd: Int, execution: &mut Execution) -> Result<Option<Slot>, Stop> {
        let Some((mut slot, initial)) = self.fds.find(fd, execution)? else { return Ok(None) };
        if initial {
            let cloexec = execution.search(|execution| execution.same_int(fd, self.cloexec))?;
            slot.cloexec = Truth::Known(cloexec);
        }
        Ok(Some(slot))
    }

    /// Closes the close-on-exec descriptors.
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
    /// Two processes and their children.
    pub struct Processes {
        proc0: Process,
        proc1: Process,
        descriptions: TotalMap<Term<Description>, Open>,
        forked: Map<Term<Pid>, Process>,
        /// For each spawned child, the open file description of its only descriptor.
        spawned: Map<Term<Pid>, Term<Description>>,
    }
}

/// The calling process.
fn caller<'s>(state: &'s mut Processes, call: &mut Call<'_>) -> Result<&'s mut Process, Stop> {
    Ok(if call.process(2)? == 0 { &mut state.proc0 } else { &mut state.proc1 })
}

/// The calling process, the descriptor that the argument names, and the open file description of
/// this descriptor if it is open.
fn target<'s>(
    state: &'s mut Processes,
    call: &mut Call<'_>,
) -> Result<(&'s mut Process, Int, Option<Term<Description>>), Stop> {
    let process = caller(state, call)?;
    let fd = call.int("fd", 0..=DESCRIPTORS);
    let found = process.fds.find(fd, call.execution)?;
    Ok((process, fd, found.map(|(slot, _)| slot.description)))
}

/// Chooses the descriptor that a call returns.
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

/// Descriptors, and two ways to pass them to a child.
pub fn processes() -> Interface<Processes> {
    let operation = |name, about, apply| Operation { name, about, apply };
    Interface {
        name: "processes",
        about: "descriptors and children: fork copies all descriptors, posix_spawn passes only one",
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
            operation("lseek", "(fd, off): sets the offset, which copies of fd share", lseek),
            operation("fork", "(): the child has a copy of all descriptors", fork),
            operation("exec", "(): closes the close-on-exec descriptors", exec),
            operation("posix_spawn", "(fd): the child has only this descriptor", posix_spawn),
        ],
        ..Interface::default()
    }
}
