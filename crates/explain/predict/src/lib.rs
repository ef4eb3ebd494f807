//! Curves for machines that are not there.
//!
//! A [`Machine`] is a TOML file. Some are [built in](Machine::built_in), with the source of each
//! figure. [`measure`] takes the figures of the machine that it runs on. [`simulate`] predicts how
//! fast tasks are on a machine, from what they do. [`trace`] is the file of what they do.
//!
//! ```
//! use knee_predict::{Machine, machine::Distance};
//!
//! let genoa = Machine::built_in("genoa-2x96").expect("it is built in");
//! let nanoseconds = genoa.transfer_ns.at(Distance::Socket).expect("its source has it").value;
//! assert!((80.0..120.0).contains(&nanoseconds));
//! ```

pub mod machine;
pub mod measure;
pub mod simulate;
pub mod trace;

pub use machine::Machine;
