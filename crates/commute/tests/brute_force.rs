//! The small interfaces once more, written down without any unknowns and tried in every state of a
//! small universe: exactly one situation holds there, and its verdict is right.

use std::collections::BTreeMap;

use knee_commute::models::{counter, map, queue, register, stack};
use knee_commute::{Extent, Interface, Limits, Literal, State, Verdict, explore};

/// An interface without unknowns.
trait Concrete: Clone + PartialEq + std::fmt::Debug {
    /// Every state of the universe.
    fn all() -> Vec<Self>;
    /// Calls an operation with a key and a value; what its caller sees.
    fn call(&mut self, operation: &str, key: u8, value: u8) -> String;
    /// What a term of the initial state stands for, given what its keys stand for.
    fn number(&self, label: &str, key: impl Fn(&str) -> u8) -> i64;
    /// Whether a flag of it is set.
    fn flag(&self, label: &str, key: impl Fn(&str) -> u8) -> bool;
}

type Args = [(u8, u8)];

/// Whether the calls commute: as the definition says, for every set of them and every order.
fn commutes<C: Concrete>(start: &C, operations: &[&str], args: &Args) -> bool {
    let mut seen: BTreeMap<Vec<usize>, (C, Vec<Option<String>>)> = BTreeMap::new();
    let mut level = vec![(Vec::<usize>::new(), start.clone(), vec![None; operations.len()])];
    for _ in operations {
        let mut next = Vec::new();
        for (order, state, outcomes) in &level {
            for nr in (0..operations.len()).filter(|nr| !order.contains(nr)) {
                let (mut order, mut state, mut outcomes) =
                    (order.clone(), state.clone(), outcomes.clone());
                outcomes[nr] = Some(state.call(operations[nr], args[nr].0, args[nr].1));
                order.push(nr);
                let mut set = order.clone();
                set.sort_unstable();
                let reached = (state.clone(), outcomes.clone());
                if *seen.entry(set).or_insert_with(|| reached.clone()) != reached {
                    return false;
                }
                next.push((order, state, outcomes));
            }
        }
        level = next;
    }
    true
}

fn holds<C: Concrete>(literal: &Literal, state: &C, args: &Args) -> bool {
    let arg = |label: &str| -> Option<u8> {
        let (call, name) = label.split_once('.')?;
        let nr = ["a", "b", "c"].iter().position(|c| *c == call)?;
        match name {
            "key" => Some(args[nr].0),
            "value" | "element" | "message" => Some(args[nr].1),
            _ => None,
        }
    };
    let key = |label: &str| arg(label).unwrap();
    let number = |label: &str| match arg(label) {
        Some(value) => i64::from(value),
        None if label.is_empty() => 0,
        None => state.number(label, key),
    };
    match literal {
        Literal::Same(_, a, b) => number(a) == number(b),
        Literal::AtMost(a, plus, b) => number(a) + plus <= number(b),
        Literal::Is(label) => state.flag(label, key),
    }
}

