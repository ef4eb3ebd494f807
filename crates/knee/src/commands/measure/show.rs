//! `knee show`: print the results of a recorded run again, in any format, or a prediction.

use std::path::PathBuf;

use knee_run::record::Record;

use crate::args::view::ViewArgs;
use crate::exit::{ExitStatus, bail_usage};
use crate::input::document;
use crate::present::{self, Format};
use crate::session::kept_floors;
use crate::stdout;

/// Print the results of a recorded run, or a prediction
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee show runs/2026-11-21T090000Z                   print the table again
  knee show runs/2026-11-21T090000Z --detail          print a line per point
  knee show runs/2026-11-21T090000Z --format json     print JSON
  knee show runs/2026-11-21T090000Z --format csv      a table for a spreadsheet
  knee show open1.json                                a file of knee predict -o")]
pub(crate) struct Args {
    /// Directory of a recorded run, or a file of knee predict
    #[arg(value_name = "DIR | FILE.json")]
    dir: PathBuf,

    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitStatus> {
    if document::is_json(&args.dir)?
        && let Some(found) = document::predictions(&args.dir, &document::text(&args.dir)?)?
    {
        match args.view.format() {
            Format::Human => present::predict::show(&found)?,
            Format::Json => stdout::print_json(&found)?,
            _ => bail_usage!("knee prints a prediction only as a table or as JSON"),
        }
        return Ok(ExitStatus::Done);
    }
    let record = Record::open(&args.dir)?;
    args.view.print(&record, kept_floors(&record.run).as_ref())?;
    Ok(ExitStatus::of_failures(&record.run.failures))
}
