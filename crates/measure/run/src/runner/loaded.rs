//! What the tasks of a round run: a built-in testcase or a plug-in.

use crate::Catalogue;
use crate::area::Area;
use crate::call::TaskError;
use crate::catalogue::Selected;
use crate::job::{Failure, Job, Source};
use crate::parameter::Settings;
use crate::testcase::Setup;

use super::plugin::Plugin;

/// What the tasks run.
pub(super) enum Loaded {
    BuiltIn(Selected),
    Plugin(Plugin),
}

/// A plug-in has no parameters.
static NO_SETTINGS: Settings = Settings::NONE;

impl Loaded {
    pub(super) fn load(job: &Job, catalogue: Catalogue) -> Result<Self, Failure> {
        match &job.source {
            Source::Plugin { plugin, .. } => Plugin::load(plugin).map(Self::Plugin),
            Source::Command { .. } | Source::Server { .. } => {
                Err(Failure::runner("a command needs no runner"))
            }
            Source::BuiltIn {} => {
                let selected = catalogue.of_record(&job.case);
                selected.map(Self::BuiltIn).map_err(|error| Failure::runner(error.to_string()))
            }
        }
    }

    pub(super) fn description(&self) -> String {
        match self {
            Self::BuiltIn(selected) => selected.testcase.description.to_owned(),
            Self::Plugin(plugin) => plugin.description(),
        }
    }

    pub(super) fn prepare(&self, job: &Job, area: &Area) -> Result<(), TaskError> {
        match self {
            Self::BuiltIn(selected) => (selected.testcase.prepare)(&Setup {
                dir: &job.dir,
                tasks: job.tasks,
                settings: &selected.settings,
                object: area.object(),
            }),
            Self::Plugin(plugin) => {
                plugin.prepare(job.tasks);
                Ok(())
            }
        }
    }

    /// The testcase, unless this is a plug-in.
    pub(super) fn built_in(&self) -> Option<&Selected> {
        match self {
            Self::BuiltIn(selected) => Some(selected),
            Self::Plugin(_) => None,
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        self.built_in().map_or(&NO_SETTINGS, |selected| &selected.settings)
    }

    /// Whether tasks wait for their CPU by design. For a plug-in, a call of
    /// [`new_task`](super::plugin::new_task) shows it.
    pub(super) fn has_helpers(&self) -> bool {
        self.built_in().is_some_and(|selected| selected.testcase.has_helpers)
    }
}
