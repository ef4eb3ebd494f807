//! The mode for `knee commute check`: the kernel runs the tests that the host has stored in memory, while
//! knee's QEMU plugin traces them.
//!
//! On Linux, the `knee-agent` crate runs these tests. As in that crate, the same processes run all tests, and
//! CPU `nr` makes call `nr` of a test. The [tasks](crate::tasks) make the calls, and this module sets up the
//! state.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use knee_marks::Mark;
use knee_operations::page_at;
use knee_plan::{
    Call, Done, Home, MOST, Mapped, Nr, PROCESSES, Plan, Returned, Run, Session, Shared, Step,
    content, run as run_orders, run_plans,
};
use knee_vm::{PAGE, Page, Pages, Protection, VirtAddr};

use crate::command::{Command, MemoryCall, SIGNAL};
use crate::cpu::{self, current};
use crate::files::{self, File, Open};
use crate::jobs;
use crate::tasks::{self, Tasks};

/// Runs the tests in the `frames` frames of memory at `at`.
///
/// # Safety
/// The memory must be page-aligned, and nothing else may use it. Only the first CPU may call this function,
/// and only once.
pub(crate) unsafe fn run(at: *mut u8, frames: u64) {
    // SAFETY: the caller guarantees that the memory is page-aligned and that only this module uses it.
    let shared = unsafe { Shared::new(at, frames as usize * PAGE) };
    let mut shared = shared.expect("the host has reserved memory for the header");
    // SAFETY: the caller guarantees that this is the only call.
    unsafe { files::init() };
    tasks::prepare(cpu::count());
    let tasks = [(); PROCESSES].map(|()| Tasks::start(cpu::count(), false));
    let ran =
        run_plans(&mut shared, |plan, untraced, again| run_plan(&tasks, plan, untraced, again));
    ran.expect("the host has reserved memory for the reports");
    tasks.into_iter().for_each(Tasks::end);
}

/// Runs each order of a plan. Returns the results, and the number of traced runs.
fn run_plan(
    tasks: &[Tasks; PROCESSES],
    plan: &Plan,
    untraced: u32,
    again: impl FnMut(u32) -> bool,
) -> (Done, u64) {
    let mut processes = Processes { tasks, plan, chosen: Vec::new(), runs: Vec::new() };
    let orders = plan.orders.iter().map(|order| order.calls.as_slice());
    let (ran, seen) = run_orders(&mut processes, orders, untraced, again);
    (ran.map_or_else(Done::SetupFailed, |()| Done::Ran(processes.runs)), seen)
}

/// The processes that run a plan.
struct Processes<'a> {
    tasks: &'a [Tasks; PROCESSES],
    plan: &'a Plan,
    /// The pages that the kernel has chosen for mappings.
    chosen: Vec<Chosen>,
    runs: Vec<Run>,
}

/// A page that the kernel has chosen for a mapping.
struct Chosen {
    process: usize,
    cpu: usize,
    page: Page,
}

impl Session for Processes<'_> {
    type State = ();
    type Returned = Returned;
    type Error = String;

    fn emit(&mut self, mark: Mark) {
        let command = if mark == Mark::Begin { Command::Begin } else { Command::End };
        self.tasks[0].turn(0, Some(command));
    }

    fn set_up(&mut self) -> Result<(), String> {
        for (_, call) in &self.plan.calls {
            memory_call(call).map_err(|why| format!("{call:?}: {why}"))?;
        }
        let mut files = Vec::new();
        let set_up = self.plan.steps.iter().try_for_each(|(process, step)| {
            let made = self.step(usize::from(*process), step, &mut files);
            made.map_err(|why| format!("{step:?}: {why}"))
        });
        if set_up.is_err() {
            self.clean();
        }
        set_up
    }

    fn call(&mut self, (): &(), nr: usize, _traced: bool) -> Returned {
        let (process, call) = &self.plan.calls[nr];
        let Ok(call) = memory_call(call) else { return Returned::Nothing };
        let process = usize::from(*process);
        let returned = self.turn(process, nr, nr as u8, call);
        if let (Returned::Address(at), MemoryCall::Mmap { page: None, .. }) = (returned, call) {
            let (cpu, page) = (nr % cpu::count(), VirtAddr(at as u64).page());
            self.chosen.push(Chosen { process, cpu, page });
        }
        returned
    }

    fn finish(&mut self, order: usize, (): (), returned: Vec<Returned>) -> Result<(), String> {
        self.clean();
        self.runs.push(Run { order, inodes: vec![], returned });
        Ok(())
    }
}

