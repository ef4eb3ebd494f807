//! Operations whose sharing is known, to see that knee finds it: a word that two calls write, two
//! bytes of one line, and calls that share nothing.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Interface, Model, Operation, Outcome, Truth, state};

state! {
    /// Nothing that anyone looks at.
    struct Nothing {
        nothing: Truth,
    }
}

/// Nobody sees anything, so everything commutes.
fn planted() -> Interface<Nothing> {
    let operation = |name, about| Operation { name, about, apply: |_, _| Ok(Outcome::nothing()) };
    Interface {
        name: "planted",
        about: "operations of which nobody sees anything: all of them commute",
        operations: vec![
            operation("null", "(): does nothing"),
            operation("own", "(): writes a line that is the caller's own"),
            operation("count", "(): adds one to a variable of the program"),
            operation(
                "neighbour",
                "(): writes a byte of a variable, next to that of the other caller",
            ),
            operation("wrong", "(): returns what it should not"),
            operation("missing", "(): is not there in the binding"),
            operation("panics", "(): panics"),
            operation("aborts", "(): ends the program"),
        ],
        ..Interface::default()
    }
}

/// What all callers count in.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A byte for each caller, all in one line.
#[repr(align(64))]
struct Bytes([AtomicU8; 4]);

static NEIGHBOURS: Bytes = Bytes([const { AtomicU8::new(0) }; 4]);

/// A line for each caller; 128 bytes, as processors fetch lines in pairs.
#[repr(align(128))]
struct Line(AtomicU8);

struct Planted([Line; 4]);

impl Binding for Planted {
    fn model() -> impl Model {
        planted()
    }

    fn set_up(_: &Setup<'_>) -> Self {
        Self([const { Line(AtomicU8::new(0)) }; 4])
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let (own, neighbour) = (&self.0[call.thread()].0, &NEIGHBOURS.0[call.thread()]);
        let action: Action<'_> = match call.operation() {
            "null" => Box::new(|| Returned::Nothing),
            "own" => Box::new(|| {
                own.store(1, Relaxed);
                Returned::Nothing
            }),
            "count" => Box::new(|| {
                COUNTER.fetch_add(1, Relaxed);
                Returned::Nothing
            }),
            "neighbour" => Box::new(|| {
                neighbour.store(1, Relaxed);
                Returned::Nothing
            }),
            "wrong" => Box::new(|| Returned::Number(7)),
            "panics" => Box::new(|| panic!("as it should")),
            "aborts" => Box::new(|| std::process::abort()),
            _ => return None,
        };
        Some(action)
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Planted>()
}
