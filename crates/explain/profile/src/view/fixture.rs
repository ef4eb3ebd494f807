//! A small capture for tests of views: two programs, recursion, an inlined function, the kernel, a
//! function with only a known module, and a sample without a stack.

use knee_results::{CaseId, ITERATIONS, Mode, PointId};

use crate::capture::{Capture, Clock, Function, Kind, Losses, Machine, Stacks, Unit, Work};

pub(crate) fn user(name: &str) -> Function {
    Function { module: Some("/usr/bin/prog".into()), ..Function::new(name, Kind::User) }
}

pub(crate) fn kernel(name: &str) -> Function {
    Function { module: Some("[kernel]".into()), ..Function::new(name, Kind::Kernel) }
}

/// The capture of some stacks.
pub(crate) fn captured(stacks: Stacks) -> Capture {
    Capture {
        title: "prog <1>".into(),
        machine: Machine {
            kernel: "Linux 6.18.44".into(),
            cpus: 2,
            started_at: "2026-11-22T10:00:00Z".into(),
        },
        clock: Clock {
            event: "cpu-clock".into(),
            unit: Unit::Nanoseconds,
            frequency: Some(1000),
            user_only: false,
        },
        seconds: Some(1.25),
        cpu_seconds: Some(1.0),
        losses: Losses { lost: 3, ..Losses::default() },
        ..stacks.finish()
    }
}

pub(crate) fn example() -> Capture {
    let mut stacks = Stacks::default();
    let (main, fib, work) = (user("main"), user("fib(int)"), user("work"));
    let inlined = Function { inlined: true, ..user("mix") };
    let libc = Function {
        module: Some("/usr/lib/libc.so.6".into()),
        ..Function::new("[libc.so.6]", Kind::User)
    };
    let (entry, copy) = (kernel("entry_SYSCALL_64"), kernel("copy_page"));
    let mut add = |program: &str, stack: &[&Function], samples: u64| {
        stacks.add(program, stack.iter().copied(), samples, samples * 1_000_000);
    };
    add("prog", &[&main, &work, &inlined], 400);
    add("prog", &[&main, &work, &libc, &entry, &copy], 250);
    add("prog", &[&main, &fib, &fib, &fib], 120);
    add("prog", &[&main, &fib, &fib], 60);
    add("prog", &[&main, &fib], 20);
    add("prog", &[&main], 3);
    add("two words", &[&work, &user("mix")], 100);
    add("two words", &[&entry, &copy], 46);
    add("two words", &[], 1);
    captured(stacks)
}

/// The same program with a more expensive `copy_page`.
pub(crate) fn dearer() -> Capture {
    let mut capture = example();
    for count in &mut capture.counts {
        let is_copy = capture.stacks[count.stack.unwrap_or(0) as usize].function
            == capture.functions.iter().position(|one| one.name == "copy_page").unwrap() as u32;
        if is_copy && count.samples == 250 {
            count.samples *= 2;
            count.weight *= 2;
        }
    }
    capture
}

pub(crate) fn with_work(mut capture: Capture, iterations: u64) -> Capture {
    capture.work = Some(Work {
        point: PointId {
            case: CaseId::from_record("read1@file=same"),
            mode: Mode::Processes,
            tasks: 2,
        },
        iterations,
        unit: ITERATIONS.to_owned(),
        server: None,
        command: None,
        disturbed: false,
    });
    capture
}