impl Processes<'_> {
    /// Makes a call on CPU `nr`, as a side of the test.
    fn turn(&self, process: usize, nr: usize, side: u8, call: MemoryCall) -> Returned {
        let cpu = nr % cpu::count();
        returned(call, self.tasks[process].turn(cpu, Some(Command::Call(side, call))))
    }

    /// Makes a call of the set-up on the CPU of this page. Fails if the call fails.
    fn prepare(&self, process: usize, page: Nr, call: MemoryCall) -> Result<(), String> {
        match self.turn(process, self.cpu_of(process, page), 0, call) {
            failed @ (Returned::Error(_) | Returned::Signal(_)) => {
                Err(format!("{call:?} returned {failed}"))
            }
            _ => Ok(()),
        }
    }

    /// The CPU that maps and unmaps a page of the test: the CPU of the call that uses the page, as if each
    /// thread of the program had mapped its own pages. So when a page is unmapped, its memory returns to the
    /// pools of the CPU that uses the page.
    fn cpu_of(&self, process: usize, page: Nr) -> usize {
        let uses =
            |(of, call): &(u8, Call)| usize::from(*of) == process && page_of(call) == Some(page);
        let nr = self.plan.calls.iter().position(uses).unwrap_or(process);
        nr % cpu::count()
    }

    /// Executes a step of the set-up. `files` lists the files that exist. Fails with the reason why the kernel
    /// cannot execute the step.
    fn step(
        &self,
        process: usize,
        step: &Step,
        files: &mut Vec<(Home, File)>,
    ) -> Result<(), String> {
        let find = |files: &[(Home, File)], home| {
            let file = files.iter().find(|(known, _)| *known == home).map(|(_, file)| *file);
            file.ok_or("no earlier step makes this file")
        };
        let set = |fd, open| self.tasks[process].process().descriptors.set(fd, open);
        match *step {
            Step::File { inode, home, pages, open, map, .. } => {
                let bytes = pages.as_slice().iter().map(|datum| content(*datum));
                let file = files::make(inode.into(), bytes).ok_or("the kernel has no such file")?;
                files.push((home, file));
                if let Some(open) = open {
                    set(open.fd, Some(Open::File(file)));
                }
                map.map_or(Ok(()), |map| self.map_file(process, file, map))?;
            }
            Step::Pipe { ends: [read, write], .. } => {
                set(read, Some(Open::ReadEnd));
                set(write, Some(Open::WriteEnd));
            }
            Step::OpenFile { home, open } => set(open.fd, Some(Open::File(find(files, home)?))),
            Step::OpenPipe { fd, write, .. } => {
                set(fd, Some(if write { Open::WriteEnd } else { Open::ReadEnd }));
            }
            Step::MapAnonymous { va, writable, datum } => {
                let make = |call| self.prepare(process, va, call);
                make(MemoryCall::Mmap { page: Some(va), file: None, writable: true })?;
                make(MemoryCall::Memwrite { page: va, value: content(datum) })?;
                if !writable {
                    make(MemoryCall::Mprotect { page: va, writable })?;
                }
            }
            Step::MapFile { home, map } => self.map_file(process, find(files, home)?, map)?,
            Step::Close { fd } => set(fd, None),
            // Files have no names here.
            Step::Forget { .. } => {}
            Step::Occupy { .. } | Step::Learn { .. } | Step::LearnOpen { .. } => {
                return Err("the kernel does not have this step".into());
            }
        }
        Ok(())
    }

    /// Maps a page of a file.
    fn map_file(&self, process: usize, file: File, map: Mapped) -> Result<(), String> {
        let descriptor = SET_UP;
        let call = MemoryCall::Mmap {
            page: Some(map.va),
            file: Some((descriptor, offset(map.off)?)),
            writable: map.writable,
        };
        self.tasks[process].process().descriptors.set(descriptor.into(), Some(Open::File(file)));
        let mapped = self.prepare(process, map.va, call);
        self.tasks[process].process().descriptors.set(descriptor.into(), None);
        mapped
    }

    /// Closes all descriptors, and unmaps all pages of the test.
    fn clean(&mut self) {
        for (process, tasks) in self.tasks.iter().enumerate() {
            let of = tasks.process();
            of.descriptors.clear();
            let pages: Vec<(usize, Page)> = (0..MOST as Nr)
                .map(|nr| (self.cpu_of(process, nr), VirtAddr(page_at(nr) as u64).page()))
                .collect();
            let chosen = self.chosen.iter().filter(|chosen| chosen.process == process);
            let chosen: Vec<(usize, Page)> =
                chosen.map(|chosen| (chosen.cpu, chosen.page)).collect();
            jobs::on_each_cpu(&|cpu| {
                let unmap = |pages: &[(usize, Page)]| {
                    for (_, page) in pages.iter().filter(|(of, _)| *of == cpu) {
                        let unmapped = of.space.unmap(current(), Pages::new(*page, 1));
                        unmapped.expect("no page is pinned");
                    }
                };
                unmap(&chosen);
                // `map_anywhere` chooses the address that the CPU unmapped most recently. This address must
                // not be a page of a test, because another call may use that page.
                let next = of.space.map_anywhere(current(), 1, Protection::READ);
                unmap(&pages);
                of.space
                    .unmap(current(), next.expect("there is memory"))
                    .expect("it is not pinned");
            });
        }
        self.chosen.clear();
    }
}

