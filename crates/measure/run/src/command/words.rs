//! The words of a command line.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use knee_host::process::program;

/// A line with one of these characters needs a shell.
const SHELL_CHARACTERS: &str = "|&;<>()$`\\\"'*?[]#~=%!{}\n";

/// The words of a line: those of a program, or of a shell that runs the line. Looks for the program in the
/// directories of `path`, or for a path from `dir`.
pub(crate) fn words(line: &str, dir: &Path, path: &OsStr) -> Vec<OsString> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let needs_shell = line.contains(|c| SHELL_CHARACTERS.contains(c));
    let is_program = |name: &str| match name.contains('/') {
        true => dir.join(name).exists(),
        false => program::find_in(path, name).is_some(),
    };
    match words.first().and_then(|word| word.to_str()) {
        Some(name) if !needs_shell && is_program(name) => words,
        // It may be a shell builtin, and the error message of a shell is as good.
        _ => ["/bin/sh", "-c", line].map(OsString::from).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_runs_only_lines_that_need_one() {
        let words = |line| words(line, Path::new("/"), OsStr::new("/usr/bin:/bin"));
        assert_eq!(words("ls  -l /"), ["ls", "-l", "/"]);
        assert_eq!(words("bin/ls -l"), ["bin/ls", "-l"]);
        for line in ["ls | cat", "ulimit -n", "./no-such-program", ""] {
            assert_eq!(words(line), ["/bin/sh", "-c", line]);
        }
    }
}