fn check<S: State, C: Concrete>(interface: &Interface<S>, calls: usize) {
    let names: Vec<&str> = interface.operations.iter().map(|operation| operation.name).collect();
    let mut sets: Vec<Vec<&str>> = vec![Vec::new()];
    for _ in 0..calls {
        let longer = |set: &Vec<&'static str>| {
            names.iter().map(|name| [&set[..], &[*name]].concat()).collect::<Vec<_>>()
        };
        sets = sets.iter().flat_map(longer).collect();
    }
    let one: Vec<(u8, u8)> = (0..4).map(|n| (n / 2, n % 2)).collect();
    let mut args: Vec<Vec<(u8, u8)>> = vec![Vec::new()];
    for _ in 0..calls {
        args = args
            .iter()
            .flat_map(|args| {
                one.iter().map(|arg| [&args[..], &[*arg]].concat()).collect::<Vec<_>>()
            })
            .collect();
    }
    for set in sets {
        let operations: Vec<_> =
            set.iter().map(|name| interface.operation(name).unwrap()).collect();
        let exploration = explore(interface, &operations, &Limits::default()).unwrap();
        assert_eq!(exploration.extent, Extent::default());
        for (state, args) in C::all().iter().flat_map(|s| args.iter().map(move |args| (s, args))) {
            let here: Vec<_> = exploration
                .situations
                .iter()
                .filter(|situation| {
                    let mut condition = situation.condition.iter();
                    condition.all(|(literal, answer)| holds(literal, state, args) == *answer)
                })
                .collect();
            assert_eq!(here.len(), 1, "{set:?} {state:?} {args:?}: {here:#?}");
            let expected = commutes(state, &set, args);
            let found = here[0].verdict == Verdict::Commute;
            assert_eq!(found, expected, "{set:?} {state:?} {args:?}: {here:#?}");
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Counter(i64);

impl Concrete for Counter {
    fn all() -> Vec<Self> {
        (-4..=4).map(Self).collect()
    }

    fn call(&mut self, operation: &str, _: u8, _: u8) -> String {
        match operation {
            "inc" => {
                self.0 += 1;
                String::new()
            }
            "inc_get" => {
                self.0 += 1;
                self.0.to_string()
            }
            "dec_if_positive" if self.0 > 0 => {
                self.0 -= 1;
                "done".to_owned()
            }
            "dec_if_positive" => "zero".to_owned(),
            "get" => self.0.to_string(),
            other => panic!("{other}"),
        }
    }

    fn number(&self, label: &str, _: impl Fn(&str) -> u8) -> i64 {
        assert_eq!(label, "n");
        self.0
    }

    fn flag(&self, label: &str, _: impl Fn(&str) -> u8) -> bool {
        panic!("{label}")
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Register(u8);

impl Concrete for Register {
    fn all() -> Vec<Self> {
        (0..3).map(Self).collect()
    }

    fn call(&mut self, operation: &str, _: u8, value: u8) -> String {
        match operation {
            "write" => {
                self.0 = value;
                String::new()
            }
            "read" => self.0.to_string(),
            other => panic!("{other}"),
        }
    }

    fn number(&self, label: &str, _: impl Fn(&str) -> u8) -> i64 {
        assert_eq!(label, "value");
        self.0.into()
    }

    fn flag(&self, label: &str, _: impl Fn(&str) -> u8) -> bool {
        panic!("{label}")
    }
}

/// A stack, top last, or a queue, front first.
#[derive(Debug, Clone, PartialEq)]
struct Sequence<const ROOM: usize>(Vec<u8>);

fn sequences(most: usize) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    for _ in 0..most {
        let longer: Vec<Vec<u8>> =
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

    fn call(&mut self, operation: &str, _: u8, value: u8) -> String {
        let popped = match operation {
            "push" if ROOM != STACK && self.0.len() >= ROOM => return "full".to_owned(),
            "push" => {
                self.0.push(value);
                return "done".to_owned();
            }
            "pop" if ROOM == STACK => self.0.pop(),
            "pop" if self.0.is_empty() => None,
            "pop" => Some(self.0.remove(0)),
            other => panic!("{other}"),
        };
        popped.map_or("empty".to_owned(), |value| value.to_string())
    }

    fn number(&self, label: &str, _: impl Fn(&str) -> u8) -> i64 {
        if label.ends_with(".length") {
            return self.0.len() as i64;
        }
        let nr: usize = label.split(['(', ')']).nth(1).unwrap().parse().unwrap();
        let nr = if ROOM == STACK { self.0.len() - 1 - nr } else { nr };
        self.0[nr].into()
    }

    fn flag(&self, label: &str, _: impl Fn(&str) -> u8) -> bool {
        panic!("{label}")
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Table(BTreeMap<u8, u8>);

impl Concrete for Table {
    fn all() -> Vec<Self> {
        let value = |n: u8| [None, Some(0), Some(1)][usize::from(n)];
        let table = |n: u8| {
            [(0, value(n / 3)), (1, value(n % 3))].into_iter().filter_map(|(k, v)| Some((k, v?)))
        };
        (0..9).map(|n| Self(table(n).collect())).collect()
    }

    fn call(&mut self, operation: &str, key: u8, value: u8) -> String {
        let old = match operation {
            "put" => {
                self.0.insert(key, value);
                return String::new();
            }
            "swap" => self.0.insert(key, value),
            "get" => self.0.get(&key).copied(),
            "remove" => {
                self.0.remove(&key);
                return String::new();
            }
            other => panic!("{other}"),
        };
        old.map_or("none".to_owned(), |value| value.to_string())
    }

    fn number(&self, label: &str, key: impl Fn(&str) -> u8) -> i64 {
        // Asked of keys that are there only; of others a formula that does not hold came first.
        let key = key(label.strip_prefix("table[").unwrap().strip_suffix(']').unwrap());
        self.0.get(&key).map_or(-1, |&value| value.into())
    }

    fn flag(&self, label: &str, key: impl Fn(&str) -> u8) -> bool {
        self.0.contains_key(&key(label.strip_prefix("table has ").unwrap()))
    }
}

#[test]
fn a_counter_is_explored_as_by_trying_all() {
    check::<_, Counter>(&counter::counter(), 2);
    check::<_, Counter>(&counter::counter(), 3);
}

#[test]
fn a_register_is_explored_as_by_trying_all() {
    check::<_, Register>(&register::register(), 2);
    check::<_, Register>(&register::register(), 3);
}

#[test]
fn a_stack_is_explored_as_by_trying_all() {
    check::<_, Sequence<STACK>>(&stack::stack(), 2);
    check::<_, Sequence<STACK>>(&stack::stack(), 3);
}

#[test]
fn a_queue_is_explored_as_by_trying_all() {
    check::<_, Sequence<QUEUE>>(&queue::queue(), 2);
    check::<_, Sequence<QUEUE>>(&queue::queue(), 3);
}

#[test]
fn a_map_is_explored_as_by_trying_all() {
    check::<_, Table>(&map::map(), 2);
    check::<_, Table>(&map::map(), 3);
}
