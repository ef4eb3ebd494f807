//! The forms in which comparisons are printed.

use knee_host::text::Screen;

use super::{Comparisons, json, markdown, table};
use crate::stdout;

/// A form of comparisons on standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// A table for people, with all notes or the most important ones.
    Table {
        all_notes: bool,
    },
    Markdown,
    Json,
}

impl Comparisons<'_> {
    pub(crate) fn print(&self, form: Form) -> anyhow::Result<()> {
        match form {
            Form::Table { all_notes } => {
                stdout::print(&table::render(self, all_notes, &Screen::of_stdout()))
            }
            Form::Markdown => stdout::print(&markdown::render(self)),
            Form::Json => stdout::print_json_text(&json::render(self)),
        }
    }
}
