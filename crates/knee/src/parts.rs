//! What this build contains: without the features `explain` and `prove`, knee only measures.

/// The commands that this build lacks.
pub(crate) const MISSING: &[&str] = &[
    #[cfg(not(feature = "explain"))]
    "profile",
    #[cfg(not(feature = "explain"))]
    "machine",
    #[cfg(not(all(feature = "explain", feature = "prove")))]
    "predict",
    #[cfg(not(feature = "prove"))]
    "commute",
    #[cfg(not(feature = "prove"))]
    "kernel",
    #[cfg(not(feature = "prove"))]
    "qemu",
];

/// How to get the missing commands.
pub(crate) const HOW_TO_COMPLETE: &str = "\
This build of knee lacks some commands. To install all of them, run:
  cargo install --path crates/knee";

/// Whether no command is missing.
pub(crate) fn is_complete() -> bool {
    MISSING.is_empty()
}

/// The error for a use of `command`, if this build lacks it.
pub(crate) fn missing(command: &str) -> Option<String> {
    MISSING.contains(&command).then(|| {
        format!(
            "this build of knee lacks the command {command}; to install all commands, run: cargo \
             install --path crates/knee"
        )
    })
}

/// The lines of a help text that name no missing command.
pub(crate) fn present_lines(text: &str) -> String {
    lines_without(text, MISSING)
}

fn lines_without(text: &str, commands: &[&str]) -> String {
    // A backslash continues an example in the next line.
    let mut is_continued = false;
    let is_kept = |line: &&str| {
        let names_one = || commands.iter().any(|command| line.contains(&format!("knee {command}")));
        let is_left_out = is_continued || names_one();
        is_continued = is_left_out && line.trim_end().ends_with('\\');
        !is_left_out
    };
    text.split_inclusive('\n').filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_leaves_out_the_whole_example_of_a_missing_command() {
        let text = "  knee run\n  knee jobs 'knee commute check \\\n     -o x'\n  knee report\n";
        assert_eq!(lines_without(text, &["commute"]), "  knee run\n  knee report\n");
        assert_eq!(lines_without(text, &[]), text);
    }

    #[test]
    fn only_a_missing_command_has_an_error() {
        assert_eq!(missing("run"), None);
        assert!(MISSING.iter().all(|command| missing(command).is_some()));
        assert_eq!(is_complete(), cfg!(feature = "explain") && cfg!(feature = "prove"));
    }
}
