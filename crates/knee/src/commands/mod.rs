//! The commands, by floor and a file each: arguments in, results out. None uses another.

pub(crate) mod explain;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod prove;
