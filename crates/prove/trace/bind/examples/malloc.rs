//! The C library's `malloc` and `free`, and a model of an allocator.

use std::collections::HashMap;
use std::ffi::c_void;
use std::process::ExitCode;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Interface, Map, Model, Operation, Outcome, Stop, Term, sort, state};

sort!(Address);

state! {
    /// The addresses that are in use.
    struct Heap {
        used: Map<Term<Address>, ()>,
    }
}

/// Everything commutes: the model leaves open which address `malloc` returns, and a program frees only its
/// own addresses.
fn allocator() -> Interface<Heap> {
    Interface {
        name: "allocator",
        about: "an allocator: all calls commute, since malloc may return any unused address",
        operations: vec![
            Operation {
                name: "malloc",
                about: "(): any address that is not in use",
                apply: |state, call| {
                    let address = call.fresh("address")?;
                    state.used.insert(address, ());
                    Ok(Outcome::of(address))
                },
            },
            Operation {
                name: "free",
                about: "(address): frees an address that is in use",
                apply: |state, call| {
                    let address = call.term("address");
                    state.used.assume_presence(&address, true, call.execution)?;
                    if !state.used.contains(&address, call.execution)? {
                        return Err(Stop::Infeasible);
                    }
                    state.used.remove(address);
                    Ok(Outcome::nothing())
                },
            },
        ],
        ..Interface::default()
    }
}

/// A small object of a program.
const BYTES: usize = 64;

/// The addresses that the set-up has allocated, keyed by the number in each address's name.
struct Malloc(HashMap<u64, usize>);

fn malloc() -> usize {
    // SAFETY: `malloc` accepts any size.
    let address = unsafe { libc::malloc(BYTES) }.expose_provenance();
    assert_ne!(address, 0, "out of memory");
    address
}

impl Binding for Malloc {
    fn model() -> impl Model {
        allocator()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        Self(setup.elements("used").into_iter().map(|name| (name, malloc())).collect())
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        Some(match call.operation() {
            "malloc" => Box::new(|| Returned::Chosen(malloc() as u64)),
            "free" => {
                let address = self.0[&call.name("address")];
                Box::new(move || {
                    // SAFETY: the set-up has allocated the address, and the model frees no address
                    // twice.
                    unsafe { libc::free(std::ptr::with_exposed_provenance_mut::<c_void>(address)) };
                    Returned::Nothing
                })
            }
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Malloc>()
}
