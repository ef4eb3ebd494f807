//! Machines: those that knee knows, by name, and files.

use std::path::Path;

use anyhow::Context;
use knee_host::RegularFile;
use knee_host::suggest::{nearest, question};
use knee_predict::Machine;

use crate::exit::usage;

/// End of the names of files.
const EXTENSION: &str = "toml";
/// The largest file. One with the transfers between 1,000 CPUs has 6 MB. A file takes up to fifty
/// times as much memory.
const LARGEST: u64 = 8 << 20;

/// Whether this is the name of a file.
pub(crate) fn is_machine_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

/// A machine that knee knows, or in a file that ends in `.toml`, and the text of its file.
pub(crate) fn machine(word: &str) -> anyhow::Result<(String, Machine)> {
    if is_machine_file(Path::new(word)) {
        return machine_file(Path::new(word));
    }
    let mut names = Vec::new();
    for (text, machine) in Machine::all_built_in() {
        if machine.name == word {
            return Ok((text.to_owned(), machine));
        }
        names.push(machine.name);
    }
    let meant = nearest(word, names.iter().map(String::as_str));
    let all = if meant.is_empty() { "; knee machine list shows all" } else { "" };
    Err(usage(format!(
        "no machine is named {word}{}{all}; the name of a file ends in .{EXTENSION}",
        question(&meant)
    )))
}

/// The text of a file, and the machine in it.
pub(crate) fn machine_file(path: &Path) -> anyhow::Result<(String, Machine)> {
    let text = RegularFile::at(path).at_most(LARGEST).read_to_string();
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let machine =
        Machine::parse(&text).with_context(|| format!("cannot use {}", path.display()))?;
    Ok((text, machine))
}
