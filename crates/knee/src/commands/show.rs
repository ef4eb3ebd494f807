//! `knee show`: the results of a recorded run again, in any form.

use std::path::PathBuf;

use knee_run::noise::NoiseFloors;
use knee_run::record::{Record, RunRecord};

use crate::exit::ExitStatus;
use crate::present::{Format, View, render};
use crate::stderr::tell;
use crate::stdout;

/// Print the results of a recorded run
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee show runs/2026-11-21T090000Z                   the table again
  knee show runs/2026-11-21T090000Z --detail          a line per point
  knee show runs/2026-11-21T090000Z --format json     everything, for programs")]
pub(crate) struct Args {
    /// The directory of the run
    dir: PathBuf,

    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

/// Options that say how results look.
#[derive(clap::Args)]
pub(crate) struct ViewArgs {
    /// Form of the results on standard output
    #[arg(long, value_enum, default_value = "human")]
    pub(crate) format: Format,

    /// A line per point, with intervals, fairness and CPU shares
    #[arg(long)]
    pub(crate) detail: bool,

    /// Efficiency below which a curve has its knee
    #[arg(long, value_name = "P%", default_value = "80%",
          allow_negative_numbers = true, value_parser = super::percentage)]
    pub(crate) knee: f64,
}

impl ViewArgs {
    /// What to do with `record`, judged by `floors`; one testcase alone is shown in detail.
    pub(crate) fn print(
        &self,
        record: &Record,
        floors: Option<&NoiseFloors>,
    ) -> anyhow::Result<()> {
        let view = View {
            format: self.format,
            detail: self.detail || record.run.cases.len() == 1,
            knee: self.knee,
            floors,
        };
        stdout::write_with(|out| render(record, &view, out))
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitStatus> {
    let record = Record::open(&args.dir)?;
    args.view.print(&record, kept_floors(&record.run).as_ref())?;
    Ok(ExitStatus::of_failures(&record.run.failures))
}

/// The noise floors kept for the machine of `run`. Results are worth showing without them too.
pub(super) fn kept_floors(run: &RunRecord) -> Option<NoiseFloors> {
    NoiseFloors::kept_for(run).unwrap_or_else(|error| {
        tell!("knee: the noise floor is not used: {error}");
        None
    })
}
