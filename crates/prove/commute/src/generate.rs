//! Concrete tests of every situation: the set-up, the calls, and the expected results.
//!
//! The coverage is COMMUTER's conflict coverage (Clements et al., SOSP 2013, section 5.2). A situation is a
//! path through the model. Each situation has one test for each pattern of equal and different values, up to
//! isomorphism. Patterns vary names in arguments and in the state, and integers in arguments. Two patterns
//! can look the same to the model although their calls touch different cache lines: for example, calls on two
//! descriptors of one file, and calls on descriptors of two files. Integers of the state (lengths, counts,
//! times, offsets) are as small as possible. Patterns do not vary these integers, because the calls touch the
//! same cache lines whether two such integers are equal or not.

use std::collections::HashSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::example::Example;
use crate::execution::Argument;
use crate::exploration::{Extent, Limits, ModelError, Verdict, call_label};
use crate::explore::{Leaf, walk};
use crate::facts::{Facts, Int, Name, Question};
use crate::interface::{Interface, Operation};
use crate::state::{Part, State};

/// Version of the test format.
pub const TEST_SCHEMA: u32 = 1;
/// The value of [`Expect::order`] if the results are the same in every order.
const ANY_ORDER: &str = "any";

/// Which tests to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The maximum number of patterns that are tested for each situation.
    pub patterns: usize,
    /// Whether to also generate one test for each situation in which the operations do not commute.
    pub differing: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { patterns: 128, differing: false }
    }
}

/// A concrete test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// [`TEST_SCHEMA`].
    pub schema: u32,
    /// The operations, the situation and the pattern: `open,link/17.3`.
    pub id: String,
    /// The name of the interface.
    pub interface: String,
    /// Whether the operations commute in this situation.
    pub commute: bool,
    /// The condition of the situation, as formulas.
    pub condition: Vec<String>,
    /// The pattern, as formulas: the equalities and differences that the condition leaves open.
    pub pattern: Vec<String>,
    /// The steps that set up the initial state, in order.
    pub setup: Vec<Value>,
    /// The calls.
    pub calls: Vec<TestCall>,
    /// The expected results.
    pub expect: Vec<Expect>,
}

/// A call of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestCall {
    /// The label of the call in conditions and orders: `a`, `b` …
    pub label: String,
    /// The operation.
    pub operation: String,
    /// The process that makes the call, from 0.
    pub process: u8,
    /// The thread that makes the call, from 0. Each call has a thread of its own.
    pub thread: usize,
    /// The CPU that the call runs on, from 0.
    pub cpu: usize,
    /// The arguments. Arguments that do not matter are left out.
    pub arguments: Map<String, Value>,
}

/// The expected results of the calls in one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expect {
    /// `ab`, `ba` …, or `any` if the results are the same in every order.
    pub order: String,
    /// The result of each call.
    pub results: Vec<Value>,
}

impl Expect {
    /// Whether the results are the same in every order.
    pub fn is_of_any_order(&self) -> bool {
        self.order == ANY_ORDER
    }

    /// The call numbers in this order: in ascending order if the results are the same in every order. `of` is
    /// the number of calls in the test. `None` if the order names a call that the test does not have or that
    /// has no result.
    pub fn calls(&self, of: usize) -> Option<Vec<usize>> {
        let calls: Vec<usize> = match self.is_of_any_order() {
            true => (0..of).collect(),
            false => {
                self.order.bytes().map(|label| usize::from(label.wrapping_sub(b'a'))).collect()
            }
        };
        calls.iter().all(|nr| *nr < of.min(self.results.len())).then_some(calls)
    }
}

/// The result of generating tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generated {
    /// The number of tests.
    pub tests: usize,
    /// The number of situations that have more patterns than the limit.
    pub capped: usize,
    /// Whether the exploration is complete.
    pub extent: Extent,
}

