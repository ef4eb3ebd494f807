//! Short iterations, of which a CPU makes several before it loses a line.
//!
//! A CPU that has got a line keeps it for about as long as the next transfer takes. An iteration of a kernel takes longer
//! than that, but an operation of a library may take a tenth of it. So several iterations in a row are recorded as one,
//! and the accesses to a line in this time are one visit. A lock that is free again is taken again before another
//! CPU has seen that it is free, so sections that follow each other in this time are one section.

use std::collections::BTreeMap;

use knee_predict::simulate::{Access, Hold, Iteration, Recorded, Step, Workload};

/// How long a CPU keeps a line, in ns: the time of a transfer.
const KEPT: f64 = 60.0;
/// The most iterations in a row.
const MOST: f64 = 64.0;

/// The workload with several iterations in a row as one, and how many these are. An iteration of one thread takes so many
/// ns.
pub(super) fn in_bursts(workload: &Workload, iteration_ns: f64) -> (Workload, u32) {
    let shortest = workload.recorded.iter().map(|cpu| cpu.iterations.len()).min().unwrap_or(0);
    let fit = (KEPT / iteration_ns).round().clamp(1.0, MOST);
    let in_row = (fit as usize).min(shortest).max(1);
    let mut changed = workload.clone();
    let words = words(workload);
    let kept = workload.mean_instructions() * KEPT / iteration_ns;
    for (cpu, before) in changed.recorded.iter_mut().zip(&workload.recorded) {
        let bursts = before.iterations.chunks_exact(in_row);
        let iterations = bursts.map(|burst| {
            let steps = burst.iter().flat_map(|iteration| &iteration.steps);
            merged(steps.map(|step| as_line(*step, &words)), kept)
        });
        *cpu = Recorded { node: before.node, iterations: iterations.collect() };
    }
    (changed, in_row as u32)
}

/// The lines of the locks that all tasks only share, by lock. Readers come and go, and change the word like any other count.
fn words(workload: &Workload) -> BTreeMap<usize, usize> {
    let mut is_shared = vec![true; workload.locks.len()];
    for step in workload.steps() {
        if let Step::Acquire { lock, hold: Hold::Exclusive } = *step {
            is_shared[lock] = false;
        }
    }
    let locks = workload.locks.iter().map(|lock| lock.line).enumerate();
    locks.filter(|(nr, _)| is_shared[*nr]).collect()
}

fn as_line(step: Step, words: &BTreeMap<usize, usize>) -> Step {
    let lock = match step {
        Step::Acquire { lock, .. } | Step::Release { lock } => lock,
        _ => return step,
    };
    match words.get(&lock) {
        Some(&line) => Step::Visit { line, access: Access::Atomic },
        None => step,
    }
}

/// The steps as one iteration, in which a line that has come stays for as many instructions as `kept`.
fn merged(steps: impl Iterator<Item = Step>, kept: f64) -> Iteration {
    let mut out: Vec<Option<Step>> = Vec::new();
    // Where the visit of each line, or the section of each lock, begins: the instructions before, and its step.
    let mut visits: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
    let mut sections: BTreeMap<usize, (f64, Hold)> = BTreeMap::new();
    // The latest end of a section, if no other one has begun since.
    let mut released: Option<(usize, usize)> = None;
    let mut done = 0.0;
    for step in steps {
        match step {
            Step::Compute { instructions } => done += instructions,
            Step::Visit { line, access } => match visits.get(&line) {
                Some(&(begin, at)) if done - begin < kept => {
                    if let Some(Step::Visit { access: first, .. }) = &mut out[at] {
                        *first = stronger(*first, access);
                    }
                    continue;
                }
                _ => {
                    visits.insert(line, (done, out.len()));
                }
            },
            Step::Acquire { lock, hold } => {
                let before = sections.get(&lock).copied();
                let is_kept = before.is_some_and(|(begin, of)| of == hold && done - begin < kept);
                match released.take() {
                    Some((other, at)) if other == lock && is_kept => {
                        out[at] = None;
                        continue;
                    }
                    _ => {
                        sections.insert(lock, (done, hold));
                    }
                }
            }
            Step::Release { lock } => released = Some((lock, out.len())),
            Step::Shootdown => {}
        }
        out.push(Some(step));
    }
    Iteration { steps: out.into_iter().flatten().collect() }
}

