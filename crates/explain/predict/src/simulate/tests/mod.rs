//! What the simulation guarantees, and published curves.

mod laws;
mod published;
mod workloads;

use std::collections::BTreeMap;

use super::{
    Access, Hold, Iteration, Line, Lock, LockKind, Plan, Point, Range, Recorded, Scope, Simulator,
    Step, Uncertainty, Workload,
};
use crate::Machine;
use crate::machine::{Clock, Distance, Figure, SCHEMA, Transfers};

/// A machine with these sockets, L3 caches per socket, cores per L3 cache and threads per core. The
/// transfers are by distance. The clock is constant.
fn machine(shape: [u32; 4], transfer_ns: [f64; 4]) -> Machine {
    let [sockets, l3s_per_socket, cores_per_l3, threads_per_core] = shape;
    let figure = |value| Figure { value, low: None, high: None, source: "test".into() };
    let mut transfers = Transfers::default();
    for (distance, value) in Distance::ALL.into_iter().zip(transfer_ns) {
        *transfers.at_mut(distance) = Some(figure(value));
    }
    Machine {
        schema: SCHEMA,
        name: "made-up".into(),
        title: "A made-up machine".into(),
        sockets,
        l3s_per_socket,
        cores_per_l3,
        threads_per_core,
        transfer_ns: transfers,
        contended_ns: None,
        clock: Some(Clock { points: vec![(1, 1.0)], source: "test".into() }),
        smt_slowdown: Some(figure(1.6)),
        interrupt_ns: None,
        pause_ns: None,
        wake_ns: None,
        sources: BTreeMap::from([("test".into(), "made up, 2026".into())]),
        matrix: None,
    }
}

/// A workload whose tasks all repeat these steps.
fn workload(steps: &[Step], lines: &[Scope], locks: &[(LockKind, Scope)]) -> Workload {
    let iterations = vec![Iteration { steps: steps.to_vec() }];
    let line = |(nr, &scope): (usize, &Scope)| Line { name: format!("line {nr}"), scope };
    let lock = |(nr, &(kind, scope)): (usize, &(LockKind, Scope))| Lock {
        name: format!("lock {nr}"),
        kind,
        line: lines.len() + nr,
        scope,
    };
    let of_locks = locks.iter().map(|&(_, scope)| scope);
    let lines: Vec<Scope> = lines.iter().copied().chain(of_locks).collect();
    Workload {
        recorded: vec![Recorded { node: 0, iterations }],
        lines: lines.iter().enumerate().map(line).collect(),
        locks: locks.iter().enumerate().map(lock).collect(),
    }
}

fn compute(instructions: f64) -> Step {
    Step::Compute { instructions }
}

fn visit(line: usize, access: Access) -> Step {
    Step::Visit { line, access }
}

fn acquire(lock: usize) -> Step {
    Step::Acquire { lock, hold: Hold::Exclusive }
}

fn release(lock: usize) -> Step {
    Step::Release { lock }
}

/// No uncertainty: everything is as given.
fn certain(near_first: f64) -> Uncertainty {
    Uncertainty {
        transfer: Range::exactly(1.0),
        iteration: Range::exactly(1.0),
        relative: Range::exactly(1.0),
        section: Range::exactly(1.0),
        near_first: Some(Range::exactly(near_first)),
        kept: Range::exactly(0.0),
        compare: Range::exactly(2.0),
        slow_path: Range::exactly(0.0),
        pause_ns: Range::exactly(0.0),
        interrupt_ns: Range::exactly(2_000.0),
        interrupt_each_ns: Range::exactly(600.0),
        handler_ns: Range::exactly(850.0),
        smt_slowdown: Range::exactly(1.6),
        crowding: Range::exactly(1.0),
        clock: Range::exactly(1.0),
    }
}

/// The point in the middle of all ranges.
fn point(
    workload: &Workload,
    machine: &Machine,
    iteration_ns: f64,
    uncertainty: Uncertainty,
    tasks: u32,
) -> Point {
    let plan = Plan { uncertainty, draws: 0, ..Plan::new(workload, machine, iteration_ns) };
    Simulator::new(plan).unwrap().point(tasks).unwrap()
}

/// Asserts that a value differs by at most this share from what is expected.
#[track_caller]
fn assert_near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() <= share, "{value} is not {expected} ± {share}");
}