/// Generates the tests that call each of `operations` once, and passes them to `take`, in a fixed order,
/// until `take` returns `Break`.
pub fn generate<S: State>(
    interface: &Interface<S>,
    operations: &[&Operation<S>],
    limits: &Limits,
    wanted: &Wanted,
    take: &mut dyn FnMut(Test) -> ControlFlow<()>,
) -> Result<Generated, ModelError> {
    let mut generated = Generated::default();
    let names: Vec<&str> = operations.iter().map(|operation| operation.name).collect();
    let (mut situation, mut tests, mut capped) = (0, 0, 0);
    generated.extent = walk(interface, operations, limits, |leaf| {
        let Ok(mut leaf) = leaf else { return ControlFlow::Continue(()) };
        let commute = leaf.verdict == Verdict::Commute;
        if commute || wanted.differing {
            let most = if commute { wanted.patterns } else { 1 };
            let state = leaf.initial.part(&mut leaf.execution);
            let pairs = undecided(&leaf, &state, operations.len());
            let (patterns, all) = patterns(leaf.execution.facts(), &pairs, most);
            capped += usize::from(commute && !all);
            for (nr, pattern) in patterns.iter().enumerate() {
                let id = format!("{}/{situation}.{nr}", names.join(","));
                tests += 1;
                take(test(interface, &names, &mut leaf, &state, pattern, id))?;
            }
        }
        situation += 1;
        ControlFlow::Continue(())
    })?;
    (generated.tests, generated.capped) = (tests, capped);
    Ok(generated)
}

/// The facts of a situation, with decisions about which values are equal.
struct Pattern {
    facts: Facts,
    decided: Vec<String>,
}

/// Two values that may be equal.
#[derive(Clone, Copy)]
enum Pair {
    Names(Name, Name),
    Ints(Int, Int),
}

impl Pair {
    /// Returns one case for each possible relation of the two values; a case is the list of answers that the
    /// relation implies. In the first case, the values are equal. Names have one more case (different), and
    /// integers have two (greater and less).
    fn cases(self) -> Vec<Vec<(Question, bool)>> {
        match self {
            Self::Names(a, b) => {
                let same = Question::Same(a, b);
                vec![vec![(same.clone(), true)], vec![(same, false)]]
            }
            Self::Ints(a, b) => {
                let (at_most, at_least) = (Question::AtMost(a, b), Question::AtMost(b, a));
                vec![
                    vec![(at_most.clone(), true), (at_least.clone(), true)],
                    vec![(at_most, false)],
                    vec![(at_least, false)],
                ]
            }
        }
    }
}

/// The pairs of values that a pattern decides on: names of one sort in the arguments and in the
/// state, and integers of one kind in the arguments (two offsets, for example).
fn undecided<S: State>(leaf: &Leaf<S>, state: &Part, calls: usize) -> Vec<Pair> {
    let (mut names, mut ints) = (Vec::new(), Vec::new());
    for nr in 0..calls {
        for (_, argument) in &leaf.execution.calls.get(nr).arguments {
            match argument {
                Argument::Name(name) => names.push(*name),
                Argument::Int(int) => ints.push(*int),
                Argument::Flag(_) | Argument::Word(..) => {}
            }
        }
    }
    let facts = leaf.execution.facts();
    state.names(&mut names);
    names.retain(|name| !facts.is_fresh(*name));
    let mut pairs = Vec::new();
    for (nr, &b) in names.iter().enumerate() {
        let same_sort = names[..nr].iter().filter(|a| facts.sort(**a) == facts.sort(b));
        pairs.extend(same_sort.map(|&a| Pair::Names(a, b)));
    }
    for (nr, &b) in ints.iter().enumerate() {
        let same_kind = ints[..nr].iter().filter(|a| facts.kind(**a) == facts.kind(b));
        pairs.extend(same_kind.map(|&a| Pair::Ints(a, b)));
    }
    pairs
}

