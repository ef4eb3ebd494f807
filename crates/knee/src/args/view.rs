//! How results look.

use knee_run::noise::NoiseFloors;
use knee_run::record::Record;

use super::percentage;
use crate::present::{Format, View, render};
use crate::stdout;

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
          allow_negative_numbers = true, value_parser = percentage)]
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
