//! Output options of commands that compare: `--format`, its short forms, and `--detail`.

use clap::ValueEnum;

/// `F` is the enum of formats that a command supports. One format must be named `human`.
#[derive(clap::Args)]
pub(crate) struct FormArgs<F: ValueEnum + Send + Sync + 'static> {
    /// Output format
    #[arg(long, value_enum, default_value = "human")]
    format: F,

    /// Short for --format json
    #[arg(long, conflicts_with_all = ["format", "markdown"])]
    json: bool,

    /// Short for --format markdown
    #[arg(long, conflicts_with = "format")]
    markdown: bool,

    /// Print all notes instead of the three most important
    #[arg(long)]
    pub(crate) detail: bool,
}

impl<F: ValueEnum + Copy + Send + Sync + 'static> FormArgs<F> {
    /// The selected format. `--json` selects `json`, and `--markdown` selects `markdown`.
    pub(crate) fn format(&self, json: F, markdown: F) -> F {
        match (self.json, self.markdown) {
            (true, _) => json,
            (_, true) => markdown,
            _ => self.format,
        }
    }
}
