//! Binds a library to a model of its interface, so that knee can check which memory its calls
//! share.
//!
//! A model defines the operations of an interface (crate knee-commute). From the model, knee generates tests.
//! Each test consists of a state and of calls that commute in this state. A binding brings a library to this
//! state and makes the calls. The model and the binding are compiled into one program, whose `main` calls
//! [`main()`]:
//!
//! ```no_run
//! use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
//!
//! use knee_bind::{Action, Binding, Call, Returned, Setup};
//! use knee_commute::{Model, models::counter::counter};
//!
//! /// A counter that is one word of memory.
//! struct Counter(AtomicI64);
//!
//! impl Binding for Counter {
//!     fn model() -> impl Model {
//!         counter()
//!     }
//!
//!     fn set_up(setup: &Setup<'_>) -> Self {
//!         Self(AtomicI64::new(setup.number("n")))
//!     }
//!
//!     fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
//!         Some(match call.operation() {
//!             "inc" => Box::new(|| {
//!                 self.0.fetch_add(1, Relaxed);
//!                 Returned::Nothing
//!             }),
//!             "get" => Box::new(|| Returned::Number(self.0.load(Relaxed))),
//!             _ => return None,
//!         })
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     knee_bind::main::<Counter>()
//! }
//! ```
//!
//! `knee commute check --program ./counter` runs the program under QEMU and lists which calls share
//! memory. The guide is docs/libraries.md.
//!
//! | from → to | module |
//! | --- | --- |
//! | a test → its state and arguments, for the binding | `given` |
//! | trials of threads → whether QEMU reports the memory that threads share | `calibration` |
//! | calls → threads, one after the other | `workers` |
//! | threads → CPUs of a guest | `cpu` |
//! | the result of a call → whether the model allows it | `compare` |
//! | lines of tests → lines of outcomes | `run` |
//! | calls → their repetition, for `knee predict` | `repeat`, `repeated` |
//! | outcomes → knee | `message` |
#![forbid(unsafe_code)]

use knee_commute::Model;

pub mod calibration;
mod compare;
mod cpu;
mod given;
mod making;
mod message;
mod repeat;
mod repeated;
mod reply;
mod run;
mod workers;

pub use compare::Returned;
pub use cpu::GUEST;
pub use given::{Call, Setup};
pub use message::{MESSAGE_PREFIX, Message};
pub use repeated::{How, REPEAT_PREFIX, Repeat};
pub use run::main;

/// Makes a call. knee traces all accesses of an action, so the action should do nothing but make the call.
/// Read the arguments in [`Binding::prepare`].
pub type Action<'s> = Box<dyn FnMut() -> Returned + 's>;

/// A library that is bound to a model. A value of this type contains the objects that the calls of a test
/// use. For each run of a test, the main thread, which makes no calls, creates a new value. The value is
/// never dropped.
///
/// A panic in these functions becomes the outcome of the test.
pub trait Binding: Send + Sync + Sized + 'static {
    /// The model of the interface.
    fn model() -> impl Model;

    /// Brings the library to the initial state of a test.
    fn set_up(setup: &Setup<'_>) -> Self;

    /// Prepares a call. The thread that makes the call also runs this function. Returns `None` if
    /// the binding does not have the operation.
    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>>;
}
