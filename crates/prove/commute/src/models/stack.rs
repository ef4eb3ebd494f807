//! A stack: almost nothing commutes, because the interface says who is on top.

use crate::{Interface, Operation, Outcome, Stack, Term, sort, state};

sort!(Element);

state! {
    /// The last in is the first out.
    pub struct Plates {
        plates: Stack<Term<Element>>,
    }
}

/// Pushes commute only if they push the same, pops only if the two on top are equal or there is
/// none: it is the order that does not scale, and a bag without one would.
pub fn stack() -> Interface<Plates> {
    Interface {
        name: "stack",
        about: "a stack: pushes and pops do not commute, because it keeps their order",
        operations: vec![
            Operation {
                name: "push",
                about: "(element)",
                apply: |state, call| {
                    state.plates.push(call.term("element"));
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "pop",
                about: "(): the element on top",
                apply: |state, call| {
                    let top = state.plates.pop(call.execution)?;
                    Ok(top.map_or(Outcome::of("empty"), Outcome::of))
                },
            },
        ],
        ..Interface::default()
    }
}
