//! `dashmap::DashMap`, a map that is divided into shards, each with its own lock, bound to knee's model
//! `map`.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::process::ExitCode;

use dashmap::DashMap;
use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Model, models::map::map};

/// The number of shards. The default is four per CPU; a fixed number makes tests independent of the
/// machine.
const SHARDS: usize = 64;

/// A map with the hasher of `std`, but without the random seed, so that tests can be repeated.
struct Table(DashMap<u64, u64, BuildHasherDefault<DefaultHasher>>);

impl Binding for Table {
    fn model() -> impl Model {
        map()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        let hasher = BuildHasherDefault::default();
        let table = DashMap::with_hasher_and_shard_amount(hasher, SHARDS);
        for (key, value) in setup.entries("table") {
            table.insert(key, value);
        }
        Self(table)
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let (key, value) = (call.name("key"), call.name("value"));
        Some(match call.operation() {
            "put" => Box::new(move || {
                self.0.insert(key, value);
                Returned::Nothing
            }),
            "swap" => Box::new(move || Returned::name_or(self.0.insert(key, value), "none")),
            "get" => {
                Box::new(move || Returned::name_or(self.0.get(&key).map(|value| *value), "none"))
            }
            "remove" => Box::new(move || {
                self.0.remove(&key);
                Returned::Nothing
            }),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Table>()
}
