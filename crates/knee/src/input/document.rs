//! JSON documents that a command receives.

use std::ffi::OsStr;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, anyhow};
use knee_host::RegularFile;
use knee_host::json::Head;
use knee_results::RUN_FILE;
use knee_results::prediction::{KIND, Predictions};
use knee_run::record::SAMPLES_FILE;

/// The largest document. A matrix of 100 operations has 2 MB, and a prediction of ten kernels for
/// 256 task counts at most 10 MB. A document takes up to twelve times as much memory.
const LARGEST: u64 = 64 << 20;

/// Whether `path` is a JSON file that is not part of a run's record.
pub(crate) fn is_json(path: &Path) -> anyhow::Result<bool> {
    let is_of_run = |name: &OsStr| name == RUN_FILE || name == SAMPLES_FILE;
    if !path.is_file() || path.file_name().is_some_and(is_of_run) {
        return Ok(false);
    }
    let cannot_read = || format!("cannot read {}", path.display());
    let file = RegularFile::at(path).open().with_context(cannot_read)?;
    for byte in BufReader::new(file).bytes() {
        match byte.with_context(cannot_read)? {
            byte if byte.is_ascii_whitespace() => {}
            byte => return Ok(byte == b'{' || byte == b'['),
        }
    }
    Ok(false)
}

/// The text of a document.
pub(crate) fn text(path: &Path) -> anyhow::Result<Vec<u8>> {
    let text = RegularFile::at(path).at_most(LARGEST).read();
    text.with_context(|| format!("cannot read {}", path.display()))
}

/// The predictions in the text of `path`. `None` if it is another document.
pub(crate) fn predictions(path: &Path, text: &[u8]) -> anyhow::Result<Option<Predictions>> {
    let kind = Head::of(text).ok().and_then(|head| head.kind);
    if kind.is_none_or(|kind| kind != KIND) {
        return Ok(None);
    }
    let predictions = Predictions::parse(text);
    Ok(Some(predictions.map_err(|error| anyhow!("{}: {error}", path.display()))?))
}
