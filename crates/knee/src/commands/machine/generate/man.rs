//! The man page. One page covers knee and all of its commands, so it refers to no other page.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;

/// Writes the man page in roff.
pub(super) fn render(mut command: Command, page: &mut Vec<u8>) -> io::Result<()> {
    // `help` would only repeat this page.
    command = command.disable_help_subcommand(true);
    command.build();
    let man = Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_options_section(page)?;
    writeln!(page, ".SH COMMANDS")?;
    for subcommand in command.get_subcommands() {
        let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(page, ".TP\n\\fB{}\\fR\n{}", escape(&full_name(subcommand)), escape(&about))?;
    }
    notes(&command, page, |title, page| writeln!(page, ".SH {}", title.to_uppercase()))?;
    command.get_subcommands().try_for_each(|subcommand| section(subcommand, page))
}

/// Writes a section for a command and sections for its subcommands.
fn section(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone());
    writeln!(page, ".SH \"{}\"", escape(&full_name(command).to_uppercase()))?;
    body(page, |text| man.render_synopsis_section(text))?;
    writeln!(page, ".PP")?;
    body(page, |text| man.render_description_section(text))?;
    body(page, |text| man.render_options_section(text))?;
    notes(command, page, |title, page| paragraph(&[&format!("{title}:")], page))?;
    command.get_subcommands().try_for_each(|subcommand| section(subcommand, page))
}

fn full_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or(command.get_name()).to_owned()
}

/// A section that clap_mangen renders, without its heading.
fn body(
    page: &mut Vec<u8>,
    render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut text = Vec::new();
    render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    text.lines().filter(|line| !line.starts_with(".SH ")).try_for_each(|l| writeln!(page, "{l}"))
}

/// The text after the options in `--help`, block by block. A block with a title such as `Examples`
/// is shown as typed, below a `heading`. A block without a title is a paragraph.
fn notes(
    command: &Command,
    page: &mut Vec<u8>,
    heading: impl Fn(&str, &mut Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let lines: Vec<&str> = block.lines().collect();
        match lines[0].strip_suffix(':') {
            Some(title) => {
                heading(title, page)?;
                as_typed(&lines[1..], page)?;
            }
            None => paragraph(&lines, page)?,
        }
    }
    Ok(())
}

fn paragraph(lines: &[impl AsRef<str>], page: &mut Vec<u8>) -> io::Result<()> {
    writeln!(page, ".PP")?;
    lines.iter().try_for_each(|line| writeln!(page, "{}", escape(line.as_ref())))
}

/// Lines that roff must not fill, because readers copy them.
fn as_typed(lines: &[&str], page: &mut Vec<u8>) -> io::Result<()> {
    writeln!(page, ".PP\n.nf")?;
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
