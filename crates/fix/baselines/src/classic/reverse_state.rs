//! The state of a reverse map.

use std::fmt::Debug;

/// The state that a reverse map keeps for each frame and for each space, and the locks that guard the tables.
pub trait ReverseState: Debug + Sized + Send + Sync + 'static {
    /// Whether one lock guards all tables of a space. If false, each table has its own lock.
    const ONE_LOCK: bool;
    /// The state of a frame.
    type OfFrame: Debug + Default + Send + Sync;
    /// The state of a space, under its lock.
    type OfSpace: Debug + Default + Send;
}
