//! The command line.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};

pub(crate) const HELP: &str = "\
Run knee on mutated input files, and report panics, crashes, hangs and excessive memory

Usage: mutate [OPTIONS]

Options:
      --knee <FILE>    knee to run [default: target/release/knee]
      --runs <N>       Count of runs; each is one command on one mutated input [default: 20000]
      --jobs <N>       Count of runs at the same time [default: 1]
      --seed <N>       Seed of all choices [default: the time]
      --only <READER>  Run only the commands of one reader
      --run <N>        Repeat run N of the campaign with this --seed, and print what knee prints
  -h, --help           Print help

Examples:
  mutate --runs 1000000 --jobs 2
  mutate --only perf-data --runs 5000
  mutate --seed 1764140000 --run 4711

Faults are kept in fuzz/artifacts/mutate, with the input and the command. Exit status 1: there are faults.
";

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) knee: PathBuf,
    pub(crate) runs: u64,
    pub(crate) jobs: usize,
    pub(crate) seed: u64,
    pub(crate) only: Option<String>,
    /// The one run to repeat.
    pub(crate) run: Option<u64>,
}

impl Options {
    /// Reads the arguments; `None` if they ask for help.
    pub(crate) fn parse(
        arguments: impl IntoIterator<Item = String>,
    ) -> anyhow::Result<Option<Self>> {
        let mut options = Self {
            knee: "target/release/knee".into(),
            runs: 20_000,
            jobs: 1,
            seed: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
            only: None,
            run: None,
        };
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            if matches!(name.as_str(), "-h" | "--help") {
                return Ok(None);
            }
            let mut value = || arguments.next().with_context(|| format!("{name} requires a value"));
            match name.as_str() {
                "--knee" => options.knee = value()?.into(),
                "--runs" => options.runs = number(&name, &value()?)?,
                "--jobs" => options.jobs = number(&name, &value()?)? as usize,
                "--seed" => options.seed = number(&name, &value()?)?,
                "--only" => options.only = Some(value()?),
                "--run" => options.run = Some(number(&name, &value()?)?),
                _ => bail!("unknown argument {name}; see mutate --help"),
            }
        }
        ensure!((1..=1024).contains(&options.jobs), "--jobs must be from 1 to 1024");
        Ok(Some(options))
    }
}

fn number(name: &str, value: &str) -> anyhow::Result<u64> {
    value.parse().with_context(|| format!("{name} {value}: this is not a count"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> anyhow::Result<Option<Options>> {
        Options::parse(arguments.iter().map(|&argument| argument.to_owned()))
    }

    #[test]
    fn options_replace_the_defaults() {
        let options = parse(&["--runs", "7", "--only", "csv", "--seed", "1"]).unwrap().unwrap();
        assert_eq!((options.runs, options.seed, options.run), (7, 1, None));
        assert_eq!(options.only.as_deref(), Some("csv"));
        assert_eq!(parse(&["--runs", "7", "-h"]).unwrap(), None);
    }

    #[test]
    fn a_bad_argument_is_named() {
        for (arguments, text) in [
            (&["--runs"] as &[_], "--runs requires a value"),
            (&["--runs", "many"], "--runs many: this is not a count"),
            (&["--jobs", "0"], "--jobs must be from 1 to 1024"),
            (&["fast"], "unknown argument fast; see mutate --help"),
        ] {
            assert_eq!(parse(arguments).unwrap_err().to_string(), text);
        }
    }
}
