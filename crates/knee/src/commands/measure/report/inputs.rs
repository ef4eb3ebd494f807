//! Sorts the arguments of `knee report` by kind, and reads matrices and predictions.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use knee_host::json::with_one_line_strings;
use knee_report::Matrix;
use knee_results::prediction::Predictions;

use super::checks::Checks;
use super::machines::Machines;
use super::profiles::Profiles;
use crate::input::document;

/// The arguments of `knee report`, sorted by kind.
#[derive(Default)]
pub(super) struct Inputs {
    pub(super) predictions: Vec<Predictions>,
    pub(super) matrices: Vec<Matrix>,
    pub(super) checks: Checks,
    pub(super) profiles: Profiles,
    pub(super) machines: Machines,
    pub(super) runs: Vec<PathBuf>,
}

impl Inputs {
    /// Sorts `paths` into predictions, matrices of `knee commute matrix --json`, records of `knee
    /// commute check`, captures and lock waits of `knee profile`, machines, and runs.
    pub(super) fn sorted(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut inputs = Self::default();
        for path in paths {
            if inputs.checks.add(path)? || inputs.machines.add(path)? {
                continue;
            }
            if !document::is_json(path)? {
                inputs.runs.push(path.clone());
            } else if !inputs.profiles.add(path)? {
                inputs.add_document(path)?;
            }
        }
        Ok(inputs)
    }

    /// Adds a prediction or a matrix.
    fn add_document(&mut self, path: &Path) -> anyhow::Result<()> {
        let text = document::text(path)?;
        match document::predictions(path, &text)? {
            Some(predictions) => self.predictions.push(predictions),
            None => self.matrices.push(matrix(path, &text)?),
        }
        Ok(())
    }
}

fn matrix(path: &Path, text: &[u8]) -> anyhow::Result<Matrix> {
    let text = with_one_line_strings(text);
    Matrix::from_json(&String::from_utf8_lossy(&text))
        .map_err(|error| anyhow!("{}: {error}", path.display()))
}
