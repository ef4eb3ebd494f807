//! Records of matrices among what is to be shown.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use knee_measure::record::{RUN_FILE, SAMPLES_FILE};
use knee_report::Matrix;

/// Takes the matrices of `knee commute matrix --json` out of `paths`, and leaves the runs.
pub(super) fn split(paths: &[PathBuf]) -> anyhow::Result<(Vec<Matrix>, Vec<PathBuf>)> {
    let mut matrices = Vec::new();
    let mut runs = Vec::new();
    for path in paths {
        if is_json(path).with_context(|| format!("cannot read {}", path.display()))? {
            matrices.push(read(path)?);
        } else {
            runs.push(path.clone());
        }
    }
    Ok((matrices, runs))
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
