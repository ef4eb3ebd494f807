//! Sorts the arguments of `knee report` by kind, and reads matrices.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use knee_host::RegularFile;
use knee_host::json::with_one_line_strings;
use knee_report::Matrix;
use knee_results::RUN_FILE;
use knee_run::record::SAMPLES_FILE;

use super::checks::Checks;
use super::machines::Machines;
use super::profiles::Profiles;

/// The largest file of a matrix. A matrix of 100 operations has 2 MB. A file takes up to twelve times as much memory.
const LARGEST_MATRIX: u64 = 64 << 20;

/// The arguments of `knee report`, sorted by kind.
#[derive(Default)]
pub(super) struct Inputs {
    pub(super) matrices: Vec<Matrix>,
    pub(super) checks: Checks,
    pub(super) profiles: Profiles,
    pub(super) machines: Machines,
    pub(super) runs: Vec<PathBuf>,
}

impl Inputs {
    /// Sorts `paths` into matrices of `knee commute matrix --json`, records of `knee commute check`,
    /// captures and lock waits of `knee profile`, machines, and runs.
    pub(super) fn sorted(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut inputs = Self::default();
        for path in paths {
            if inputs.checks.add(path)? || inputs.machines.add(path)? {
                continue;
            }
            if !is_json(path).with_context(|| format!("cannot read {}", path.display()))? {
                inputs.runs.push(path.clone());
            } else if !inputs.profiles.add(path)? {
                inputs.matrices.push(read(path)?);
            }
        }
        Ok(inputs)
    }
}

/// Whether `path` is a JSON file that is not part of a run's record.
fn is_json(path: &Path) -> std::io::Result<bool> {
    use std::io::Read;

    let is_of_run = |name: &std::ffi::OsStr| name == RUN_FILE || name == SAMPLES_FILE;
    if !path.is_file() || path.file_name().is_some_and(is_of_run) {
        return Ok(false);
    }
    for byte in std::io::BufReader::new(RegularFile::at(path).open()?).bytes() {
        match byte? {
            byte if byte.is_ascii_whitespace() => {}
            byte => return Ok(byte == b'{' || byte == b'['),
        }
    }
    Ok(false)
}

fn read(path: &Path) -> anyhow::Result<Matrix> {
    let text = RegularFile::at(path).at_most(LARGEST_MATRIX).read_to_string();
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let text = with_one_line_strings(text.as_bytes());
    Matrix::from_json(&String::from_utf8_lossy(&text))
        .map_err(|error| anyhow!("{}: {error}", path.display()))
}
