//! A map from keys to values: what is done to different keys always commutes.

use crate::{Interface, Map, Operation, Outcome, Term, sort, state};

sort!(Key, Content);

state! {
    /// A value for some keys.
    pub struct Table {
        table: Map<Term<Key>, Term<Content>>,
    }
}

/// Puts of one key commute where they put the same, and a put that says what it replaced only
/// where nothing changes: returning the old value costs commutativity.
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
                about: "(key, value): the previous value",
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
