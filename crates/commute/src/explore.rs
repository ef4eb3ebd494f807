//! Every way in which operations can meet, and whether they commute there.
//!
//! A depth-first walk over the answers to what a model asks: each execution follows a script of
//! answers, then says yes to whatever is asked, and leaves the opposite of each of those for
//! later. The leaves are situations: disjoint, and together all there are.
//!
//! Operations SIM-commute in a situation if for every order, and every number of them that have
//! been called, the same calls have had the same results and the states cannot be told apart,
//! whatever the order of those calls was (Clements et al., "The scalable commutativity rule", SOSP
//! 2013, section 3.2).

use std::collections::HashMap;
use std::rc::Rc;

use crate::interface::{Call, Interface, Operation, Outcome};
use crate::state::State;
use crate::world::{Answered, Stop, World};

/// What calls are called.
const LABELS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Questions of one execution.
    pub questions: usize,
    /// Situations of one set of operations.
    pub situations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { questions: 200, situations: 100_000 }
    }
}

/// Whether operations commute in a situation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They do.
    Commute,
    /// They do not: the first thing that tells the orders apart.
    Differ(Difference),
}

/// What tells two orders apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The result of a call.
    Result {
        /// Which call: `a`, `b` …
        call: &'static str,
        /// What it sees in each of the two orders.
        seen: [String; 2],
        /// The two orders.
        orders: [String; 2],
    },
    /// The state that is left.
    State {
        /// The two orders.
        orders: [String; 2],
    },
}

/// A class of initial states and arguments in which the model does not tell any difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// What holds there; of no two situations all of it can hold.
    pub condition: Vec<Answered>,
    /// Whether the operations commute.
    pub verdict: Verdict,
}

/// All situations of some operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exploration {
    /// In a fixed order.
    pub situations: Vec<Situation>,
    /// How many paths were cut off because they asked too much.
    pub too_deep: usize,
    /// Whether there are more situations than allowed.
    pub cut: bool,
}

/// An execution that cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelError {
    /// The operations.
    pub operations: Vec<&'static str>,
    /// What had been answered.
    pub path: Vec<String>,
    /// What is wrong.
    pub stop: Stop,
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { operations, path, stop } = self;
        write!(f, "{}: ", operations.join(" and "))?;
        match stop {
            Stop::NotDeterministic { before, now } => {
                write!(f, "the model is not deterministic: it asked {before:?}, and now {now:?}")?;
            }
            other => write!(f, "{other:?}")?,
        }
        write!(f, ", after: {}", if path.is_empty() { "nothing".into() } else { path.join(", ") })
    }
}

impl std::error::Error for ModelError {}

/// Explores `operations`, called at once, from every initial state of their interface.
pub fn explore<S: State>(
    interface: &Interface<S>,
    operations: &[&Operation<S>],
    limits: &Limits,
) -> Result<Exploration, ModelError> {
    assert!(operations.len() <= LABELS.len(), "at most {} operations at once", LABELS.len());
    let mut exploration = Exploration { situations: Vec::new(), too_deep: 0, cut: false };
    let mut open: Vec<Rc<[Answered]>> = vec![Rc::from([])];
    while let Some(script) = open.pop() {
        if exploration.situations.len() == limits.situations {
            exploration.cut = true;
            break;
        }
        let mut world = World::new(Rc::clone(&script), limits.questions);
        let verdict = execute(interface, operations, &mut world);
        let answered = world.answered();
        // Deepest last, so that it is next: neighbours stay together.
        for nr in script.len()..answered.len() {
            let mut other = answered[..=nr].to_vec();
            let last = &mut other[nr];
            last.answer = !last.answer;
            last.formula = world.facts().show(&last.question, last.answer);
            open.push(other.into());
        }
        match verdict {
            Ok(verdict) => {
                exploration.situations.push(Situation { condition: answered.to_vec(), verdict })
            }
            Err(Stop::Impossible) => {}
            Err(Stop::TooDeep) => exploration.too_deep += 1,
            Err(stop) => {
                return Err(ModelError {
                    operations: operations.iter().map(|operation| operation.name).collect(),
                    path: answered.iter().map(|answered| answered.formula.clone()).collect(),
                    stop,
                });
            }
        }
    }
    Ok(exploration)
}

