//! A map from keys to values: operations on different keys always commute.

use crate::{Interface, Map, Operation, Outcome, Term, sort, state};

sort!(Key, Content);

state! {
    /// A table in which some keys have values.
    pub struct Table {
        table: Map<Term<Key>, Term<Content>>,
    }
}

/// Two calls of `put` with the same key commute if they put the same value. A `swap`, which returns the old
/// value, commutes with another write of its key only if neither call changes the value.
pub fn map() -> Interface<Table> {
    Interface {
        name: "map",
        about: "a map: operations on different keys commute",
        operations: vec![
            Operation {
                name: "put",
                about: "(key, value)",
                apply: |state, call| {
                    state.table.insert(call.term("key"), call.term("value"));
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "swap",
                about: "(key, value): puts the value and returns the previous value",
                apply: |state, call| {
                    let key = call.term("key");
                    let old = state.table.get(&key, call.execution)?;
                    state.table.insert(key, call.term("value"));
                    Ok(old.map_or(Outcome::of("none"), Outcome::of))
                },
            },
            Operation {
                name: "get",
                about: "(key)",
                apply: |state, call| {
                    let found = state.table.get(&call.term("key"), call.execution)?;
                    Ok(found.map_or(Outcome::of("none"), Outcome::of))
                },
            },
            Operation {
                name: "remove",
                about: "(key)",
                apply: |state, call| {
                    state.table.remove(call.term("key"));
                    Ok(Outcome::nothing())
                },
            },
        ],
        ..Interface::default()
    }
}