/// Returns at most `most` patterns of a situation, and whether these are all patterns of the situation.
fn patterns(facts: &Facts, pairs: &[Pair], most: usize) -> (Vec<Pattern>, bool) {
    let mut open = vec![(0, Pattern { facts: facts.clone(), decided: Vec::new() }, Vec::new())];
    let mut patterns = Vec::new();
    let mut seen = HashSet::new();
    while let Some((from, pattern, equal)) = open.pop() {
        let next = (from..pairs.len()).find(|nr| {
            pairs[*nr].cases().iter().any(|case| {
                case.iter().any(|(question, _)| pattern.facts.answer(question).is_none())
            })
        });
        let Some(nr) = next else {
            if seen.insert(equal) {
                if patterns.len() == most {
                    return (patterns, false);
                }
                patterns.push(pattern);
            }
            continue;
        };
        for (case_nr, case) in pairs[nr].cases().into_iter().enumerate() {
            let (mut facts, mut decided) = (pattern.facts.clone(), pattern.decided.clone());
            if case.iter().all(|(question, answer)| facts.assume(question, *answer)) {
                decided.extend(case.iter().map(|(question, answer)| facts.show(question, *answer)));
                let mut equal = equal.clone();
                equal.push((nr, case_nr == 0));
                // The first case, in which the two values are equal, is pushed first and popped last. So
                // patterns with many different values come first, and the limit cuts off patterns with many
                // equal values.
                open.push((nr + 1, Pattern { facts, decided }, equal));
            }
        }
    }
    (patterns, true)
}

fn test<S: State>(
    interface: &Interface<S>,
    names: &[&str],
    leaf: &mut Leaf<S>,
    state: &Part,
    pattern: &Pattern,
    id: String,
) -> Test {
    let mut example = Example::new(&pattern.facts);
    let mut calls = Vec::new();
    for (nr, name) in names.iter().enumerate() {
        let call = leaf.execution.calls.get(nr);
        let arguments = call.arguments.iter().map(|(name, argument)| {
            let value = match *argument {
                Argument::Name(name) => example.name(name).into(),
                Argument::Int(int) => example.int(int).into(),
                Argument::Word(name, words) => example.word(name, words).into(),
                Argument::Flag(flag) => example.truth(crate::Truth::Initial(flag)).into(),
            };
            (name.clone(), value)
        });
        calls.push(TestCall {
            label: call_label(nr).to_owned(),
            operation: (*name).to_owned(),
            process: call.process.unwrap_or(0),
            thread: nr,
            cpu: nr,
            arguments: arguments.collect(),
        });
    }
    let setup = match interface.setup {
        Some(setup) => setup(&leaf.initial, &mut leaf.execution, &mut example),
        None => example.steps(state),
    };
    let commute = leaf.verdict == Verdict::Commute;
    let expect = leaf.runs.iter().map(|run| Expect {
        order: match commute {
            true => ANY_ORDER.to_owned(),
            false => run.order.iter().map(|&nr| call_label(nr)).collect(),
        },
        results: run
            .outcomes
            .iter()
            .map(|outcome| outcome.as_ref().map_or(Value::Null, |seen| example.outcome(seen)))
            .collect(),
    });
    Test {
        schema: TEST_SCHEMA,
        id,
        interface: interface.name.to_owned(),
        commute,
        condition: leaf.execution.decisions().iter().map(crate::Decision::show).collect(),
        pattern: pattern.decided.clone(),
        setup,
        calls,
        expect: expect.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_only_calls_that_exist_and_have_results() {
        let calls = |order: &str, results, of| {
            Expect { order: order.to_owned(), results: vec![Value::Null; results] }.calls(of)
        };
        assert_eq!(calls("any", 3, 3), Some(vec![0, 1, 2]));
        assert_eq!(calls("ba", 2, 2), Some(vec![1, 0]));
        assert_eq!(calls("ba", 2, 1), None, "there is no b");
        assert_eq!(calls("ba", 1, 2), None, "b has no result");
        assert_eq!(calls("B", 2, 2), None);
    }
}
