//! The commands, a file each: arguments in, words out.

pub(crate) mod ab;
pub(crate) mod commute;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod fit;
pub(crate) mod generate;
pub(crate) mod history;
pub(crate) mod kernel;
pub(crate) mod list;
pub(crate) mod profile;
pub(crate) mod qemu;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod topology;
pub(crate) mod will_it_scale;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use knee_results::{Kind, Results};
use knee_run::record::Record;
use knee_testcases::CATALOGUE;

/// Results of any kind, and the record if they are of one.
pub(crate) struct Read {
    pub(crate) results: Results,
    pub(crate) record: Option<Record>,
}

/// Reads results of any kind. What foreign files do not tell of knee's own testcases is filled in.
pub(crate) fn read(path: &Path) -> anyhow::Result<Read> {
    if Kind::of(path)? == Some(Kind::Record) {
        // Either the directory or the run.json in it may be named.
        let dir = match path.parent() {
            _ if path.is_dir() => path,
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let record = Record::open(dir)?;
        return Ok(Read { results: record.results(path)?, record: Some(record) });
    }
    let mut results = Results::read(path)?;
    results.describe(|id| {
        let testcase = CATALOGUE.find(&id.testcase)?;
        Some((testcase.family, testcase.description))
    });
    Ok(Read { results, record: None })
}

/// A number that differs from run to run, short enough to be typed again as a seed.
pub(crate) fn random() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ (now.as_secs() & 0xffff)
}

/// Names in a directory by when something began: `runs/2026-11-21T090000Z`, and with `-2`, `-3` … for more of
/// the same second. `ending` is what files end in.
pub(crate) fn numbered(dir: &str, started_at: &str, ending: &str) -> impl Iterator<Item = PathBuf> {
    let started = Path::new(dir).join(started_at.replace(':', "")).display().to_string();
    let ending = ending.to_owned();
    (1_u64..).map(move |n| match n {
        1 => format!("{started}{ending}").into(),
        n => format!("{started}-{n}{ending}").into(),
    })
}

/// A share written as a percentage: `5%` or `5`.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("a percentage above 0 and up to 100 is wanted, such as 5%".to_owned()),
    }
}

/// A time in seconds, from a hundredth to a day: `0.2`, `5s`.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('s').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a time in seconds from 0.01 to 86400 is wanted, such as 0.2".to_owned()),
    }
}

/// Like [`seconds`], or 0 for none.
pub(crate) fn seconds_or_none(text: &str) -> Result<f64, String> {
    if text.parse() == Ok(0.0) { Ok(0.0) } else { seconds(text) }
}