/// The descriptor through which a set-up maps files. No test uses it.
const SET_UP: u8 = 63;

/// The number of a descriptor that a test may use.
fn descriptor(fd: i32) -> Result<u8, String> {
    let number = u8::try_from(fd).ok().filter(|number| *number < SET_UP);
    number.ok_or_else(|| format!("the kernel has descriptors 0 to {}, not {fd}", SET_UP - 1))
}

/// The number of a page of a file.
fn offset(pages: i64) -> Result<u8, String> {
    let most = u8::MAX;
    u8::try_from(pages)
        .map_err(|_| format!("the kernel has offsets of 0 to {most} pages, not {pages}"))
}

/// The command for a call. Fails with the reason why the kernel cannot make the call.
fn memory_call(call: &Call) -> Result<MemoryCall, String> {
    Ok(match *call {
        Call::Mmap { fd, off, writable, va } => {
            let file = match fd {
                None => None,
                Some(fd) => Some((descriptor(fd)?, offset(off)?)),
            };
            MemoryCall::Mmap { page: va, file, writable }
        }
        Call::Munmap { va } => MemoryCall::Munmap { page: va },
        Call::Mprotect { va, writable } => MemoryCall::Mprotect { page: va, writable },
        Call::Memread { va } => MemoryCall::Memread { page: va },
        Call::Memwrite { va, datum } => MemoryCall::Memwrite { page: va, value: content(datum) },
        _ => return Err("the kernel does not have this call".into()),
    })
}

/// The page that a call names.
fn page_of(call: &Call) -> Option<Nr> {
    match *call {
        Call::Mmap { va, .. } => va,
        Call::Munmap { va }
        | Call::Mprotect { va, .. }
        | Call::Memread { va }
        | Call::Memwrite { va, .. } => Some(va),
        _ => None,
    }
}

/// The result of a call, from the status of the turn.
fn returned(call: MemoryCall, status: u64) -> Returned {
    if status as i64 == status as i32 as i64 && (status as i64) < 0 {
        return Returned::Error(-(status as i32));
    }
    match call {
        MemoryCall::Memread { .. } | MemoryCall::Memwrite { .. } if status > SIGNAL => {
            Returned::Signal((status - SIGNAL) as i32)
        }
        MemoryCall::Memread { .. } => Returned::Page(status as u8),
        MemoryCall::Mmap { .. } => Returned::Address(status as usize),
        _ => Returned::Done,
    }
}
