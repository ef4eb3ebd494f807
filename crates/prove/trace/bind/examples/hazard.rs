//! `knee_sync::hazard`. Threads load and replace the value of a shared box, and retire objects of their own.

use std::process::ExitCode;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Interface, Model, Natural, Operation, Outcome, state};
use knee_sync::hazard::{self, AtomicBox, Domain};

state! {
    /// The value in the box. Zero means that the box is empty.
    struct Value {
        value: Natural,
    }
}

/// Loads commute. Operations that change the box commute if no caller can see their order.
/// Operations on a thread's own objects commute with everything.
fn hazard_box() -> Interface<Value> {
    let own = |name, about| Operation { name, about, apply: |_, _| Ok(Outcome::nothing()) };
    Interface {
        name: "hazard_box",
        about: "a box that may be empty, and objects of a thread's own",
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
                    state.value = Natural(call.int("value", 0..=2));
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "swap",
                about: "(value): the previous value",
                apply: |state, call| {
                    let new = Natural(call.int("value", 0..=2));
                    Ok(Outcome::of(std::mem::replace(&mut state.value, new).0))
                },
            },
            Operation {
                name: "compare_exchange",
                about: "(): fills the box if it is empty",
                apply: |state, call| {
                    if call.execution.at_most(1, state.value.0)? {
                        return Ok(Outcome::of("full"));
                    }
                    state.value = Natural(1.into());
                    Ok(Outcome::of("done"))
                },
            },
            own("protect", "(): protects an object of the thread's own"),
            own("retire", "(): retires an object"),
            own("reclaim", "(): tries to free 32 retired objects"),
            own("barrier", "(): waits until all retired objects are freed"),
            own("register", "(): registers with a domain, and unregisters"),
        ],
        ..Interface::default()
    }
}

/// A value on cache lines of its own, whatever the allocator does.
#[repr(align(128))]
struct Line(i64);

/// A value of any type on cache lines of its own.
#[repr(align(128))]
struct Own<T>(T);

struct Cell {
    cell: Own<AtomicBox<Line>>,
    domain: Own<Domain>,
}

fn full(value: i64) -> Option<Box<Line>> {
    (value > 0).then(|| Box::new(Line(value)))
}

fn object() -> *mut Line {
    Box::into_raw(Box::new(Line(0)))
}

impl Binding for Cell {
    fn model() -> impl Model {
        hazard_box()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        Self { cell: Own(full(setup.number("value")).into()), domain: Own(Domain::default()) }
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let (cell, value) = (&self.cell.0, call.number("value"));
        // SAFETY: no thread can find these objects, and each is retired once.
        let retire = |object| unsafe { hazard::retire(object) };
        // Registers this thread, and allocates its storage for retired objects.
        (0..64).for_each(|_| retire(object()));
        hazard::reclaim();
        if call.operation() == "reclaim" {
            (0..32).for_each(|_| retire(object()));
        }
        let own = AtomicPtr::new(object());
        let number = |value: Option<i64>| Returned::Number(value.unwrap_or(0));
        Some(match call.operation() {
            "load" => Box::new(move || number(cell.load().map(|value| value.0))),
            "store" => Box::new(move || {
                cell.store(full(value));
                Returned::Nothing
            }),
            "swap" => Box::new(move || number(cell.swap(full(value)).map(|value| value.0))),
            "compare_exchange" => Box::new(|| {
                let exchanged = cell.compare_exchange(None, full(1));
                Returned::Word(if exchanged.is_ok() { "done" } else { "full" })
            }),
            "protect" => Box::new(move || {
                // SAFETY: the object is never freed.
                drop(unsafe { hazard::protect(&own) });
                Returned::Nothing
            }),
            "retire" => Box::new(move || {
                retire(own.load(Relaxed));
                Returned::Nothing
            }),
            "reclaim" => Box::new(|| {
                hazard::reclaim();
                Returned::Nothing
            }),
            "barrier" => Box::new(|| {
                hazard::barrier();
                Returned::Nothing
            }),
            "register" => Box::new(|| {
                drop(self.domain.0.register());
                Returned::Nothing
            }),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Cell>()
}
