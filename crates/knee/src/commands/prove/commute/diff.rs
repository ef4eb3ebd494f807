//! `knee commute diff`.

use std::path::PathBuf;

use knee_trace::findings::{Diff, DiffDocument, confirmed};

use crate::args::{most, whole};
use crate::exit::{ExitStatus, bail_usage};
use crate::input::checks;
use crate::present::commute::diff::text;
use crate::stdout;

/// Compare two checks test by test, such as checks of two kernels
///
/// knee matches tests by their ids. A test is worse if it was conflict-free and now conflicts in
/// every run. A test is inconclusive if it conflicts only in some runs, was disturbed, or crashed
/// its guest. knee lists inconclusive tests, but they do not affect the exit status. Verdicts can
/// depend on the versions of QEMU and of knee's QEMU plugin. knee prints a note if the two checks
/// used different versions.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute diff 6.1 6.12
  knee commute diff before/1,before/2 after/1,after/2      two shards of each
  knee commute diff base new --again new2                  confirmed changes
  knee commute diff base patched --json | jq -r '.worse[]'

Exit status:
  1  a conflict-free test now conflicts
  3  no compared test is worse, but AFTER is incomplete")]
pub(super) struct Args {
    /// Earlier record from `knee commute check -o DIR`. For a check in shards, a comma-separated
    /// list of the shards' directories, or a directory that contains all shards
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// Later record, in the same form as BEFORE
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// Record of a repetition of AFTER; a test is inconclusive if AFTER and the repetition give it
    /// different verdicts
    #[arg(long, value_name = "DIR")]
    again: Option<PathBuf>,

    /// Maximum number of lines to print in each list; 0 means all
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = whole::<usize>(0..=usize::MAX))]
    top: usize,

    /// Print JSON, with complete lists
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let before = checks::open(std::slice::from_ref(&args.before))?;
    let mut after = checks::open(std::slice::from_ref(&args.after))?;
    if let Some(dir) = &args.again {
        let again = checks::open(std::slice::from_ref(dir))?;
        if let Some(difference) = after.check.difference(&again.check) {
            let (after, again) = (args.after.display(), dir.display());
            bail_usage!("{again} is not a repetition of {after}: {difference}");
        }
        after.tests = confirmed(&after.tests, &again.tests);
    }
    let diff = Diff::of(&before.tests, &after.tests);
    let tools = before.check.tool_changes(&after.check);
    let printed = if args.json {
        let (before, after) = (&before.check, &after.check);
        let document = serde_json::to_value(DiffDocument { diff: &diff, before, after, tools })?;
        format!("{document:#}\n")
    } else {
        text(
            &diff,
            [before.check.tested.to_string(), after.check.tested.to_string()],
            &tools,
            most(args.top),
        )
    };
    stdout::print_or_show(args.json, &printed)?;
    let lacks_some = !after.is_complete() && diff.only_before > 0;
    Ok(match diff.worse.as_slice() {
        [] if lacks_some => ExitStatus::Environment,
        [] => ExitStatus::Done,
        _ => ExitStatus::Policy,
    })
}
