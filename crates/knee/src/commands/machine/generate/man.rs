//! The man pages: one of knee, and one of each command.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;

/// The sections after the options, in their usual order. A command without such a section has that of
/// knee, except for the examples.
const SECTIONS: [&str; 4] = ["Exit status", "Environment", "Files", EXAMPLES];
const EXAMPLES: &str = "Examples";

/// A man page.
pub(super) struct Page {
    /// `knee-run.1`
    pub(super) file: String,
    /// In roff.
    pub(super) text: Vec<u8>,
}

/// The pages of `knee` and of all of its commands.
pub(super) fn pages(knee: Command) -> io::Result<Vec<Page>> {
    // There are pages instead of `help`.
    let mut knee = knee.disable_help_subcommand(true);
    knee.build();
    let mut pages = Vec::new();
    add_page(&[&knee], &Notes::of(&knee), &mut pages)?;
    Ok(pages)
}

/// Adds the page of the last one of `commands`, which the others contain, and the pages of its
/// subcommands.
fn add_page(commands: &[&Command], general: &Notes, pages: &mut Vec<Page>) -> io::Result<()> {
    let [parents @ .., command] = commands else { return Ok(()) };
    let with_heading = Command::clone(command).subcommand_help_heading("COMMANDS");
    let man = Man::new(with_heading);
    let mut text = Vec::new();
    // clap_mangen would leave out the empty date, and move the version to its place.
    let (name, version) = (escape(page_name(command)), env!("CARGO_PKG_VERSION"));
    writeln!(text, ".TH \"{name}\" 1 \"\" \"knee {version}\" \"User Commands\"")?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    let notes = Notes::of(command);
    notes.paragraphs.iter().try_for_each(|lines| paragraph(lines, &mut text))?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    for title in SECTIONS {
        let inherited = general.section(title).filter(|_| title != EXAMPLES);
        if let Some(lines) = notes.section(title).or(inherited) {
            writeln!(text, ".SH \"{}\"", title.to_uppercase())?;
            as_typed(lines, &mut text)?;
        }
    }
    if !parents.is_empty() {
        let pages = parents.iter().map(|parent| format!("{}(1)", page_name(parent)));
        let pages = pages.collect::<Vec<String>>().join(", ");
        writeln!(text, ".SH \"SEE ALSO\"\n{}", escape(&pages))?;
    }
    pages.push(Page { file: man.get_filename(), text });
    for subcommand in command.get_subcommands() {
        add_page(&[commands, &[subcommand]].concat(), general, pages)?;
    }
    Ok(())
}

/// `knee-commute-check`
fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

/// The text after the options in `--help`.
struct Notes {
    /// Blocks with a title, such as `Examples`, and their lines.
    sections: Vec<(String, Vec<String>)>,
    /// The other blocks.
    paragraphs: Vec<Vec<String>>,
}

impl Notes {
    fn of(command: &Command) -> Self {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let mut notes = Self { sections: Vec::new(), paragraphs: Vec::new() };
        for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
            let mut lines: Vec<String> = block.lines().map(str::to_owned).collect();
            match lines[0].strip_suffix(':').map(str::to_owned) {
                Some(title) => notes.sections.push((title, lines.split_off(1))),
                None => notes.paragraphs.push(lines),
            }
        }
        notes
    }

    fn section(&self, title: &str) -> Option<&[String]> {
        let (_, lines) = self.sections.iter().find(|(other, _)| other == title)?;
        Some(lines)
    }
}

fn paragraph(lines: &[String], page: &mut Vec<u8>) -> io::Result<()> {
    writeln!(page, ".PP")?;
    lines.iter().try_for_each(|line| writeln!(page, "{}", escape(line)))
}

/// Lines that roff must not fill, because readers copy them.
fn as_typed(lines: &[String], page: &mut Vec<u8>) -> io::Result<()> {
    writeln!(page, ".nf")?;
    lines.iter().try_for_each(|line| writeln!(page, "{}", escape(line)))?;
    writeln!(page, ".fi")
}

/// Escapes text for roff: prints plain hyphens and quotes that a shell accepts, and prevents
/// requests.
fn escape(text: &str) -> String {
    let text =
        text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_section_of_every_help_is_on_its_page() {
        fn check(command: &Command) {
            for (title, _) in Notes::of(command).sections {
                assert!(SECTIONS.contains(&title.as_str()), "{title} of {}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::grouped());
    }
}
