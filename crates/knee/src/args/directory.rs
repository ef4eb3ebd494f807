//! The directory in which a testcase creates its files.

use std::path::{Path, PathBuf};

use knee_run::catalogue::Selected;
use knee_run::needs::TMPFS;
use knee_run::testcase::Need;

use super::existing;

/// The directory in which a testcase creates its files: that of `--dir`, or the default.
pub(crate) fn directory(selected: &Selected, dir: Option<&Path>) -> anyhow::Result<PathBuf> {
    match dir {
        Some(dir) => existing("--dir", dir),
        None if selected.testcase.needs.contains(&Need::Tmpfs) => Ok(TMPFS.into()),
        None => existing("TMPDIR", &std::env::temp_dir()),
    }
}
