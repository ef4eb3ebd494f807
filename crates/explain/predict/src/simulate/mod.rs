//! Curves for a machine that is not there: what tasks do, simulated on its CPUs.
//!
//! A [`Workload`] contains recorded iterations: instructions, visits of cache lines that CPUs
//! share, and sections of locks. A task on each CPU replays them in an endless loop, as a testcase
//! of will-it-scale does. [`Simulator`] computes the throughput of any number of tasks on a
//! [`Machine`](crate::Machine), what limits it, and how uncertain that is.
//!
//! # The model
//!
//! The simulation consists of discrete events. There are as many tasks as CPUs in use, and each
//! always runs.
//!
//! * **Instructions.** The time of an iteration on one CPU is given. It is spread over the
//!   instructions, so that it contains all accesses to the CPU's own caches. It is divided by the
//!   clock with as many busy cores, and multiplied by the slow-down of hardware threads. Single
//!   times vary by up to 20 %, because tasks would otherwise fall into step and never wait.
//! * **Lines.** A line is in one cache, which may write, or in several, which may only read. A
//!   visit that needs another CPU's copy is a *transfer*, whose time depends on the distance
//!   between the two CPUs. A line makes one transfer at a time. All kinds of atomic instructions
//!   cost the same (H. Schweizer, M. Besta, T. Hoefler, "Evaluating the Cost of Atomic Operations
//!   on Modern Architectures", PACT 2015). A write waits for the farthest copy, a load for the
//!   nearest one. Loads copy a shared line at the same time.
//!   For the first part of a transfer ([`Uncertainty::kept`]), the CPU that had the line can still
//!   use it.
//! * **Compare-and-swap after a load** takes about two transfers ([`Uncertainty::compare`]), or one
//!   if the CPU has a copy already. A failed attempt returns the value that the next one expects,
//!   and so takes the place of its load.
//! * **Arbitration.** When a line becomes free, the nearest waiting CPU gets it with a probability
//!   of [`Inputs::near_first`], and otherwise the one that has waited longest.
//! * **Stores** do not wait for their line. They take effect in order. A CPU requests at most 12
//!   lines at the same time. An atomic instruction waits until all earlier stores have taken effect.
//!   So do instructions when the store buffer is full, after 400 instructions.
//! * **Locks** are protocols on their lines, those of qspinlock, mutexes and semaphores in Linux. A
//!   task tries to take the lock by an atomic instruction, and joins a queue by another one. The
//!   first of the queue polls the lock: it loads the line again whenever another CPU has changed it,
//!   at the end of its pause. So the holder of the lock has to take the line back for each store to
//!   it, whether to the lock or to data beside it. A release is a store that takes effect after all
//!   others, or an atomic instruction.
//! * **Mutexes and semaphores** spin, because their owner always runs, and can be stolen by a task
//!   that has not waited. Readers change the line when they come and go. Readers wait for writers
//!   that came before them.
//! * **Shootdowns** take a time that grows with the number of tasks, and delay all other tasks that
//!   execute instructions.
//!
//! * **Locks of programs** ([`LockKind::Futex`]) are not passed on. With waiters, they are of [`Class::D`].
//!
//! Transfers take the same time at every clock, and the memory node of a line makes no difference.
//! Tasks that sleep and memory bandwidth are not simulated.
//!
//! # The band
//!
//! Each of the draws takes all inputs from their ranges ([`Uncertainty`]), and simulates every
//! point with them. The band contains the middle 90 % of these rates.
//!
//! ```
//! use knee_predict::Machine;
//! use knee_predict::simulate::{
//!     Access, Iteration, Line, Plan, Recorded, Scope, Simulator, Step, Workload,
//! };
//!
//! // An open and a close, which count references to one AppArmor label.
//! let visit = Step::Visit { line: 0, access: Access::Atomic };
//! let part = Step::Compute { instructions: 2000.0 };
//! let iteration = Iteration { steps: vec![part, visit, part, visit] };
//! let workload = Workload {
//!     recorded: vec![Recorded { node: 0, iterations: vec![iteration] }],
//!     lines: vec![Line { name: "aa_profile.label.count".into(), scope: Scope::Global }],
//!     ..Workload::default()
//! };
//! let machine = Machine::built_in("sapphire-rapids-2x24").expect("it is built in");
//! let simulator = Simulator::new(Plan { draws: 20, ..Plan::new(&workload, &machine, 500.0) })?;
//! let point = simulator.point(24)?;
//! // Two transfers of 55 ns each allow 9.1 million iterations per second. Transfers take 36 to 72 ns on this
//! // machine, so the band is wide.
//! assert!((point.low..point.high).contains(&9.1e6) && point.free > 30e6);
//! assert_eq!(point.binding().unwrap().name, "aa_profile.label.count");
//! # Ok::<(), knee_predict::simulate::PredictError>(())
//! ```

mod class;
mod engine;
mod inputs;
pub mod mva;
mod network;
mod program;
mod seats;
mod simulator;
mod unfair;
mod usage;
mod what_if;
mod workload;

pub use knee_results::prediction::Class;

pub use self::inputs::{Inputs, MissingFigure, Range, Uncertainty, assumptions};
pub use self::simulator::{CONFIDENCE, Plan, Point, PredictError, Simulator};
pub use self::usage::{Station, Usage};
pub use self::what_if::{ChangeError, MOST_ITERATIONS};
pub use self::workload::{
    Access, Hold, Iteration, Line, Lock, LockKind, Recorded, SHOOTDOWN, Scope, Step, Workload,
    WorkloadError,
};

#[cfg(test)]
mod tests;
