//! `knee show`: print the results of a recorded run again, in any format.

use std::path::PathBuf;

use knee_run::record::Record;

use crate::args::view::ViewArgs;
use crate::exit::ExitStatus;
use crate::session::kept_floors;

/// Print the results of a recorded run
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee show runs/2026-11-21T090000Z                   print the table again
  knee show runs/2026-11-21T090000Z --detail          print a line per point
  knee show runs/2026-11-21T090000Z --format json     print JSON
  knee show runs/2026-11-21T090000Z --format csv      a table for a spreadsheet")]
pub(crate) struct Args {
    /// Directory of a recorded run
    dir: PathBuf,

    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitStatus> {
    let record = Record::open(&args.dir)?;
    args.view.print(&record, kept_floors(&record.run).as_ref())?;
    Ok(ExitStatus::of_failures(&record.run.failures))
}
