//! The explorer: finds every situation of a set of operations, and determines whether the
//! operations commute in it.
//!
//! The explorer walks the tree of answers to the model's questions, depth first. Each execution first follows
//! a script of answers. Then it answers yes to every further question; for each of these questions, a later
//! execution answers no. Each leaf of the tree defines a situation, unless its path contradicts an assumption
//! of the model. Situations are disjoint and exhaustive.
//!
//! Operations SIM-commute in a situation if the following holds for each subset of the calls: in
//! all orders of these calls, each call has the same result, and the final states are
//! indistinguishable (Clements et al., "The scalable commutativity rule", SOSP 2013, section 3.2).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use crate::call::Call;
use crate::execution::{Decision, Execution, Stop};
use crate::exploration::{
    Difference, Exploration, Extent, InfeasiblePath, LABELS, Limits, ModelError, Situation, Verdict,
};
use crate::facts::Name;
use crate::interface::{Interface, Operation};
use crate::literal::Literal;
use crate::outcome::Outcome;
use crate::state::State;
use crate::watch::Running;

/// The explorer gives up on a set of operations once this many of its paths have exceeded the limit on
/// questions. The remaining paths probably have too many questions, too.
const MOST_TOO_DEEP: usize = 1000;

/// A complete execution, which defines a situation.
pub(crate) struct Leaf<S> {
    pub(crate) execution: Execution,
    pub(crate) initial: S,
    pub(crate) verdict: Verdict,
    /// The two runs that differ, or a single run of all calls if all orders agree.
    pub(crate) runs: Vec<Run>,
}

/// The calls that were made in one order, and their outcomes.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) order: Vec<usize>,
    /// The outcome of each call, by its number; `None` if the call was not made.
    pub(crate) outcomes: Vec<Option<Outcome>>,
}

/// Explores one call of each operation, in all orders and from every initial state.
pub fn explore<S: State>(
    interface: &Interface<S>,
    operations: &[&Operation<S>],
    limits: &Limits,
) -> Result<Exploration, ModelError> {
    let mut exploration = Exploration::default();
    let Exploration { situations, infeasible, .. } = &mut exploration;
    exploration.extent = walk(interface, operations, limits, |leaf| {
        match leaf {
            Ok(leaf) => situations.push(Situation {
                condition: condition(leaf.execution.decisions()),
                verdict: leaf.verdict,
                certificate: leaf.execution.certificate(),
            }),
            Err(execution) => infeasible.push(InfeasiblePath {
                condition: condition(execution.decisions()),
                assumed: execution.certificate().assumed,
            }),
        }
        ControlFlow::Continue(())
    })?;
    Ok(exploration)
}

fn condition(decisions: &[Decision]) -> Vec<(Literal, bool)> {
    decisions.iter().map(|decisions| (decisions.literal.clone(), decisions.answer)).collect()
}

/// Runs every execution. Calls `visit` with `Ok` for each execution that defines a situation, and with `Err`
/// for each execution whose path is infeasible. Ends when `visit` returns `Break`.
pub(crate) fn walk<S: State>(
    interface: &Interface<S>,
    operations: &[&Operation<S>],
    limits: &Limits,
    mut visit: impl FnMut(Result<Leaf<S>, &Execution>) -> ControlFlow<()>,
) -> Result<Extent, ModelError> {
    assert!(
        operations.len() <= LABELS.len(),
        "too many operations; explore at most {} at once",
        LABELS.len()
    );
    let names: Vec<&'static str> = operations.iter().map(|operation| operation.name).collect();
    let running = Running::new(names.clone());
    let (mut extent, mut situations) = (Extent::default(), 0);
    let mut open: Vec<Rc<[Decision]>> = vec![Rc::from([])];
    while let Some(script) = open.pop() {
        if situations == limits.situations || extent.too_deep == MOST_TOO_DEEP {
            extent.cut = true;
            break;
        }
        let mut execution =
            Execution::new(Rc::clone(&script), limits.questions, Arc::clone(&running.0));
        let executed = execute(interface, operations, &mut execution);
        let decisions = execution.decisions();
        // The alternative to the last decision is pushed last, so that it is explored next and
        // similar situations stay together.
        for nr in script.len()..decisions.len() {
            let mut other = decisions[..=nr].to_vec();
            other[nr].answer = !other[nr].answer;
            open.push(other.into());
        }
        let executed = match script.get(decisions.len()) {
            // The model asked fewer questions than the script has answers.
            Some(missing) if !matches!(executed, Err(Stop::NotDeterministic { .. })) => {
                let before = missing.show();
                Err(Stop::NotDeterministic { before, now: "nothing".to_owned() })
            }
            _ => executed,
        };
        let flow = match executed {
            Ok((initial, verdict, runs)) => {
                situations += 1;
                running.0.found_situation();
                visit(Ok(Leaf { execution, initial, verdict, runs }))
            }
            Err(Stop::Infeasible) => visit(Err(&execution)),
            Err(Stop::TooDeep) => {
                extent.too_deep += 1;
                ControlFlow::Continue(())
            }
            Err(stop) => {
                return Err(ModelError::Untrusted {
                    operations: names.iter().map(|&name| name.to_owned()).collect(),
                    path: decisions.iter().map(Decision::show).collect(),
                    stop,
                });
            }
        };
        if flow.is_break() {
            break;
        }
    }
    Ok(extent)
}