/// Explores every pair of operations of an interface, each with itself too, on all CPUs. In the
/// order of the operations, whatever the number of threads.
pub fn explore_pairs<S: State>(
    interface: &Interface<S>,
    limits: &Limits,
) -> Vec<([usize; 2], Result<Exploration, ModelError>)> {
    let n = interface.operations.len();
    let pairs: Vec<[usize; 2]> = (0..n).flat_map(|i| (i..n).map(move |j| [i, j])).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(pairs.len());
    let mut explored: Vec<(usize, Result<Exploration, ModelError>)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let nr = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(&[i, j]) = pairs.get(nr) else { return done };
                let operations = [&interface.operations[i], &interface.operations[j]];
                done.push((nr, explore(interface, &operations, limits)));
            }
        };
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a model panicked")).collect()
    });
    explored.sort_by_key(|(nr, _)| *nr);
    explored.into_iter().map(|(nr, exploration)| (pairs[nr], exploration)).collect()
}

/// After some calls in some order.
#[derive(Clone)]
struct Reached<S> {
    order: Vec<usize>,
    state: S,
    /// By call.
    outcomes: Vec<Option<Outcome>>,
}

/// Runs all orders, and compares wherever the same calls have been made.
fn execute<S: State>(
    interface: &Interface<S>,
    operations: &[&Operation<S>],
    world: &mut World,
) -> Result<Verdict, Stop> {
    let state = S::unknown(world, "");
    (interface.valid)(&state, world)?;
    let start = Reached { order: Vec::new(), state, outcomes: vec![None; operations.len()] };
    let mut level = vec![start];
    for _ in operations {
        // The first to have made a set of calls; the others are compared with it.
        let mut firsts: HashMap<u32, Reached<S>> = HashMap::new();
        let mut next = Vec::new();
        for reached in &level {
            for nr in (0..operations.len()).filter(|nr| !reached.order.contains(nr)) {
                let mut reached = reached.clone();
                let mut call = Call::new(world, LABELS[nr], nr);
                reached.outcomes[nr] = Some((operations[nr].apply)(&mut reached.state, &mut call)?);
                reached.order.push(nr);
                let calls = reached.order.iter().fold(0, |set, nr| set | 1 << nr);
                match firsts.get(&calls) {
                    None => {
                        firsts.insert(calls, reached.clone());
                        next.push(reached);
                    }
                    Some(first) => {
                        if let Some(difference) = difference(first, &reached, world)? {
                            return Ok(Verdict::Differ(difference));
                        }
                        // The same for all that anyone can see: so is what follows.
                    }
                }
            }
        }
        level = next;
    }
    Ok(Verdict::Commute)
}

fn difference<S: State>(
    one: &Reached<S>,
    other: &Reached<S>,
    world: &mut World,
) -> Result<Option<Difference>, Stop> {
    let show = |reached: &Reached<S>| {
        let calls: Vec<&str> = reached.order.iter().map(|&nr| LABELS[nr]).collect();
        calls.join(", ")
    };
    let orders = [show(one), show(other)];
    for (nr, outcomes) in one.outcomes.iter().zip(&other.outcomes).enumerate() {
        let (Some(a), Some(b)) = outcomes else { continue };
        if !world.compare(|world| a.same(b, world))? {
            let seen = [a.show(world), b.show(world)];
            return Ok(Some(Difference::Result { call: LABELS[nr], seen, orders }));
        }
    }
    let same = world.compare(|world| one.state.same(&other.state, world))?;
    Ok((!same).then_some(Difference::State { orders }))
}
