//! Interfaces whose operations have no visible effect: all operations commute.

use crate::{Interface, Operation, Outcome, Truth, state};

state! {
    /// A state that no operation reads or changes.
    pub struct Nothing {
        nothing: Truth,
    }
}

/// An interface whose operations return nothing and change nothing that another operation could see.
/// Each operation is given by its name and a description for [`Operation::about`].
///
/// Use it for operations that have effects only inside an implementation, such as entering a read-side
/// critical section, and for calls on data that no other call uses.
pub fn independent(
    name: &'static str,
    about: &'static str,
    operations: &[(&'static str, &'static str)],
) -> Interface<Nothing> {
    let apply = |_: &mut Nothing, _: &mut crate::Call<'_>| Ok(Outcome::nothing());
    let operations = operations.iter().map(|&(name, about)| Operation { name, about, apply });
    Interface { name, about, operations: operations.collect(), ..Interface::default() }
}
