//! A model that breaks the rules, for tests of knee's error messages.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use knee_commute::{Interface, Operation, Outcome, Truth, serve, state};

state! {
    /// Two flags that operations ask about.
    struct Pair {
        left: Truth,
        right: Truth,
    }
}

/// The number of calls so far.
static CALLS: AtomicU32 = AtomicU32::new(0);

fn misbehaving() -> Interface<Pair> {
    Interface {
        name: "misbehaving",
        about: "a model with faults",
        operations: vec![
            Operation {
                name: "fine",
                about: "(): works correctly",
                apply: |_, _| Ok(Outcome::nothing()),
            },
            Operation {
                name: "panics",
                about: "(): panics if left is true and right is false",
                apply: |state, call| {
                    if state.left.ask(call.execution)? && !state.right.ask(call.execution)? {
                        panic!("no right without left");
                    }
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "loops",
                about: "(): loops forever if left is false",
                apply: |state, call| {
                    while !state.left.ask(call.execution)? {
                        std::hint::spin_loop();
                    }
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "wavers",
                about: "(): asks about left in every third call, otherwise about right",
                apply: |state, call| {
                    let left = CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(3);
                    let asked = if left { state.left } else { state.right };
                    asked.ask(call.execution)?;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "asks",
                about: "(): asks new questions forever",
                apply: |_, call| {
                    for nr in 0.. {
                        call.flag(&format!("flag {nr}"))?;
                    }
                    Ok(Outcome::nothing())
                },
            },
        ],
        ..Interface::default()
    }
}

fn main() -> ExitCode {
    serve(&misbehaving())
}
