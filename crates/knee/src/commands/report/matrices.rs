//! Records of matrices and of checks among what is to be shown.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use knee_measure::record::{RUN_FILE, SAMPLES_FILE};
use knee_report::{Matrix, Shared};
use knee_trace::findings::is_record;

use crate::commands::commute::records;
use crate::present::commute_shared;

/// What is to be shown.
#[derive(Default)]
pub(super) struct Split {
    pub(super) matrices: Vec<Matrix>,
    pub(super) shared: Vec<Shared>,
    pub(super) runs: Vec<PathBuf>,
}

/// Tells the matrices of `knee commute matrix --json`, the records of `knee commute check` and runs
/// apart.
pub(super) fn split(paths: &[PathBuf]) -> anyhow::Result<Split> {
    let Split { mut matrices, mut shared, mut runs } = Split::default();
    for path in paths {
        if is_record(path) {
            let findings = records::open(std::slice::from_ref(path))?;
            shared.push(commute_shared::record(&findings));
        } else if is_json(path).with_context(|| format!("cannot read {}", path.display()))? {
            matrices.push(read(path)?);
        } else {
            runs.push(path.clone());
        }
    }
    Ok(Split { matrices, shared, runs })
}

/// Whether `path` is a file of JSON, and none of those that make up a run.
fn is_json(path: &Path) -> std::io::Result<bool> {
    use std::io::Read;

    let is_of_run = |name: &std::ffi::OsStr| name == RUN_FILE || name == SAMPLES_FILE;
    if !path.is_file() || path.file_name().is_some_and(is_of_run) {
        return Ok(false);
    }
    for byte in std::io::BufReader::new(std::fs::File::open(path)?).bytes() {
        match byte? {
            byte if byte.is_ascii_whitespace() => {}
            byte => return Ok(byte == b'{' || byte == b'['),
        }
    }
    Ok(false)
}

fn read(path: &Path) -> anyhow::Result<Matrix> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Matrix::from_json(&text).map_err(|error| anyhow!("{}: {error}", path.display()))
}
