//! Tests of the behavior that all designs share, for the default design and the older designs.

mod anywhere;
mod choices;
mod copies;
mod designs;
mod kernel;
mod model;
mod storm;
mod waits;
