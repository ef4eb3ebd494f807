//! All designs do the same: the same tests for the default one, and for the older.

mod anywhere;
mod choices;
mod copies;
mod designs;
mod kernel;
mod model;
#[path = "../../../vm/tests/random/mod.rs"]
mod random;
#[path = "../../../vm/tests/reference/mod.rs"]
#[allow(dead_code, reason = "the fuzzer's part is for others")]
mod reference;
mod storm;
#[path = "../../../vm/tests/reference/strategies.rs"]
mod strategies;
mod waits;

use knee_baselines::AddressSpace;
