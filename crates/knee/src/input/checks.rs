//! Reads the records of `knee commute check` that a command receives.

use std::path::{Path, PathBuf};

use knee_host::number::plural;
use knee_host::text::one_line;
use knee_trace::findings::{Findings, Shard, TestLine, is_record};

use crate::stderr::tell;

/// Maximum missing shards to list.
const MOST_SHARDS: usize = 10;

/// Reads the shards of one check. A name may be several directories, separated by commas, or a
/// directory that contains all shards. Prints which tests and shards are missing.
pub(crate) fn open(named: &[PathBuf]) -> anyhow::Result<Findings> {
    let dirs: Vec<PathBuf> = named.iter().flat_map(|name| directories(name)).collect();
    let findings = Findings::of_shards(&dirs)?;
    let name = dirs.first().map_or(Path::new(""), PathBuf::as_path).display();
    let shards = missing(&findings.missing_shards());
    match (findings.missing(), shards) {
        (0, None) => {}
        // A missing shard of sets has an unknown number of tests.
        (0, Some(shards)) => tell!("knee: {name}: {shards}"),
        (tests, shards) => {
            let incomplete = "the check is incomplete; `knee commute check --resume` continues it";
            let why = shards.unwrap_or_else(|| incomplete.to_owned());
            let of = plural(findings.count, "test");
            tell!("knee: {name}: {tests} of {of} have no result: {why}");
        }
    }
    Ok(findings)
}

/// Says which shards are missing, and lists the first ones.
fn missing(shards: &[Shard]) -> Option<String> {
    let named: Vec<String> = shards.iter().take(MOST_SHARDS).map(ToString::to_string).collect();
    let more = match shards.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} others"),
    };
    match shards {
        [] => None,
        [shard] => Some(format!("shard {shard} is missing")),
        _ => Some(format!("shards {}{more} are missing", named.join(", "))),
    }
}

/// The directories that a name stands for. A record stands for itself. Any other name is a
/// comma-separated list of records, or a directory of records.
pub(crate) fn directories(name: &Path) -> Vec<PathBuf> {
    if is_record(name) {
        return vec![name.to_owned()];
    }
    match name.to_str() {
        Some(text) if text.contains(',') && !name.exists() => {
            text.split(',').filter(|part| !part.is_empty()).map(PathBuf::from).collect()
        }
        _ => match inside(name) {
            none if none.is_empty() => vec![name.to_owned()],
            records => records,
        },
    }
}

/// The records in a directory, by name.
fn inside(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut records: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_record(path)).collect();
    records.sort();
    records
}

/// The names of records, for messages.
pub(crate) fn names(named: &[PathBuf]) -> String {
    let names: Vec<_> = named.iter().map(|name| name.to_string_lossy()).collect();
    one_line(&names.join(", ")).into_owned()
}

/// The tests of exactly these operations, in any order.
pub(crate) fn of_operations<'t>(tests: &'t [TestLine], operations: &[String]) -> Vec<&'t TestLine> {
    let wanted = sorted(operations.iter().map(String::as_str).collect());
    tests.iter().filter(|test| sorted(test.operations()) == wanted).collect()
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}
