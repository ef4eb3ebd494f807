//! The interface that a command explores: its model, its operations, and how far to go.

use std::path::PathBuf;

use knee_commute::{Extent, Limits, Model, models};
use knee_host::suggest::{nearest, question_or};

use super::complete;
use crate::args::whole;
use crate::exit::{ensure_usage, usage};
use crate::input::program::Program;
use crate::stderr::tell;

/// Maximum operations to call together. The number of orders is the factorial of this.
pub(super) const MOST_AT_ONCE: usize = 4;

/// The interface, and how far to explore it.
#[derive(clap::Args)]
pub(super) struct From {
    /// Interface (see `knee commute list`)
    #[arg(long, value_name = "NAME", default_value = "posix", add = complete::interfaces())]
    interface: String,

    /// Program that contains your own model of an interface (see docs/commuting.md)
    #[arg(long, value_name = "FILE", conflicts_with = "interface")]
    model: Option<PathBuf>,

    /// Maximum number of situations to explore for one set of operations; a situation is a set of
    /// initial states and arguments for which the model behaves the same
    #[arg(long, value_name = "N", default_value_t = Limits::default().situations as u32,
          value_parser = whole::<u32>(1..=u32::MAX))]
    limit: u32,
}

impl From {
    pub(super) fn model(&self) -> anyhow::Result<Box<dyn Model>> {
        if let Some(path) = &self.model {
            return Ok(Box::new(Program::introduce(path.clone())?));
        }
        let mut models = models();
        match models.iter().position(|model| model.name() == self.interface) {
            Some(nr) => Ok(models.swap_remove(nr)),
            None => {
                Err(unknown("interface", &self.interface, models.iter().map(|model| model.name())))
            }
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { situations: self.limit as usize, ..Limits::default() }
    }
}

/// Warns about situations that the limits cut off.
pub(super) fn warn(names: &str, extent: &Extent, from: &From) {
    if extent.too_deep > 0 {
        let of = if extent.cut { "the first " } else { "" };
        tell!(
            "knee: {names}: {of}{} on more than {} conditions",
            match extent.too_deep {
                1 => "situation was abandoned, because it depends".to_owned(),
                n => format!("{n} situations were abandoned, because each depends"),
            },
            from.limits().questions
        );
    } else if extent.cut {
        let n = from.limit;
        tell!("knee: {names}: only {n} situations were explored; raise --limit to explore all");
    }
}

/// The indices of the named operations in the model, at most [`MOST_AT_ONCE`].
pub(super) fn operations(model: &dyn Model, names: &[String]) -> anyhow::Result<Vec<usize>> {
    let n = names.len();
    ensure_usage!(
        n <= MOST_AT_ONCE,
        "{n} operations are too many; name at most {MOST_AT_ONCE} to call together"
    );
    names.iter().map(|name| operation(model, name)).collect()
}

fn operation(model: &dyn Model, name: &str) -> anyhow::Result<usize> {
    let operations = model.operations();
    operations.iter().position(|(other, _)| *other == name).ok_or_else(|| {
        let what = format!("operation of {}", model.name());
        unknown(&what, name, operations.iter().map(|(name, _)| *name))
    })
}

fn unknown<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> anyhow::Error {
    let names = nearest(name, known);
    let hint = question_or(&names, "; to list all: knee commute list [--model FILE]");
    usage(format!("no {what} is named {name}{hint}"))
}
