//! Tests: concrete set-ups and calls for every situation, and what each call has to return.
//!
//! Coverage is the original's conflict coverage (Clements et al., SOSP 2013, section 5.2): in every
//! situation, which is a path through the model, every pattern of equal and different names among
//! the arguments and the state, up to isomorphism. Two descriptors of one file may touch other
//! cache lines than two of different files, even where the model tells no difference.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::example::Example;
use crate::explore::{Extent, Leaf, Limits, ModelError, Verdict, call_label, walk};
use crate::facts::{Facts, Name, Question};
use crate::interface::{Interface, Operation};
use crate::part::Part;
use crate::state::State;
use crate::world::Argument;

/// Version of the format of a test.
pub const TEST_SCHEMA: u32 = 1;

/// Which tests to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Most patterns of equality in one situation.
    pub patterns: usize,
    /// Also of situations in which the operations do not commute: one pattern each, for a check of
    /// results in sequence.
    pub differing: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { patterns: 64, differing: false }
    }
}

/// A concrete test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// [`TEST_SCHEMA`].
    pub schema: u32,
    /// `open,link/17.3`: the operations, the situation, the pattern.
    pub id: String,
    /// The interface.
    pub interface: String,
    /// Whether the operations commute here.
    pub commute: bool,
    /// What holds, in formulas: the situation.
    pub condition: Vec<String>,
    /// What is equal or different besides: the pattern.
    pub pattern: Vec<String>,
    /// How to come to the initial state, in order.
    pub setup: Vec<Value>,
    /// The calls.
    pub calls: Vec<TestCall>,
    /// What they return.
    pub expect: Vec<Expect>,
}

/// A call of a test, and who makes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestCall {
    /// What it is called in conditions and orders: `a`, `b` …
    pub label: String,
    /// The operation.
    pub operation: String,
    /// The process that makes it, from 0.
    pub process: u8,
    /// The thread that makes it, from 0: each has its own.
    pub thread: usize,
    /// The CPU that it runs on, from 0.
    pub cpu: usize,
    /// What it is given; what makes no difference is left out.
    pub arguments: Map<String, Value>,
}

/// What the calls return in an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expect {
    /// `ab`, `ba` …; `any`: whatever the order.
    pub order: String,
    /// By call.
    pub results: Vec<Value>,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Generated {
    /// The tests, in a fixed order.
    pub tests: Vec<Test>,
    /// In how many situations there are more patterns than allowed.
    pub capped: usize,
    /// How far the exploration went.
    pub extent: Extent,
}

/// The tests of operations that are called at once.
pub fn generate<S: State>(
    interface: &Interface<S>,
    operations: &[&Operation<S>],
    limits: &Limits,
    wanted: &Wanted,
) -> Result<Generated, ModelError> {
    let mut generated = Generated::default();
    let names: Vec<&str> = operations.iter().map(|operation| operation.name).collect();
    let mut situation = 0;
    let Generated { tests, capped, .. } = &mut generated;
    let extent = walk(interface, operations, limits, |leaf| {
        let Ok(mut leaf) = leaf else { return };
        let commute = leaf.verdict == Verdict::Commute;
        if commute || wanted.differing {
            let most = if commute { wanted.patterns } else { 1 };
            let state = leaf.initial.part(&mut leaf.world);
            let (patterns, all) = patterns(interface, &leaf, &state, operations.len(), most);
            *capped += usize::from(commute && !all);
            for (nr, pattern) in patterns.iter().enumerate() {
                let id = format!("{}/{situation}.{nr}", names.join(","));
                tests.push(test(interface, &names, &mut leaf, &state, pattern, id));
            }
        }
        situation += 1;
    })?;
    generated.extent = extent;
    Ok(generated)
}

/// All that is known, once it is decided which names are equal, and what was decided for it.
struct Pattern {
    facts: Facts,
    decided: Vec<String>,
}

/// The patterns of equality among the names of a situation, and whether these are all.
fn patterns<S: State>(
    interface: &Interface<S>,
    leaf: &Leaf<S>,
    state: &Part,
    calls: usize,
    most: usize,
) -> (Vec<Pattern>, bool) {
    let mut names = Vec::new();
    for nr in 0..calls {
        let (_, arguments) = leaf.world.call_given(nr);
        names.extend(arguments.iter().filter_map(|(_, argument)| match argument {
            Argument::Name(name) => Some(*name),
            _ => None,
        }));
    }
    state.names(&mut names);
    let facts = leaf.world.facts();
    names.retain(|name| !facts.is_fresh(*name));
    let mut pairs: Vec<[Name; 2]> = Vec::new();
    for (nr, &b) in names.iter().enumerate() {
        let same_sort = names[..nr].iter().filter(|a| facts.sort(**a) == facts.sort(b));
        pairs.extend(same_sort.map(|&a| [a, b]));
    }
    let mut open = vec![(0, Pattern { facts: facts.clone(), decided: Vec::new() })];
    let mut patterns = Vec::new();
    while let Some((from, mut pattern)) = open.pop() {
        if patterns.len() == most {
            return (patterns, false);
        }
        for (nr, &[a, b]) in pairs.iter().enumerate().skip(from) {
            let question = Question::Same(a, b);
            if pattern.facts.answer(&question).is_some() {
                continue;
            }
            let take = |answer: bool| {
                let mut facts = pattern.facts.clone();
                let mut decided = pattern.decided.clone();
                decided.push(facts.show(&question, answer));
                facts.assume(&question, answer);
                Pattern { facts, decided }
            };
            open.push((nr + 1, take(true)));
            // All different first: the pattern that a cap keeps.
            pattern = take(false);
        }
        patterns.push(pattern);
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
        let (process, given) = leaf.world.call_given(nr);
        let arguments = given.iter().map(|(name, argument)| {
            let value = match *argument {
                Argument::Name(name) => example.name(name).into(),
                Argument::Int(int) => example.int(int).into(),
                Argument::Flag(flag) => example.truth(crate::Truth::Initial(flag)).into(),
            };
            (name.clone(), value)
        });
        calls.push(TestCall {
            label: call_label(nr).to_owned(),
            operation: (*name).to_owned(),
            process,
            thread: nr,
            cpu: nr,
            arguments: arguments.collect(),
        });
    }
    let setup = match interface.setup {
        Some(setup) => setup(&leaf.initial, &mut leaf.world, &mut example),
        None => example.steps(state),
    };
    let commute = leaf.verdict == Verdict::Commute;
    let expect = leaf.runs.iter().map(|run| Expect {
        order: match commute {
            true => "any".to_owned(),
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
        condition: leaf.world.answered().iter().map(crate::Answered::show).collect(),
        pattern: pattern.decided.clone(),
        setup,
        calls,
        expect: expect.collect(),
    }
}