/// The state after some calls in some order.
#[derive(Clone)]
struct Reached<S> {
    run: Run,
    state: S,
    /// The fresh names of this order.
    fresh: Vec<Name>,
}

/// Runs all orders. Whenever the same set of calls has been made in two orders, compares the outcomes and the
/// resulting states.
fn execute<S: State>(
    interface: &Interface<S>,
    operations: &[&Operation<S>],
    execution: &mut Execution,
) -> Result<(S, Verdict, Vec<Run>), Stop> {
    let initial = S::unknown(execution, "");
    (interface.invariant)(&initial, execution)?;
    let run = Run { order: Vec::new(), outcomes: vec![None; operations.len()] };
    let mut level = vec![Reached { run, state: initial.clone(), fresh: Vec::new() }];
    let mut chosen = Vec::new();
    for _ in operations {
        // For each set of calls, the first order in which they were made. Other orders of the same
        // calls are compared with this order.
        let mut firsts: HashMap<u32, Reached<S>> = HashMap::new();
        let mut next = Vec::new();
        for reached in &level {
            for nr in (0..operations.len()).filter(|nr| !reached.run.order.contains(nr)) {
                let mut reached = reached.clone();
                execution.replace_fresh(std::mem::take(&mut reached.fresh));
                let mut call = Call::new(execution, LABELS[nr], nr);
                let outcome = (operations[nr].apply)(&mut reached.state, &mut call);
                reached.fresh = execution.replace_fresh(Vec::new());
                let outcome = match outcome {
                    Err(Stop::NoChoice { choice }) => {
                        let (difference, runs) = chosen.swap_remove(choice);
                        return Ok((initial, Verdict::Differ(difference), runs));
                    }
                    outcome => outcome?,
                };
                reached.run.outcomes[nr] = Some(outcome);
                reached.run.order.push(nr);
                let calls = reached.run.order.iter().fold(0, |set, nr| set | 1 << nr);
                match firsts.get(&calls) {
                    None => {
                        firsts.insert(calls, reached.clone());
                        next.push(reached);
                    }
                    Some(first) => {
                        let difference = difference(first, &reached, execution, &mut chosen)?;
                        if let Some(difference) = difference {
                            let runs = vec![first.run.clone(), reached.run];
                            return Ok((initial, Verdict::Differ(difference), runs));
                        }
                        // The states are indistinguishable, so later calls have the same results
                        // after either order, and only the first order continues.
                    }
                }
            }
        }
        level = next;
    }
    let runs = level.into_iter().map(|reached| reached.run).collect();
    Ok((initial, Verdict::Commute, runs))
}

/// Returns the first difference between two orders. Two results or states may agree only because the explorer
/// has chosen a value. If so, adds to `chosen` the difference that they would have without this choice.
fn difference<S: State>(
    one: &Reached<S>,
    other: &Reached<S>,
    execution: &mut Execution,
    chosen: &mut Vec<(Difference, Vec<Run>)>,
) -> Result<Option<Difference>, Stop> {
    let show = |reached: &Reached<S>| {
        let calls: Vec<&str> = reached.run.order.iter().map(|&nr| LABELS[nr]).collect();
        calls.join(", ")
    };
    let orders = [show(one), show(other)];
    for (nr, outcomes) in one.run.outcomes.iter().zip(&other.run.outcomes).enumerate() {
        let (Some(a), Some(b)) = outcomes else { continue };
        let found = execution.compare(|execution| a.difference(b, execution))?;
        let same = found.is_none();
        if same && execution.choices() == chosen.len() {
            continue;
        }
        let whole = || ("result", [a.show(execution), b.show(execution)]);
        let (field, seen) = found.unwrap_or_else(whole);
        let (field, orders) = (field.to_owned(), orders.clone());
        let difference = Difference::Result { call: nr, field, seen, orders };
        if !same {
            return Ok(Some(difference));
        }
        chosen.push((difference, vec![one.run.clone(), other.run.clone()]));
    }
    let same = execution.compare(|execution| one.state.same(&other.state, execution))?;
    let difference = Difference::State { seen: execution.last_claim(), orders };
    if !same {
        return Ok(Some(difference));
    }
    if execution.choices() > chosen.len() {
        chosen.push((difference, vec![one.run.clone(), other.run.clone()]));
    }
    Ok(None)
}
