//! `knee_sync::rm::RmLock<HashMap>`, bound to knee's model `map`.

use std::collections::HashMap;
use std::process::ExitCode;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Model, models::map::map};
use knee_sync::rm::RmLock;

struct Table(RmLock<HashMap<u64, u64>>);

impl Binding for Table {
    fn model() -> impl Model {
        map()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        let table = RmLock::new(setup.entries("table").into_iter().collect());
        // Enables the lock's fast path for readers, as the first reader does.
        drop(table.read());
        Self(table)
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let (key, value) = (call.name("key"), call.name("value"));
        Some(match call.operation() {
            "put" => Box::new(move || {
                self.0.write().insert(key, value);
                Returned::Nothing
            }),
            "swap" => {
                Box::new(move || Returned::name_or(self.0.write().insert(key, value), "none"))
            }
            "get" => Box::new(move || Returned::name_or(self.0.read().get(&key).copied(), "none")),
            "remove" => Box::new(move || {
                self.0.write().remove(&key);
                Returned::Nothing
            }),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Table>()
}
