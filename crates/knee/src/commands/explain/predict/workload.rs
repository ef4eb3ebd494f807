//! Turns a trace into a workload for the simulation.

use anyhow::ensure;
use knee_predict::simulate::{
    Access, Hold, Iteration, Line, Lock, LockKind, Recorded, Scope, Step, Workload,
};
use knee_trace::{AccessKind, Contention, ContentionEvent, EventKind, Functions};

/// Prefix of the functions of Linux that make other CPUs drop translations. They change a number in the address space,
/// which threads share.
const SHOOTDOWN: &str = "flush_tlb_";

/// The workload of a trace. Each memory node of the guest has so many CPUs.
pub(super) fn workload(
    contention: &Contention,
    cpus_of_node: u32,
    functions: &Functions,
) -> anyhow::Result<Workload> {
    let of_line = |index: usize| scope(contention.lines[index].scope);
    let function = |code: &[u64]| {
        let name = code.iter().find_map(|&pc| functions.at(pc));
        name.map_or("an unknown line".to_owned(), |name| format!("a line of {name}"))
    };
    let lines = contention.lines.iter().enumerate().map(|(index, line)| Line {
        name: line.datum.as_ref().map_or_else(|| function(&line.code), ToString::to_string),
        scope: of_line(index),
    });
    let lines: Vec<Line> = lines.collect();
    let lock = |lock: &knee_trace::Lock| Lock {
        name: lock
            .datum
            .as_ref()
            .map_or_else(|| lines[lock.line].name.clone(), ToString::to_string),
        kind: kind(lock.kind),
        scope: of_line(lock.line),
    };
    let locks = contention.locks.iter().map(lock).collect();
    let mut recorded: Vec<Recorded> = Vec::new();
    for iteration in &contention.iterations {
        ensure!(
            !iteration.cut,
            "an iteration makes more accesses to shared lines than knee records"
        );
        let cpu = iteration.cpu as usize;
        if recorded.len() <= cpu {
            recorded.resize_with(cpu + 1, Recorded::default);
        }
        recorded[cpu].node = (iteration.cpu / cpus_of_node) as usize;
        recorded[cpu].iterations.push(steps(iteration));
    }
    let mut code = contention.lines.iter().flat_map(|line| &line.code);
    let interrupts =
        code.any(|&pc| functions.at(pc).is_some_and(|name| name.starts_with(SHOOTDOWN)));
    let workload = Workload { recorded, lines, locks, interrupts };
    workload.check()?;
    Ok(workload)
}

/// The steps of an iteration: the events, and the instructions between them.
fn steps(iteration: &knee_trace::Iteration) -> Iteration {
    let mut steps = Vec::with_capacity(2 * iteration.events.len() + 1);
    let mut done = 0;
    let mut compute = |until: u64, steps: &mut Vec<Step>| {
        if until > done {
            steps.push(Step::Compute { instructions: (until - done) as f64 });
            done = until;
        }
    };
    for event in &iteration.events {
        compute(event.at, &mut steps);
        steps.push(step(event));
    }
    compute(iteration.instructions, &mut steps);
    Iteration { steps }
}

fn step(event: &ContentionEvent) -> Step {
    match event.kind {
        EventKind::Visit(visit) => Step::Visit { line: visit.line, access: access(visit.kind) },
        EventKind::Acquire { lock, hold } => Step::Acquire {
            lock,
            hold: match hold {
                knee_trace::Hold::Exclusive => Hold::Exclusive,
                knee_trace::Hold::Shared => Hold::Shared,
            },
        },
        EventKind::Release { lock } => Step::Release { lock },
    }
}

fn access(kind: AccessKind) -> Access {
    match kind {
        AccessKind::Load => Access::Load,
        AccessKind::Store => Access::Store,
        AccessKind::Atomic => Access::Atomic,
        AccessKind::CompareExchange => Access::CompareExchange,
    }
}

fn kind(kind: knee_trace::LockKind) -> LockKind {
    match kind {
        knee_trace::LockKind::Spin | knee_trace::LockKind::RwSpin => LockKind::Spin,
        knee_trace::LockKind::Mutex => LockKind::Mutex,
        knee_trace::LockKind::RwSemaphore => LockKind::RwSemaphore,
    }
}

/// What is shared by all traced CPUs is shared by all.
fn scope(scope: knee_trace::Scope) -> Scope {
    match scope {
        knee_trace::Scope::All => Scope::Global,
        knee_trace::Scope::Node(_) => Scope::Node,
        knee_trace::Scope::Some => Scope::Group,
    }
}

#[cfg(test)]
mod tests {
    use knee_trace::{LockSections, SharedLine, Visit};

    use super::*;

    fn line(scope: knee_trace::Scope) -> SharedLine {
        let (visits, guard) = (1.0, None);
        SharedLine { line: 0, datum: None, cpus: 0b1111, scope, visits, guard, code: Vec::new() }
    }

    fn event(at: u64, kind: EventKind) -> ContentionEvent {
        ContentionEvent { at, pc: 0, kind }
    }

    fn contention() -> Contention {
        let kind = AccessKind::Atomic;
        let visit = Visit { line: 0, kind, accesses: 1, atomics: 1, instructions: 0 };
        let iteration = |cpu| knee_trace::Iteration {
            cpu,
            instructions: 100,
            events: vec![
                event(10, EventKind::Acquire { lock: 0, hold: knee_trace::Hold::Exclusive }),
                event(10, EventKind::Visit(visit)),
                event(40, EventKind::Release { lock: 0 }),
            ],
            cut: false,
        };
        let lock = knee_trace::Lock {
            line: 1,
            offset: 0,
            kind: knee_trace::LockKind::RwSpin,
            datum: None,
            exclusive: LockSections::default(),
            shared: LockSections::default(),
        };
        Contention {
            iterations: vec![iteration(0), iteration(3), iteration(0)],
            lines: vec![line(knee_trace::Scope::All), line(knee_trace::Scope::Node(1))],
            locks: vec![lock],
        }
    }

    #[test]
    fn events_become_steps_with_the_instructions_between_them() {
        let workload = workload(&contention(), 2, &Functions::default());
        // CPUs 1 and 2 have no iterations, so this is not yet a workload.
        assert!(workload.is_err());
        let mut contention = contention();
        contention.iterations[1].cpu = 1;
        let workload = super::workload(&contention, 1, &Functions::default()).unwrap();
        let recorded = &workload.recorded;
        assert_eq!((recorded[0].iterations.len(), recorded[1].iterations.len()), (2, 1));
        assert_eq!((recorded[0].node, recorded[1].node), (0, 1));
        let compute = |instructions| Step::Compute { instructions };
        let expected = [
            compute(10.0),
            Step::Acquire { lock: 0, hold: Hold::Exclusive },
            Step::Visit { line: 0, access: Access::Atomic },
            compute(30.0),
            Step::Release { lock: 0 },
            compute(60.0),
        ];
        assert_eq!(recorded[0].iterations[0].steps, expected);
        assert_eq!(workload.locks[0].kind, LockKind::Spin);
        assert_eq!(
            (workload.lines[0].scope, workload.locks[0].scope),
            (Scope::Global, Scope::Node)
        );
    }

    #[test]
    fn an_incomplete_iteration_is_refused() {
        let mut contention = contention();
        contention.iterations[0].cut = true;
        let refusal = workload(&contention, 2, &Functions::default()).unwrap_err();
        assert!(refusal.to_string().contains("more accesses"), "{refusal}");
    }
}
