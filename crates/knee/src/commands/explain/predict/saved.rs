//! Traces in files.

use std::path::Path;

use anyhow::{Context, ensure};
use knee_host::RegularFile;
use knee_predict::trace::{Trace, Traces};

use crate::exit::bail_usage;
use crate::file;

/// The traces in files, in order.
pub(super) fn read(paths: &[impl AsRef<Path>]) -> anyhow::Result<Vec<Trace>> {
    let mut all = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        let text = RegularFile::at(path).at_most(Traces::LARGEST).read();
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let Traces(traces) =
            Traces::parse(&text).with_context(|| format!("cannot use {}", path.display()))?;
        all.extend(traces);
    }
    Ok(all)
}

/// Writes traces to a new file.
pub(super) fn write(path: &Path, traces: Vec<Trace>) -> anyhow::Result<Vec<Trace>> {
    let traces = Traces(traces);
    let json = traces.to_json();
    ensure!(
        json.len() as u64 <= Traces::LARGEST,
        "{}: the traces have {} MB, and knee reads at most {}; trace fewer testcases or --rounds",
        path.display(),
        json.len() >> 20,
        Traces::LARGEST >> 20
    );
    file::write(path, &json)?;
    Ok(traces.0)
}

/// Checks before a guest boots that the file can be written.
pub(super) fn check_new(path: &Path) -> anyhow::Result<()> {
    if path.is_file() || path.is_dir() {
        bail_usage!("--save-trace {} exists already; name a new file", path.display());
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    ensure!(
        dir.is_none_or(Path::is_dir),
        "--save-trace {}: its directory does not exist",
        path.display()
    );
    Ok(())
}
