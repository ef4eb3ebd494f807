//! A stack: almost nothing commutes, because the interface promises an order.

use crate::{Interface, Operation, Outcome, Stack, Term, sort, state};

sort!(Element);

state! {
    /// A last-in, first-out stack.
    pub struct Plates {
        plates: Stack<Term<Element>>,
    }
}

/// Two calls of `push` commute only if they push equal elements. Two calls of `pop` commute only if the top
/// two elements are equal or the stack is empty. A stack keeps an order, so it cannot scale. A bag can.
pub fn stack() -> Interface<Plates> {
    Interface {
        name: "stack",
        about: "a stack: pushes and pops do not commute, because a stack keeps an order",
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
