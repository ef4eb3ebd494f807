//! A model in a separate program: a lamp with a switch.
//!
//! ```sh
//! cargo build --release -p knee-commute --example lamp
//! knee commute matrix --model target/release/examples/lamp
//! knee commute conditions on toggle --model target/release/examples/lamp
//! ```

use std::process::ExitCode;

use knee_commute::{Interface, Operation, Outcome, Truth, serve, state};

state! {
    /// Whether the lamp is lit.
    struct Lamp {
        lit: Truth,
    }
}

/// `on` commutes with itself, because the lamp is lit after both calls in either order. `toggle` also
/// commutes with itself, but only because it returns nothing.
fn lamp() -> Interface<Lamp> {
    Interface {
        name: "lamp",
        about: "a lamp: on commutes with itself, toggle does not commute with look",
        operations: vec![
            Operation {
                name: "on",
                about: "(): turns the lamp on, whether it was lit or dark",
                apply: |state, _| {
                    state.lit = Truth::Known(true);
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "toggle",
                about: "(): turns the lamp on if it was dark, and off if it was lit",
                apply: |state, call| {
                    let lit = state.lit.ask(call.execution)?;
                    state.lit = Truth::Known(!lit);
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "look",
                about: "(): returns whether the lamp is lit or dark",
                apply: |state, call| {
                    let lit = state.lit.ask(call.execution)?;
                    Ok(Outcome::of(if lit { "lit" } else { "dark" }))
                },
            },
        ],
        ..Interface::default()
    }
}

fn main() -> ExitCode {
    serve(&lamp())
}
