//! Words of command lines for a POSIX shell.

use std::borrow::Cow;
use std::ffi::OsStr;

/// Whether a shell reads this text as one word, and as it is.
pub fn is_one_word(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || "_-./=:,@%+".contains(c))
}

/// The text as one word of a command line, quoted if necessary. Bytes that are not UTF-8 are replaced, because people
/// copy the line from a terminal.
pub fn word<T: AsRef<OsStr> + ?Sized>(text: &T) -> Cow<'_, str> {
    let text = text.as_ref().to_string_lossy();
    // Zsh expands `=ls`.
    match text.is_empty() || text.starts_with('=') || !is_one_word(&text) {
        true => format!("'{}'", text.replace('\'', r"'\''")).into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_each_word_as_it_was() {
        let words =
            ["", "runs/a-1", "größe", "x;id $(id)", "it's", "a\nb", "*", "~root", "=ls", "-n"];
        let line: Vec<_> = words.iter().map(word).collect();
        let printed = Command::new("sh")
            .args(["-c", &format!("printf '<%s>' {}", line.join(" "))])
            .output()
            .unwrap();
        let expected: String = words.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!(String::from_utf8(printed.stdout).unwrap(), expected);
        assert_eq!(word("=ls"), "'=ls'");
        assert_eq!((word("runs/a-1"), word("a b")), ("runs/a-1".into(), "'a b'".into()));
    }
}
