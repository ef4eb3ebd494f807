//! `knee commute explain`.

use std::path::PathBuf;

use knee_trace::findings::{Ranking, TestLine};

use crate::exit::{ExitStatus, usage};
use crate::input::checks;
use crate::present::commute::explain::{ranking, test};
use crate::stdout;

/// Rank what spoils tests: what to fix so that most of them become conflict-free
///
/// Of every datum that calls share it says how many more tests would be conflict-free if nothing
/// else were fixed, and in how many it is at all; then what to fix first, next and so on. As most
/// tests share several data, a step may be several that only help together. Where the datum is not
/// known, it is called by the functions that write its line.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute explain 6.1
  knee commute explain 6.1 --pair open,close           what spoils these
  knee commute explain 6.1 --test open,close/3.0       all that this one shares, and who does it
  knee commute explain shards/* --json")]
pub(super) struct Args {
    /// What `knee commute check -o DIR` has found; several are shards of one check
    #[arg(value_name = "DIR", required = true)]
    records: Vec<PathBuf>,

    /// Only tests of these operations
    #[arg(long, value_name = "OP,OP", value_delimiter = ',', conflicts_with = "test")]
    pair: Vec<String>,

    /// One test, by its id
    #[arg(long, value_name = "ID")]
    test: Option<String>,

    /// Most data and steps; 0: all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// As JSON, for programs; has all data
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let findings = checks::open(&args.records)?;
    if let Some(id) = &args.test {
        let found = findings.tests.iter().find(|test| test.test == *id);
        let none = || usage(format!("there is no test {id} in {}", checks::names(&args.records)));
        let found = found.ok_or_else(none)?;
        stdout::print(&if args.json { found.to_line() } else { test(found) })?;
        return Ok(ExitStatus::Done);
    }
    let tests: Vec<&TestLine> = match args.pair.as_slice() {
        [] => findings.tests.iter().collect(),
        [one] => {
            return Err(usage(format!(
                "--pair {one}: name two operations, as in --pair {one},{one}"
            )));
        }
        pair => {
            let found = checks::of_operations(&findings.tests, pair);
            if found.is_empty() {
                let (of, names) = (pair.join(" and "), checks::names(&args.records));
                return Err(usage(format!("there are no tests of {of} in {names}")));
            }
            found
        }
    };
    let most = super::most(args.top);
    let ranked = Ranking::of(tests, most);
    let printed = match args.json {
        true => format!("{:#}\n", serde_json::to_value(&ranked)?),
        false => {
            let pair = match args.pair.as_slice() {
                [] => String::new(),
                pair => format!(", {}", pair.join(" and ")),
            };
            ranking(&ranked, &(findings.check.tested.to_string() + &pair), most)
        }
    };
    stdout::print(&printed)?;
    Ok(ExitStatus::Done)
}
