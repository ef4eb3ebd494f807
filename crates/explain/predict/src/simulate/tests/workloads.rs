//! Checks and changes of workloads.

use super::super::{ChangeError, MOST_ITERATIONS, PredictError, WorkloadError};
use super::*;

fn refused(steps: &[Step]) -> WorkloadError {
    let locks = [(LockKind::Spin, Scope::Global); 3];
    workload(steps, &[Scope::Global], &locks).check().unwrap_err()
}

#[test]
fn a_workload_that_cannot_be_replayed_is_refused() {
    assert_eq!(Workload::default().check(), Err(WorkloadError::Empty));
    assert_eq!(refused(&[]), WorkloadError::NoInstructions(0));
    let invalid = |step| WorkloadError::Step { cpu: 0, iteration: 0, step };
    assert_eq!(refused(&[compute(1.0), visit(4, Access::Load)]), invalid(1));
    assert_eq!(refused(&[compute(f64::NAN)]), invalid(0));
    assert_eq!(refused(&[release(3)]), invalid(0));
    let mut no_line = workload(&[compute(1.0)], &[], &[(LockKind::Spin, Scope::Global)]);
    no_line.locks[0].line = 1;
    assert_eq!(no_line.check(), Err(WorkloadError::NoLine("lock 0".into())));
    for steps in [
        &[acquire(1)][..],
        &[release(1)],
        &[acquire(1), acquire(1), release(1), release(1)],
        &[acquire(1), release(1), release(1)],
    ] {
        let lock = "lock 1".to_owned();
        assert_eq!(refused(steps), WorkloadError::Unbalanced { cpu: 0, iteration: 0, lock });
    }
}

#[test]
fn locks_that_are_taken_in_different_orders_are_refused() {
    let nested = |outer, inner| [acquire(outer), acquire(inner), release(inner), release(outer)];
    let steps = [&[compute(1.0)][..], &nested(0, 1), &nested(1, 2), &nested(2, 0)].concat();
    assert_eq!(
        refused(&steps).to_string(),
        "lock 0 and lock 1 are taken in both orders (ABBA); they may be several locks"
    );
    let steps = [nested(0, 1), nested(1, 2), nested(0, 2)].concat();
    assert_eq!(refused(&steps), WorkloadError::NoInstructions(0));
}

#[test]
fn a_curve_ends_at_the_cpus_of_the_machine() {
    let workload = workload(&[compute(1.0)], &[], &[]);
    let machine = machine([1, 1, 4, 1], [10.0; 4]);
    let simulator = Simulator::new(Plan { draws: 0, ..Plan::new(&workload, &machine, 1.0) });
    let simulator = simulator.unwrap();
    assert_eq!(
        simulator.point(5).unwrap_err().to_string(),
        "the task count must be from 1 to 4, the number of CPUs of made-up, but is 5"
    );
    let plan = Plan::new(&workload, &machine, 0.0);
    assert_eq!(Simulator::new(plan).unwrap_err(), PredictError::Time(0.0));
}

/// A line, a lock with a line inside, and a lock inside that one.
fn example() -> Workload {
    let steps = [
        compute(100.0),
        visit(0, Access::Atomic),
        acquire(0),
        compute(10.0),
        visit(1, Access::Store),
        acquire(1),
        visit(2, Access::Load),
        release(1),
        release(0),
    ];
    let lock = (LockKind::Spin, Scope::Global);
    workload(&steps, &[Scope::Global; 3], &[lock, lock])
}

fn steps(workload: &Workload) -> Vec<&[Step]> {
    workload.iterations().map(|iteration| &iteration.steps[..]).collect()
}

#[test]
fn a_line_without_visits_and_a_lock_without_sections_leave_the_rest() {
    let workload = example();
    let all = steps(&workload)[0];
    let line = workload.without("line 1").unwrap();
    assert_eq!(steps(&line), [[&all[..4], &all[5..]].concat()]);
    let lock = workload.without("lock 0").unwrap();
    assert_eq!(steps(&lock), [[&all[..2], &all[3..8]].concat()]);
    assert!(line.check().is_ok() && lock.check().is_ok());
    let unknown = ChangeError::Unknown("line 9".into());
    assert_eq!(workload.without("line 9"), Err(unknown));
}

#[test]
fn the_locks_in_a_line_go_with_it() {
    let workload = example();
    // Line 3 contains lock 0.
    assert_eq!(workload.without("line 3"), workload.without("lock 0"));
    assert_eq!(workload.split("line 3").unwrap().locks[0].scope, Scope::Task);
}

#[test]
fn a_split_line_is_one_for_each_task() {
    let split = example().split("line 0").unwrap().split("lock 1").unwrap();
    let scopes: Vec<Scope> = split.lines.iter().map(|line| line.scope).collect();
    assert_eq!(scopes[0], Scope::Task);
    assert!(scopes[1..].iter().all(|scope| *scope == Scope::Global));
    assert_eq!(split.locks[1].scope, Scope::Task);
}

#[test]
fn a_batch_keeps_one_of_so_many_and_all_instructions() {
    let workload = example();
    let all = steps(&workload)[0];
    let batched = workload.batch("line 0", 3).unwrap();
    let without = [&all[..1], &all[2..]].concat();
    assert_eq!(steps(&batched), [all, &without[..], &without[..]]);
    let batched = workload.batch("lock 0", 2).unwrap();
    // The inner lock and its line remain.
    assert_eq!(steps(&batched)[1], [&all[..2], &all[3..4], &all[5..8]].concat());
    assert_eq!(batched.mean_instructions(), workload.mean_instructions());
    assert!(batched.check().is_ok());
    for iterations in [0, MOST_ITERATIONS + 1] {
        assert_eq!(workload.batch("line 0", iterations), Err(ChangeError::Batch));
    }
}

#[test]
fn every_iteration_is_in_a_batch_as_often() {
    let mut workload = workload(&[], &[Scope::Global], &[]);
    let iteration = |instructions: u32| Iteration {
        steps: vec![compute(instructions.into()), visit(0, Access::Atomic)],
    };
    workload.recorded[0].iterations = (1..=4).map(iteration).collect();
    let batched = workload.batch("line 0", 2).unwrap();
    let kept: Vec<&[Step]> = steps(&batched).into_iter().filter(|steps| steps.len() == 2).collect();
    let mut times: Vec<&Step> = kept.iter().map(|steps| &steps[0]).collect();
    times.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
    assert_eq!(times, [&compute(1.0), &compute(2.0), &compute(3.0), &compute(4.0)]);
}

#[test]
fn a_batch_raises_the_plateau_by_its_size() {
    let steps = [compute(500.0), visit(0, Access::Atomic)];
    let workload = workload(&steps, &[Scope::Global], &[]);
    let machine = machine([1, 1, 64, 1], [50.0; 4]);
    let rate = |workload: &Workload| point(workload, &machine, 500.0, certain(0.0), 64).rate;
    assert_near(rate(&workload.batch("line 0", 4).unwrap()), 4.0 * rate(&workload), 0.02);
}
