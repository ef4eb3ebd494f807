//! Independent implementations of the interfaces, which work on concrete states. In every state of a
//! small universe, exactly one situation must hold, and its verdict must be right.

use std::collections::{BTreeMap, BTreeSet};

use knee_commute::models::{counter, map, queue, register, stack};
use knee_commute::{Exploration, Extent, Interface, Limits, Literal, State, Verdict, explore};

mod directories;
mod durability;
mod memory;
mod processes;
mod signals;
mod sockets;

/// The arguments of a call, by name; a flag is 0 or 1.
type Args = Vec<(&'static str, i64)>;

/// A concrete state of an interface, and the operations on it.
trait Concrete: Clone + Ord + std::fmt::Debug {
    /// Every state of the universe.
    fn all() -> Vec<Self>;
    /// Every choice of arguments for an operation.
    fn arguments(operation: &str) -> Vec<Args>;
    /// Every possible outcome of a call: the state after the call, and what the caller sees.
    fn call(&self, operation: &str, args: &Args) -> Vec<(Self, String)>;
    /// The value of a term of the initial state, given the values of arguments.
    fn number(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> i64;
    /// The value of a flag of the initial state.
    fn flag(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> bool;
}

/// The value of the argument `name`, which must be present.
fn arg(args: &Args, name: &str) -> i64 {
    args.iter().find(|(other, _)| *other == name).expect(name).1
}

/// Every choice of values for these arguments. Each value is below the bound of its argument.
fn choices(names: &[(&'static str, i64)]) -> Vec<Args> {
    let values = |&(name, bound): &(&'static str, i64)| (0..bound).map(|n| (name, n)).collect();
    product(&names.iter().map(values).collect::<Vec<_>>())
}

/// The possible states after a call that returns this result.
fn after<C: Concrete>(
    states: &BTreeSet<C>,
    (operation, args): (&str, &Args),
    result: &str,
) -> BTreeSet<C> {
    let ends = states.iter().flat_map(|state| state.call(operation, args));
    ends.filter(|(_, seen)| seen == result).map(|(state, _)| state).collect()
}

/// Whether the calls commute, by definition. There must be results that the calls can return in every order.
/// When the calls return these results, the possible states after each subset of the calls must not depend on
/// the order of the calls in the subset.
fn commutes<C: Concrete>(start: &C, calls: &[(&str, &Args)]) -> bool {
    // All possible results of the calls in the given order.
    let mut ends = vec![(start.clone(), Vec::new())];
    for (operation, args) in calls {
        let next = |(state, results): &(C, Vec<String>)| {
            let results = results.clone();
            let ends = state.call(operation, args).into_iter();
            ends.map(move |(state, seen)| (state, [&results[..], &[seen]].concat()))
        };
        ends = ends.iter().flat_map(next).collect();
    }
    let possible: BTreeSet<Vec<String>> = ends.into_iter().map(|(_, results)| results).collect();
    possible.iter().any(|results| {
        // For each set of calls (one bit for each call), the possible states after these calls.
        let mut left = vec![BTreeSet::from([start.clone()])];
        for made in 1..1usize << calls.len() {
            let last = (0..calls.len()).filter(|nr| made >> nr & 1 == 1);
            let mut ends = last.map(|nr| after(&left[made & !(1 << nr)], calls[nr], &results[nr]));
            let first = ends.next().expect("some call is the last");
            if first.is_empty() || ends.any(|other| other != first) {
                return false;
            }
            left.push(first);
        }
        true
    })
}

fn holds<C: Concrete>(literal: &Literal, state: &C, calls: &[(&str, &Args)]) -> bool {
    let call = |label: &str| ["a", "b", "c"].iter().position(|call| label.starts_with(call));
    // The value of an argument, such as `a.key`, or of a fact, such as `b is in the other process` or `c is in
    // another process than b`.
    let given = |label: &str| -> Option<i64> {
        let nr = call(label)?;
        let name = label[1..].strip_prefix(['.', ' '])?;
        let other = match name {
            "is in the other process" => Some(0),
            name => name.strip_prefix("is in another process than ").and_then(call),
        };
        Some(match other {
            None => arg(calls[nr].1, name),
            Some(other) => i64::from(process(calls[nr].1) != process(calls[other].1)),
        })
    };
    let arg = |label: &str| given(label).expect(label);
    let number = |label: &str| match given(label) {
        Some(value) => value,
        None if label.is_empty() => 0,
        None => state.number(label, &arg),
    };
    match literal {
        Literal::Same(_, a, b) => number(a) == number(b),
        Literal::AtMost(a, plus, b) => number(a) + plus <= number(b),
        Literal::Is(label) => {
            given(label).map_or_else(|| state.flag(label, &arg), |value| value == 1)
        }
    }
}

/// A condition: for each of its literals, the index of the literal, and whether the literal must hold.
type Numbered = Vec<(usize, bool)>;

/// Returns the distinct literals of an exploration, and its conditions with each literal replaced by its
/// index. Most literals occur in many situations, and the indices make it possible to evaluate each literal
/// only once.
fn numbered(exploration: &Exploration) -> (Vec<&Literal>, Vec<Numbered>) {
    let mut literals = Vec::new();
    let mut number = |literal| {
        literals.iter().position(|other| *other == literal).unwrap_or_else(|| {
            literals.push(literal);
            literals.len() - 1
        })
    };
    let conditions = exploration.situations.iter().map(|situation| {
        situation.condition.iter().map(|(literal, yes)| (number(literal), *yes)).collect()
    });
    let conditions = conditions.collect();
    (literals, conditions)
}

/// The Cartesian product.
fn product<T: Clone>(of: &[Vec<T>]) -> Vec<Vec<T>> {
    of.iter().fold(vec![Vec::new()], |lists, next| {
        let longer = |list: &Vec<T>| {
            let list = list.clone();
            next.iter().map(move |one| [&list[..], std::slice::from_ref(one)].concat())
        };
        lists.iter().flat_map(longer).collect()
    })
}

/// The indices of the conditions that hold.
fn holding(conditions: &[Numbered], mut holds: impl FnMut(usize) -> bool) -> Vec<usize> {
    let mut here = Vec::new();
    let mut nr = 0;
    while let Some(condition) = conditions.get(nr) {
        let failed = condition.iter().position(|&(literal, answer)| holds(literal) != answer);
        if failed.is_none() {
            here.push(nr);
        }
        // Skip the conditions that begin with the same answers up to the failed literal: they fail, too.
        let begins_so =
            |other: &&Numbered| failed.is_some_and(|at| other.get(..=at) == condition.get(..=at));
        nr += 1 + conditions[nr + 1..].iter().take_while(begins_so).count();
    }
    here
}

/// The process that makes a call.
fn process(args: &Args) -> i64 {
    args.iter().find(|(name, _)| *name == "process").map_or(0, |(_, process)| *process)
}

/// Whether each of these processes either makes an earlier call or is the lowest process that makes no
/// earlier call.
fn are_lowest(mut processes: impl Iterator<Item = i64>) -> bool {
    let mut lowest = 0;
    processes.all(|process| {
        let is_next = process <= lowest;
        lowest = lowest.max(process + 1);
        is_next
    })
}

/// Checks all combinations of `calls` operations of an interface. Returns the number of situations that hold
/// in no state of the universe: 0 if the universe is large enough and every situation is satisfiable.
fn check<S: State, C: Concrete>(interface: &Interface<S>, calls: usize) -> usize {
    let mut unmet = 0;
    let names: Vec<&str> = interface.operations.iter().map(|operation| operation.name).collect();
    let states = C::all();
    for set in product(&vec![names; calls]) {
        let operations: Vec<_> =
            set.iter().map(|name| interface.operation(name).unwrap()).collect();
        let exploration = explore(interface, &operations, &Limits::default()).unwrap();
        assert_eq!(exploration.extent, Extent::default());
        let (literals, conditions) = numbered(&exploration);
        let arguments: Vec<Vec<Args>> = set.iter().map(|name| C::arguments(name)).collect();
        let mut arguments = product(&arguments);
        arguments.retain(|args| are_lowest(args.iter().map(process)));
        let mut met = BTreeSet::new();
        for (state, args) in states.iter().flat_map(|s| arguments.iter().map(move |args| (s, args)))
        {
            let calls: Vec<(&str, &Args)> = set.iter().copied().zip(args).collect();
            let mut known = vec![None; literals.len()];
            let here = holding(&conditions, |nr| {
                *known[nr].get_or_insert_with(|| holds(literals[nr], state, &calls))
            });
            met.extend(here.iter().copied());
            let here: Vec<_> = here.iter().map(|&nr| &exploration.situations[nr]).collect();
            assert_eq!(here.len(), 1, "{state:?} {calls:?}: {here:#?}");
            let expected = commutes(state, &calls);
            let found = here[0].verdict == Verdict::Commute;
            assert_eq!(found, expected, "{state:?} {calls:?}: {here:#?}");
        }
        unmet += exploration.situations.len() - met.len();
    }
    unmet
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Counter(i64);

impl Concrete for Counter {
    fn all() -> Vec<Self> {
        (-4..=4).map(Self).collect()
    }

    fn arguments(_: &str) -> Vec<Args> {
        choices(&[])
    }

    fn call(&self, operation: &str, _: &Args) -> Vec<(Self, String)> {
        let n = self.0;
        let (n, seen) = match operation {
            "inc" => (n + 1, String::new()),
            "inc_get" => (n + 1, (n + 1).to_string()),
            "dec_if_positive" if n > 0 => (n - 1, "done".to_owned()),
            "dec_if_positive" => (n, "zero".to_owned()),
            "get" => (n, n.to_string()),
            other => panic!("{other}"),
        };
        vec![(Self(n), seen)]
    }

    fn number(&self, label: &str, _: &dyn Fn(&str) -> i64) -> i64 {
        assert_eq!(label, "n");
        self.0
    }

    fn flag(&self, label: &str, _: &dyn Fn(&str) -> i64) -> bool {
        panic!("{label}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Register(i64);

impl Concrete for Register {
    fn all() -> Vec<Self> {
        (0..3).map(Self).collect()
    }

    fn arguments(operation: &str) -> Vec<Args> {
        choices(if operation == "write" { &[("value", 2)] } else { &[] })
    }

    fn call(&self, operation: &str, args: &Args) -> Vec<(Self, String)> {
        vec![match operation {
            "write" => (Self(arg(args, "value")), String::new()),
            "read" => (self.clone(), self.0.to_string()),
            other => panic!("{other}"),
        }]
    }

    fn number(&self, label: &str, _: &dyn Fn(&str) -> i64) -> i64 {
        assert_eq!(label, "value");
        self.0
    }

    fn flag(&self, label: &str, _: &dyn Fn(&str) -> i64) -> bool {
        panic!("{label}")
    }
}

/// A stack, whose last element is the top, or a queue, whose first element is the front.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sequence<const ROOM: usize>(Vec<i64>);

/// All sequences of at most `most` zeros and ones.
fn sequences(most: usize) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for _ in 0..most {
        let longer: Vec<Vec<i64>> =
            all.iter().flat_map(|s| (0..2).map(move |v| [&s[..], &[v]].concat())).collect();
        all.extend(longer);
    }
    all.sort();
    all.dedup();
    all
}

const STACK: usize = 0;
const QUEUE: usize = 2;

impl<const ROOM: usize> Concrete for Sequence<ROOM> {
    fn all() -> Vec<Self> {
        sequences(if ROOM == STACK { 4 } else { ROOM }).into_iter().map(Self).collect()
    }

    fn arguments(operation: &str) -> Vec<Args> {
        choices(match operation {
            "push" if ROOM == STACK => &[("element", 2)],
            "push" => &[("message", 2)],
            _ => &[],
        })
    }

    fn call(&self, operation: &str, args: &Args) -> Vec<(Self, String)> {
        let mut left = self.clone();
        let popped = match operation {
            "push" if ROOM != STACK && self.0.len() >= ROOM => {
                return vec![(left, "full".to_owned())];
            }
            "push" => {
                left.0.push(args[0].1);
                return vec![(left, "done".to_owned())];
            }
            "pop" if ROOM == STACK => left.0.pop(),
            "pop" if self.0.is_empty() => None,
            "pop" => Some(left.0.remove(0)),
            other => panic!("{other}"),
        };
        vec![(left, popped.map_or("empty".to_owned(), |value| value.to_string()))]
    }

    fn number(&self, label: &str, _: &dyn Fn(&str) -> i64) -> i64 {
        if label.ends_with(".length") {
            return self.0.len() as i64;
        }
        let nr: usize = label.split(['(', ')']).nth(1).unwrap().parse().unwrap();
        let nr = if ROOM == STACK { self.0.len() - 1 - nr } else { nr };
        self.0[nr]
    }

    fn flag(&self, label: &str, _: &dyn Fn(&str) -> i64) -> bool {
        panic!("{label}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Table(BTreeMap<i64, i64>);

impl Concrete for Table {
    fn all() -> Vec<Self> {
        let value = |n: usize| [None, Some(0), Some(1)][n];
        let table = |n: usize| {
            [(0, value(n / 3)), (1, value(n % 3))].into_iter().filter_map(|(k, v)| Some((k, v?)))
        };
        (0..9).map(|n| Self(table(n).collect())).collect()
    }

    fn arguments(operation: &str) -> Vec<Args> {
        choices(match operation {
            "put" | "swap" => &[("key", 2), ("value", 2)],
            _ => &[("key", 2)],
        })
    }

    fn call(&self, operation: &str, args: &Args) -> Vec<(Self, String)> {
        let mut left = self.clone();
        let key = arg(args, "key");
        let old = match operation {
            "put" => {
                left.0.insert(key, arg(args, "value"));
                return vec![(left, String::new())];
            }
            "swap" => left.0.insert(key, arg(args, "value")),
            "get" => left.0.get(&key).copied(),
            "remove" => {
                left.0.remove(&key);
                return vec![(left, String::new())];
            }
            other => panic!("{other}"),
        };
        vec![(left, old.map_or("none".to_owned(), |value| value.to_string()))]
    }

    fn number(&self, label: &str, key: &dyn Fn(&str) -> i64) -> i64 {
        // The value matters only if the key is present. If the key is missing, an earlier literal of
        // the condition fails.
        let key = key(label.strip_prefix("table[").unwrap().strip_suffix(']').unwrap());
        self.0.get(&key).copied().unwrap_or(-1)
    }

    fn flag(&self, label: &str, key: &dyn Fn(&str) -> i64) -> bool {
        self.0.contains_key(&key(label.strip_prefix("table has ").unwrap()))
    }
}

#[test]
fn a_counter_agrees_with_brute_force() {
    assert_eq!(check::<_, Counter>(&counter::counter(), 2), 0);
    check::<_, Counter>(&counter::counter(), 3);
}

#[test]
fn a_register_agrees_with_brute_force() {
    assert_eq!(check::<_, Register>(&register::register(), 2), 0);
    check::<_, Register>(&register::register(), 3);
}

#[test]
fn a_stack_agrees_with_brute_force() {
    assert_eq!(check::<_, Sequence<STACK>>(&stack::stack(), 2), 0);
    check::<_, Sequence<STACK>>(&stack::stack(), 3);
}

#[test]
fn a_queue_agrees_with_brute_force() {
    assert_eq!(check::<_, Sequence<QUEUE>>(&queue::queue(), 2), 0);
    check::<_, Sequence<QUEUE>>(&queue::queue(), 3);
}

#[test]
fn a_map_agrees_with_brute_force() {
    assert_eq!(check::<_, Table>(&map::map(), 2), 0);
    check::<_, Table>(&map::map(), 3);
}
