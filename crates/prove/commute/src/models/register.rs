//! A register: writes commute only if they write the same value.

use crate::{Interface, Operation, Outcome, Term, sort, state};

sort!(Datum);

state! {
    /// The value that was written last.
    pub struct Register {
        value: Term<Datum>,
    }
}

/// Two writes of the same value commute, and a write of the current value commutes with a read.
/// Commutativity depends on the state and the arguments, not only on the operations.
pub fn register() -> Interface<Register> {
    Interface {
        name: "register",
        about: "a register: writes commute only if they write the same value",
        operations: vec![
            Operation {
                name: "write",
                about: "(value)",
                apply: |state, call| {
                    state.value = call.term("value");
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "read",
                about: "(): the last value written",
                apply: |state, _| Ok(Outcome::of(state.value)),
            },
        ],
        ..Interface::default()
    }
}
