//! All designs do the same: the same tests for the default one, and for the older.

mod anywhere;
mod choices;
mod copies;
mod designs;
mod model;
#[path = "../random/mod.rs"]
mod random;
#[path = "../reference/mod.rs"]
#[allow(dead_code, reason = "the fuzzer's part is for others")]
mod reference;
mod storm;
#[path = "../reference/strategies.rs"]
mod strategies;
mod waits;
