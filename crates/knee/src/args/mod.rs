//! Arguments that several commands share. Each has one name and one type.

pub(crate) mod complete;
pub(crate) mod confidence;
pub(crate) mod form;
pub(crate) mod judgement;
pub(crate) mod modes;
pub(crate) mod patience;
pub(crate) mod tasks;
pub(crate) mod view;

use std::path::{Path, PathBuf};

use crate::exit::{bail_usage, usage};

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
    if text.parse() == Ok(0.0) { Ok(0.0) } else { seconds(text) }
}

/// The maximum line count that `--top` requests. 0 means no limit.
pub(crate) fn most(top: usize) -> usize {
    if top == 0 { usize::MAX } else { top }
}

/// The absolute path of the existing file or directory that an option names.
pub(crate) fn existing(option: &str, path: &Path) -> anyhow::Result<PathBuf> {
    let whole =
        path.canonicalize().map_err(|e| usage(format!("{option} {}: {e}", path.display())))?;
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
