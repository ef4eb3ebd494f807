//! Interfaces whose operations have no visible result: everything commutes.

use crate::{Interface, Operation, Outcome, Truth, state};

state! {
    /// A state that no operation reads or changes.
    pub struct Nothing {
        nothing: Truth,
    }
}

/// An interface of operations that neither return nor change anything that another operation could see.
/// Each operation is given by its name and by what it does, as [`Operation::about`].
///
/// It suits operations that only have side effects in an implementation, such as entering a read-side
/// critical section, and calls on data that no other call uses.
pub fn independent(
    name: &'static str,
    about: &'static str,
    operations: &[(&'static str, &'static str)],
) -> Interface<Nothing> {
    let apply = |_: &mut Nothing, _: &mut crate::Call<'_>| Ok(Outcome::nothing());
    let operations = operations.iter().map(|&(name, about)| Operation { name, about, apply });
    Interface { name, about, operations: operations.collect(), ..Interface::default() }
}
