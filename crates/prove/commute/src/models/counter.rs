//! A counter: increments commute unless they return the value.

use crate::{Int, Interface, Operation, Outcome, state};

state! {
    /// A number.
    pub struct Counter {
        n: Int,
    }
}

/// `inc` commutes with itself. `inc_get`, which returns the new value, does not commute with itself,
/// because the call that comes first gets the smaller value. So the increment of a scalable counter must not
/// return the counter's value.
pub fn counter() -> Interface<Counter> {
    Interface {
        name: "counter",
        about: "a counter: increments commute unless they return the value",
        operations: vec![
            Operation {
                name: "inc",
                about: "(): increments",
                apply: |state, _| {
                    state.n = state.n + 1;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "inc_get",
                about: "(): increments and returns the new value",
                apply: |state, _| {
                    state.n = state.n + 1;
                    Ok(Outcome::of(state.n))
                },
            },
            Operation {
                name: "dec_if_positive",
                about: "(): decrements unless it is 0",
                apply: |state, call| {
                    if call.execution.at_most(1, state.n)? {
                        state.n = state.n - 1;
                        return Ok(Outcome::of("done"));
                    }
                    Ok(Outcome::of("zero"))
                },
            },
            Operation {
                name: "get",
                about: "(): the value",
                apply: |state, _| Ok(Outcome::of(state.n)),
            },
        ],
        ..Interface::default()
    }
}
