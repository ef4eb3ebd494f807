//! How commands that compare print: the `--format` option, its short forms, and `--detail`.

use clap::ValueEnum;

/// `F` lists the formats that a command supports. One of them must be named `human`.
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

    /// Print all notes, not only the three most important ones
    #[arg(long)]
    pub(crate) detail: bool,
}

impl<F: ValueEnum + Copy + Send + Sync + 'static> FormArgs<F> {
    /// The selected format. `json` and `markdown` are the formats that have a short form.
    pub(crate) fn format(&self, json: F, markdown: F) -> F {
        match (self.json, self.markdown) {
            (true, _) => json,
            (_, true) => markdown,
            _ => self.format,
        }
    }
}
