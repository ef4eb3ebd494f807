//! Commands that measure curves, and that show, compare, fit and report them.

pub(crate) mod ab;
pub(crate) mod compare;
pub(crate) mod fit;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod will_it_scale;