/// The access that does what both do.
fn stronger(one: Access, other: Access) -> Access {
    let rank = |access| match access {
        Access::Load => 0,
        Access::Store => 1,
        Access::Atomic => 2,
        Access::CompareExchange => 3,
    };
    if rank(other) > rank(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use knee_predict::simulate::{Line, Lock, LockKind, Scope};

    use super::*;

    /// A workload whose only thread makes these iterations, of two lines and two locks.
    fn workload(iterations: &[&[Step]]) -> Workload {
        let iteration = |steps: &&[Step]| Iteration { steps: steps.to_vec() };
        let line = Line { name: "line".to_owned(), scope: Scope::Global };
        let lock =
            Lock { name: "lock".to_owned(), line: 0, kind: LockKind::Mutex, scope: Scope::Global };
        Workload {
            recorded: vec![Recorded {
                node: 0,
                iterations: iterations.iter().map(iteration).collect(),
            }],
            lines: vec![line.clone(), line],
            locks: vec![lock.clone(), lock],
        }
    }

    const fn compute(instructions: f64) -> Step {
        Step::Compute { instructions }
    }

    const fn visit(line: usize, access: Access) -> Step {
        Step::Visit { line, access }
    }

    fn section(lock: usize, hold: Hold) -> [Step; 3] {
        [Step::Acquire { lock, hold }, compute(5.0), Step::Release { lock }]
    }

    fn bursts(workload: &Workload, iteration_ns: f64) -> (Vec<Vec<Step>>, u32) {
        let (changed, in_row) = in_bursts(workload, iteration_ns);
        changed.check().expect("tasks can replay it");
        let iterations = changed.recorded[0].iterations.clone();
        (iterations.into_iter().map(|iteration| iteration.steps).collect(), in_row)
    }

    #[test]
    fn a_line_stays_for_several_short_iterations() {
        let steps = [compute(10.0), visit(0, Access::Load), visit(1, Access::Atomic)];
        let store = [compute(10.0), visit(0, Access::Store)];
        let workload = workload(&[&steps, &store, &steps, &steps, &steps]);
        let (bursts, in_row) = bursts(&workload, 30.0);
        assert_eq!(in_row, 2);
        let ten = compute(10.0);
        let first = vec![ten, visit(0, Access::Store), visit(1, Access::Atomic), ten];
        let second = vec![ten, visit(0, Access::Load), visit(1, Access::Atomic), ten];
        assert_eq!(bursts, [first, second]);
    }

    #[test]
    fn long_iterations_stay_as_they_are() {
        let far = [visit(0, Access::Atomic), compute(1000.0), visit(0, Access::Atomic)];
        let near = [visit(1, Access::Atomic), compute(10.0), visit(1, Access::Atomic)];
        let workload = workload(&[&[&far[..], &near].concat()]);
        let (bursts, in_row) = bursts(&workload, 1010.0);
        let merged = vec![far[0], far[1], far[2], near[0], near[1]];
        assert_eq!((bursts, in_row), (vec![merged], 1));
    }

    #[test]
    fn a_lock_is_taken_again_before_others_see_that_it_is_free() {
        let take = section(0, Hold::Exclusive);
        let workload = workload(&[&take, &take]);
        let (bursts, in_row) = bursts(&workload, 30.0);
        assert_eq!((&bursts[0], in_row), (&vec![take[0], take[1], take[1], take[2]], 2));
    }

    #[test]
    fn sections_of_different_locks_are_never_held_together() {
        let (one, other) = (section(0, Hold::Exclusive), section(1, Hold::Exclusive));
        let workload = workload(&[&one, &other, &one, &other]);
        let (bursts, _) = bursts(&workload, 15.0);
        assert_eq!(bursts[0], [one, other, one, other].concat());
    }

    #[test]
    fn a_lock_that_all_share_is_a_count() {
        let read = section(0, Hold::Shared);
        let workload = workload(&[&read]);
        let (bursts, _) = bursts(&workload, 30.0);
        assert_eq!(bursts[0], [visit(0, Access::Atomic), compute(5.0)]);
        // With a writer, it is a lock.
        let both = [section(0, Hold::Shared), section(0, Hold::Exclusive)].concat();
        let (bursts, _) = super::tests::bursts(&super::tests::workload(&[&both]), 60.0);
        assert_eq!(bursts[0], both);
    }
}
