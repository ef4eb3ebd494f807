//! Output options of `knee run` and `knee show`.

use knee_host::text::Screen;
use knee_run::noise::NoiseFloors;
use knee_run::record::Record;

use super::percentage;
use crate::filter::Content;
use crate::present::{Format, View, render};
use crate::stdout;

/// Options that select how results are printed.
#[derive(clap::Args)]
pub(crate) struct ViewArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "human")]
    format: Format,

    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Print a line per point with its interval, fairness and CPU shares, and print all notes. In CSV
    /// and TSV, print a row per round
    #[arg(long)]
    pub(crate) detail: bool,

    /// Efficiency threshold: the knee is the first task count with an efficiency below P%
    #[arg(long, value_name = "P%", default_value = "80%",
          value_parser = percentage)]
    pub(crate) knee: f64,
}

impl ViewArgs {
    /// The selected format.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// These options for output to `screen`.
    pub(crate) fn view<'f>(&self, floors: Option<&'f NoiseFloors>, screen: Screen) -> View<'f> {
        View {
            format: self.format(),
            detail: self.detail,
            all_notes: self.detail,
            by_round: self.detail,
            knee: self.knee,
            floors,
            screen,
        }
    }

    /// Prints `record`, with notes about knees within the noise `floors`. Prints a record of a
    /// single testcase in detail.
    pub(crate) fn print(
        &self,
        record: &Record,
        floors: Option<&NoiseFloors>,
    ) -> anyhow::Result<()> {
        let is_single = record.run.cases.len() == 1;
        let view = self.view(floors, Screen::of_stdout());
        let view = View { detail: view.detail || is_single, ..view };
        let is_json = view.format == Format::Json;
        let content = if is_json { Content::Json } else { Content::Text };
        stdout::write_with(content, |out| render(record, &view, out))
    }
}
