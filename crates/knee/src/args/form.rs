//! `--format` of commands that compare, and its short forms.

use clap::ValueEnum;

/// `F` is the forms that a command has; one of them is called human.
#[derive(clap::Args)]
pub(crate) struct FormArgs<F: ValueEnum + Send + Sync + 'static> {
    /// Form of the results on standard output
    #[arg(long, value_enum, default_value = "human")]
    format: F,

    /// Short for --format json
    #[arg(long, conflicts_with_all = ["format", "markdown"])]
    json: bool,

    /// Short for --format markdown
    #[arg(long, conflicts_with = "format")]
    markdown: bool,
}

impl<F: ValueEnum + Copy + Send + Sync + 'static> FormArgs<F> {
    /// The form that is asked for, of which these two have a short form.
    pub(crate) fn format(&self, json: F, markdown: F) -> F {
        match (self.json, self.markdown) {
            (true, _) => json,
            (_, true) => markdown,
            _ => self.format,
        }
    }
}
