//! Turns a trace into a workload for the simulation.

use anyhow::ensure;
use knee_predict::simulate::{
    Access, Hold, Iteration, Line, Lock, LockKind, Recorded, Scope, Step, Workload,
};
use knee_trace::{AccessKind, Contention, ContentionEvent, EventKind, Functions, Visit};

use super::name::name;

/// Accesses to a line that are fewer instructions apart are one visit. A CPU executes them at the
/// same time, or nearly so. Whether the line stays longer than that is a matter of the simulation,
/// because it depends on the time of a transfer.
pub(super) const APART: u64 = 20;

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
        name: line.datum.as_ref().map_or_else(|| function(&line.code), name),
        scope: of_line(index),
    });
    let lines: Vec<Line> = lines.collect();
    let lock = |lock: &knee_trace::Lock| Lock {
        name: lock.datum.as_ref().map_or_else(|| lines[lock.line].name.clone(), name),
        line: lock.line,
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
    for (cpu, recorded) in recorded.iter_mut().enumerate() {
        let batches: Vec<&knee_trace::Iteration> =
            contention.deferred.iter().filter(|batch| batch.cpu as usize == cpu).collect();
        ensure!(
            batches.iter().all(|batch| !batch.cut),
            "deferred work makes more accesses to shared lines than knee records"
        );
        // The CPU of an operation does the deferred work later, between other operations.
        let iterations = recorded.iterations.len();
        for (nr, batch) in batches.iter().enumerate() {
            let after = nr * iterations / batches.len();
            recorded.iterations[after].steps.extend(steps(batch).steps);
        }
    }
    let workload = Workload { recorded, lines, locks };
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
        if let EventKind::Visit(Visit {
            line,
            kind: AccessKind::Store,
            begins_with_load: true,
            ..
        }) = event.kind
        {
            // The load waits for the line, and the store takes it from the CPUs that keep a copy.
            steps.push(Step::Visit { line, access: Access::Load });
        }
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
        EventKind::Shootdown => Step::Shootdown,
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
    use knee_trace::{LockSections, SharedLine};

    use super::*;

    fn line(scope: knee_trace::Scope) -> SharedLine {
        let (visits, guard) = (1.0, None);
        SharedLine {
            line: 0,
            datum: None,
            cpus: 0b1111,
            scope,
            visits,
            deferred: 0.0,
            guard,
            code: Vec::new(),
        }
    }

    fn event(at: u64, kind: EventKind) -> ContentionEvent {
        ContentionEvent { at, pc: 0, kind }
    }

    fn contention() -> Contention {
        let kind = AccessKind::Atomic;
        let visit = Visit {
            line: 0,
            kind,
            begins_with_load: true,
            accesses: 1,
            atomics: 1,
            instructions: 0,
        };
        let stores = Visit { kind: AccessKind::Store, ..visit };
        let iteration = |cpu| knee_trace::Iteration {
            cpu,
            instructions: 100,
            events: vec![
                event(10, EventKind::Acquire { lock: 0, hold: knee_trace::Hold::Exclusive }),
                event(10, EventKind::Visit(visit)),
                event(20, EventKind::Visit(stores)),
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
            deferred: Vec::new(),
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
            compute(10.0),
            Step::Visit { line: 0, access: Access::Load },
            Step::Visit { line: 0, access: Access::Store },
            compute(20.0),
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
