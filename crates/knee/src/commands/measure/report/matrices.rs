//! Sorts the arguments of `knee report` by kind, and reads matrices and checks.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use knee_host::RegularFile;
use knee_host::json::with_one_line_strings;
use knee_profile::locks::LockWaits;
use knee_report::{Matrix, Shared};
use knee_results::RUN_FILE;
use knee_run::record::SAMPLES_FILE;
use knee_trace::findings::{Check, FindingsError, Shard, is_record, read_check};

use super::profiles::is_capture;
use crate::input::checks;
use crate::present::commute::shared;
use crate::present::profile::lock_waits;

/// The arguments of `knee report`, sorted by kind.
#[derive(Default)]
pub(super) struct Split {
    pub(super) matrices: Vec<Matrix>,
    pub(super) shared: Vec<Shared>,
    pub(super) captures: Vec<PathBuf>,
    pub(super) waits: Vec<(PathBuf, LockWaits)>,
    pub(super) runs: Vec<PathBuf>,
}

/// Sorts `paths` into matrices of `knee commute matrix --json`, records of `knee commute check`,
/// captures and lock waits of `knee profile`, and runs. Shards of one check become one entry.
pub(super) fn split(paths: &[PathBuf]) -> anyhow::Result<Split> {
    let mut split = Split::default();
    let mut of_checks: Vec<Shards> = Vec::new();
    for path in paths {
        let records = checks::directories(path);
        if records.iter().all(|record| is_record(record)) {
            for record in records {
                Shards::add(&mut of_checks, record)?;
            }
        } else if is_json(path).with_context(|| format!("cannot read {}", path.display()))? {
            if is_capture(path) {
                split.captures.push(path.clone());
            } else if let Some(of) = lock_waits(path)? {
                split.waits.push((path.clone(), of));
            } else {
                split.matrices.push(read(path)?);
            }
        } else {
            split.runs.push(path.clone());
        }
    }
    for check in of_checks {
        split.shared.push(shared::record(&checks::open(&check.records)?));
    }
    Ok(split)
}

/// Records that are shards of one check.
struct Shards {
    check: Check,
    shards: Vec<Shard>,
    records: Vec<PathBuf>,
}

impl Shards {
    /// Adds a record to a group of shards of the same check. Starts a new group if every group
    /// already has this shard.
    fn add(all: &mut Vec<Shards>, record: PathBuf) -> Result<(), FindingsError> {
        let check = read_check(&record)?;
        let fits = |known: &&mut Shards| {
            known.check.difference(&check).is_none() && !known.shards.contains(&check.shard)
        };
        match all.iter_mut().find(fits) {
            Some(known) => {
                known.shards.push(check.shard);
                known.records.push(record);
            }
            None => all.push(Shards { shards: vec![check.shard], check, records: vec![record] }),
        }
        Ok(())
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
    let text = RegularFile::at(path).read_to_string();
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let text = with_one_line_strings(text.as_bytes());
    Matrix::from_json(&String::from_utf8_lossy(&text))
        .map_err(|error| anyhow!("{}: {error}", path.display()))
}
