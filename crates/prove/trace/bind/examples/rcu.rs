//! `knee_sync::Rcu`: a value that is replaced as a whole.

use std::process::ExitCode;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Interface, Model, Natural, Operation, Outcome, state};
use knee_sync::{Rcu, epoch};

state! {
    /// The value.
    struct Value {
        value: Natural,
    }
}

/// Loads commute, and so do updates that add something. Stores commute if they store the same value.
fn cell() -> Interface<Value> {
    Interface {
        name: "cell",
        about: "a value that is loaded, stored, swapped and updated",
        operations: vec![
            Operation {
                name: "load",
                about: "(): the value",
                apply: |state, _| Ok(Outcome::of(state.value.0)),
            },
            Operation {
                name: "store",
                about: "(value)",
                apply: |state, call| {
                    state.value = Natural(call.int("value", 0..=1));
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "swap",
                about: "(value): the previous value",
                apply: |state, call| {
                    let new = Natural(call.int("value", 0..=1));
                    Ok(Outcome::of(std::mem::replace(&mut state.value, new).0))
                },
            },
            Operation {
                name: "update",
                about: "(): adds one",
                apply: |state, _| {
                    state.value.0 = state.value.0 + 1;
                    Ok(Outcome::nothing())
                },
            },
        ],
        ..Interface::default()
    }
}

/// A value on cache lines of its own, whatever the allocator does.
#[repr(align(128))]
struct Line(i64);

struct Cell(Rcu<Line>);

impl Binding for Cell {
    fn model() -> impl Model {
        cell()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        Self(Rcu::new(Line(setup.number("value"))))
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let value = call.number("value");
        // Makes the thread register, and allocates its storage for retired values.
        Rcu::new(Line(0)).store(Line(1));
        Some(match call.operation() {
            "load" => Box::new(|| Returned::Number(self.0.load(&epoch::pin()).0)),
            "store" => Box::new(move || {
                self.0.store(Line(value));
                Returned::Nothing
            }),
            "swap" => Box::new(move || Returned::Number(self.0.swap(Line(value), &epoch::pin()).0)),
            "update" => Box::new(|| {
                self.0.update(|value| Line(value.0 + 1));
                Returned::Nothing
            }),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Cell>()
}
