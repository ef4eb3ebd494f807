//! Operations whose sharing is known, to test that knee finds the sharing and names the data. Depending on
//! the operations, two calls share nothing, write different bytes of one cache line, or write the same word.
//! This word is in a variable, in allocated memory or in thread-local storage.

use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Model, models::independent::independent};

/// The operations, whose effects callers cannot see.
const OPERATIONS: &[(&str, &str)] = &[
    ("null", "(): does nothing"),
    ("own", "(): writes a line that is the caller's own"),
    ("count", "(): adds one to a variable of the program"),
    ("neighbour", "(): writes a byte of a variable, next to the byte of the other caller"),
    ("add", "(): adds one to a word that the binding has allocated"),
    ("reset", "(): sets the word of `add` to zero, in another function"),
    ("visit", "(): adds one to a thread-local variable of the first caller"),
    ("wrong", "(): returns an unexpected result"),
    ("missing", "(): does not exist in the binding"),
    ("panics", "(): panics"),
    ("aborts", "(): ends the program"),
];

/// A counter that all callers increment.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A byte for each caller, all in one cache line.
#[repr(align(64))]
struct Bytes([AtomicU8; 4]);

static NEIGHBOURS: Bytes = Bytes([const { AtomicU8::new(0) }; 4]);

/// A pair of cache lines for each caller, since processors may prefetch lines in pairs.
#[repr(align(128))]
struct Line(AtomicU8);

/// An allocated word, with two functions that write it.
struct Tally(Box<AtomicU64>);

impl Tally {
    #[inline(never)]
    fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    #[inline(never)]
    fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

thread_local! {
    static VISITS: AtomicU64 = const { AtomicU64::new(0) };
}

/// Returns the same variable to every thread: the `VISITS` of the thread that called this function first.
fn visits() -> &'static AtomicU64 {
    static FIRST: OnceLock<&AtomicU64> = OnceLock::new();
    FIRST.get_or_init(|| {
        let own = VISITS.with(std::ptr::from_ref);
        // SAFETY: the variable has no destructor, and the worker threads run until the program ends.
        unsafe { &*own }
    })
}

struct Planted {
    lines: [Line; 4],
    tally: Tally,
}

impl Binding for Planted {
    fn model() -> impl Model {
        independent("planted", "operations without effects that callers can see", OPERATIONS)
    }

    fn set_up(_: &Setup<'_>) -> Self {
        let lines = [const { Line(AtomicU8::new(0)) }; 4];
        Self { lines, tally: Tally(Box::default()) }
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let (own, neighbour) = (&self.lines[call.thread()].0, &NEIGHBOURS.0[call.thread()]);
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
            "add" => Box::new(|| {
                self.tally.add();
                Returned::Nothing
            }),
            "reset" => Box::new(|| {
                self.tally.reset();
                Returned::Nothing
            }),
            "visit" => {
                let visits = visits();
                Box::new(|| {
                    visits.fetch_add(1, Relaxed);
                    Returned::Nothing
                })
            }
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
