//! What a machine is: a TOML file.

mod built_in;
mod check;
mod cpus;
mod fields;
mod text;

pub(crate) use check::SCHEMA;
pub use check::{MachineError, check_name};
pub use fields::{Clock, Contended, Distance, Figure, Interrupts, Machine, Matrix, Transfers};

/// The JSON schema of a machine.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Machine).to_value()
}

#[cfg(test)]
mod tests;
