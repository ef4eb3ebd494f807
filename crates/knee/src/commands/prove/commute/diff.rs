//! `knee commute diff`.

use std::path::PathBuf;

use knee_trace::findings::{Diff, DiffDocument, confirmed};

use crate::exit::{ExitStatus, usage};
use crate::input::checks;
use crate::present::commute::diff::text;
use crate::stdout;

/// Compare two checks test by test: kernels, file systems, builds
///
/// Tests are compared by their ids. One is worse if it was conflict-free and now conflicts in every
/// run. What conflicts in some runs only, was disturbed or ended its guest proves nothing: it is
/// told, and does not decide the status. Where QEMU or knee's plugin differ, verdicts can differ for that
/// reason, and a note says so.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute diff 6.1 6.12
  knee commute diff before/1,before/2 after/1,after/2      shards of each, with commas
  knee commute diff base new --again new2                 only what both new ones show
  knee commute diff base patched --json | jq -r '.worse[]'

Status 1: a test that was conflict-free conflicts now. Status 3: none of those that both have, but
AFTER has not come to its end, and some were not compared.")]
pub(super) struct Args {
    /// What `knee commute check -o DIR` has found before; shards with commas between them, or
    /// a directory of them
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// … and after
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// The check of AFTER once more: what it does not confirm proves nothing
    #[arg(long, value_name = "DIR")]
    again: Option<PathBuf>,

    /// Most lines of each list; 0: all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// As JSON, for programs; has all
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
            return Err(usage(format!("{again} is not {after} once more: {difference}")));
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
            super::most(args.top),
        )
    };
    stdout::print(&printed)?;
    let lacks_some = after.missing() > 0 && diff.only_before > 0;
    Ok(match diff.worse.as_slice() {
        [] if lacks_some => ExitStatus::Environment,
        [] => ExitStatus::Done,
        _ => ExitStatus::Policy,
    })
}
