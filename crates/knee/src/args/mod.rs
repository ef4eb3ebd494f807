//! Arguments that several commands share. Each has one name and one type.

pub(crate) mod complete;
pub(crate) mod confidence;
pub(crate) mod counters;
#[cfg(feature = "explain")]
pub(crate) mod directory;
pub(crate) mod form;
pub(crate) mod judgement;
pub(crate) mod latency;
pub(crate) mod modes;
pub(crate) mod patience;
pub(crate) mod score;
pub(crate) mod selection;
pub(crate) mod sweep;
pub(crate) mod tasks;
pub(crate) mod view;

use std::fmt::Display;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::anyhow;
use knee_host::shell::is_one_word;
use knee_run::job::{Command, Source};
use knee_run::plan::Case;
use knee_run::server::HERE;

use crate::exit::bail_usage;

/// A fraction written as a percentage: `5%` or `5`.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("must be a percentage above 0 and at most 100, such as 5%".to_owned()),
    }
}

/// Like [`percentage`], but below 100%.
pub(crate) fn percentage_below_100(text: &str) -> Result<f64, String> {
    match percentage(text) {
        Ok(share) if share < 1.0 => Ok(share),
        _ => Err("must be a percentage above 0 and below 100, such as 2%".to_owned()),
    }
}

/// A time in seconds, from 0.01 s to one day: `0.2`, `5s`.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('s').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("must be a time in seconds from 0.01 to 86400, such as 0.2".to_owned()),
    }
}

/// Like [`seconds`], but also accepts 0.
pub(crate) fn seconds_or_none(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(0.0) => Ok(0.0),
        _ => seconds(text).map_err(|_| {
            "must be 0, or a time in seconds from 0.01 to 86400, such as 0.2".to_owned()
        }),
    }
}

/// The parser of an option whose value is a whole number in `range`.
pub(crate) fn whole<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + Display + PartialOrd + Clone + Send + Sync + 'static,
{
    move |text| match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("must be a whole number from {} to {}", range.start(), range.end())),
    }
}

/// A glob, such as `mmap*`.
pub(crate) fn glob(text: &str) -> Result<glob::Pattern, String> {
    knee_run::catalogue::glob(text).map_err(|reason| format!("not a glob: {reason}"))
}

/// The maximum line count that `--top` requests. 0 means no limit.
pub(crate) fn most(top: usize) -> usize {
    if top == 0 { usize::MAX } else { top }
}

/// The absolute path of the existing file or directory that an option names.
pub(crate) fn existing(option: &str, path: &Path) -> anyhow::Result<PathBuf> {
    let whole = path.canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!("{option} {} does not exist", path.display()),
        kind => anyhow!("{option} {}: {kind}", path.display()),
    })?;
    require_utf8(option, &whole)?;
    Ok(whole)
}

/// Returns an error if an input appears twice, under the same name or another.
pub(crate) fn require_distinct(inputs: &[PathBuf]) -> anyhow::Result<()> {
    // An input that does not exist has no canonical path; its name has to do.
    let paths: Vec<PathBuf> =
        inputs.iter().map(|input| input.canonicalize().unwrap_or_else(|_| input.clone())).collect();
    let twice = (0..inputs.len()).find_map(|nr| {
        let first = paths[..nr].iter().position(|path| *path == paths[nr])?;
        Some((&inputs[first], &inputs[nr]))
    });
    match twice {
        Some((first, second)) if first == second => {
            bail_usage!("{} appears twice; name each input once", second.display())
        }
        Some((first, second)) => bail_usage!(
            "{} and {} are the same input; name each input once",
            first.display(),
            second.display()
        ),
        None => Ok(()),
    }
}

/// Returns an error if `path` is not UTF-8, because knee writes paths into JSON.
pub(crate) fn require_utf8(option: &str, path: &Path) -> anyhow::Result<()> {
    match path.to_str() {
        Some(_) => Ok(()),
        None => bail_usage!(
            "{option} {}: the path is not UTF-8, so knee cannot record it; rename it",
            path.display()
        ),
    }
}

/// Returns an error if a command contains the placeholder for a directory below `dir` or for that of a description,
/// and a shell would not read this path as one word.
pub(crate) fn require_one_word(option: &str, dir: &Path, cases: &[Case]) -> anyhow::Result<()> {
    for case in cases {
        let Source::Server { server, here } = &case.source else { continue };
        if server.uses(HERE) && !is_one_word(&here.to_string_lossy()) {
            bail_usage!(
                "{}: a shell would not read the path {} as one word, so it cannot replace {HERE}; use \
                 another directory",
                case.id,
                here.display()
            );
        }
    }
    let is_used = |case: &Case| match &case.source {
        Source::Command { command } => command.line.contains(Command::DIR),
        Source::Server { .. } => true,
        Source::Plugin { .. } | Source::BuiltIn {} => false,
    };
    if cases.iter().any(is_used) && !is_one_word(&dir.to_string_lossy()) {
        bail_usage!(
            "{option} {}: a shell would not read this path as one word, so it cannot replace {}; use \
             another directory",
            dir.display(),
            Command::DIR
        )
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_outside_of_its_range_is_refused_in_plain_words() {
        let rounds = whole::<u32>(1..=100);
        assert_eq!(rounds("100"), Ok(100));
        for text in ["0", "-1", "101", "1.5", "x", "", "99999999999999999999"] {
            assert_eq!(rounds(text), Err("must be a whole number from 1 to 100".to_owned()));
        }
    }

    #[test]
    fn only_a_warm_up_may_take_no_time() {
        assert_eq!(seconds_or_none("0"), Ok(0.0));
        assert_eq!(seconds_or_none("0.02"), Ok(0.02));
        assert!(seconds("0").is_err());
        assert!(seconds_or_none("-1").unwrap_err().starts_with("must be 0, or a time in seconds"));
    }
}
