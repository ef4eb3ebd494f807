//! Tests of the behavior that all designs share, for the default design and the older designs.

mod anywhere;
mod choices;
mod copies;
mod designs;
mod kernel;
mod model;
#[path = "../../../vm/tests/random/mod.rs"]
mod random;
#[path = "../../../vm/tests/reference/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod reference;
mod storm;
#[path = "../../../vm/tests/reference/strategies.rs"]
mod strategies;
mod waits;

use knee_baselines::AddressSpace;
