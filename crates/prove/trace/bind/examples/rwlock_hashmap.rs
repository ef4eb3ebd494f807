//! `std::sync::RwLock<HashMap>`, bound to knee's model `map`.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::RwLock;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Model, models::map::map};

struct Table(RwLock<HashMap<u64, u64>>);

impl Binding for Table {
    fn model() -> impl Model {
        map()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        Self(RwLock::new(setup.entries("table").into_iter().collect()))
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let (key, value) = (call.name("key"), call.name("value"));
        Some(match call.operation() {
            "put" => Box::new(move || {
                self.0.write().unwrap().insert(key, value);
                Returned::Nothing
            }),
            "swap" => Box::new(move || {
                Returned::name_or(self.0.write().unwrap().insert(key, value), "none")
            }),
            "get" => Box::new(move || {
                Returned::name_or(self.0.read().unwrap().get(&key).copied(), "none")
            }),
            "remove" => Box::new(move || {
                self.0.write().unwrap().remove(&key);
                Returned::Nothing
            }),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Table>()
}
