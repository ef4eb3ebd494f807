//! The older designs do what the default one does: the same tests for all.

mod anywhere;
mod copies;
mod designs;
mod model;
mod random;
mod storm;
mod waits;
