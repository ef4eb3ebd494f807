//! The commands, by floor and a file each: arguments in, results out. None uses another.

#[cfg(feature = "explain")]
pub(crate) mod explain;
pub(crate) mod machine;
pub(crate) mod measure;
#[cfg(feature = "prove")]
pub(crate) mod prove;
