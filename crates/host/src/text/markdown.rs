//! Names and messages in Markdown.
//!
//! A service that shows Markdown loads the images and notifies the people that it names. A name from elsewhere must
//! not do that, and must not add HTML, links or a layout of its own. A backslash does not prevent everything:
//! GitHub looks for `@name`, `#1` and addresses in the text that remains after the backslashes are gone. In code,
//! it looks for nothing. So text with such a character becomes code, and other text stays as it is.

use std::borrow::Cow;

/// Text that Markdown shows as it is: unchanged, or as code.
pub fn markdown(text: &str) -> Cow<'_, str> {
    match is_inert(text) {
        true => text.into(),
        false => code(text).into(),
    }
}

/// Like [`markdown`], for a cell of a table.
pub(super) fn cell(text: &str) -> String {
    // A table needs a backslash before a bar, even in code. A backslash of the text before it would undo that, and a
    // table has no way to write both.
    markdown(text).replace("\\|", "\\¦").replace('|', "\\|")
}

/// Text as a code span, in one line.
pub fn code(text: &str) -> String {
    let text = text.replace(['\n', '\r', '\t'], " ");
    let longest = text.split(|c: char| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // Markdown removes one space at each end if there are two.
    match text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) {
        true => format!("{fence} {text} {fence}"),
        false => format!("{fence}{text}{fence}"),
    }
}

/// Whether nothing in a line of text has a meaning in Markdown or for services that show it.
fn is_inert(text: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let is_space = |c: Option<char>| c.is_none_or(char::is_whitespace);
    if text.contains("://") || text.to_ascii_lowercase().contains("www.") {
        return false;
    }
    if text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(is_reference) {
        return false;
    }
    let mut before = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let after = rest.clone().next();
        let is_harmless = match c {
            '`' | '\\' | '*' | '[' | ']' | '&' | '$' | '\n' | '\r' => false,
            '_' => is_word(before) && is_word(after),
            '<' => is_space(after) || is_digit(after),
            '~' => is_space(after),
            '#' | '!' | '%' => !is_digit(after),
            // A service may take only ASCII for a part of a word.
            '@' => {
                let is_in_word = before.is_some_and(|c| c.is_ascii_alphanumeric());
                !is_word(after) || (is_in_word && !begins_with_domain(rest.as_str()))
            }
            _ => true,
        };
        if !is_harmless {
            return false;
        }
        before = Some(c);
    }
    true
}

/// Whether a service takes a word for a commit or an issue, as in `GH-12`. A number of up to 39 digits stays a number.
fn is_reference(word: &str) -> bool {
    let is_hash = |part: &str| {
        let is_hex = part.len() >= 7 && part.chars().all(|c| c.is_ascii_hexdigit());
        is_hex && (part.len() >= 40 || !part.chars().all(|c| c.is_ascii_digit()))
    };
    let is_issue = |digits: &str| digits.starts_with(|c: char| c.is_ascii_digit());
    let prefix = word.get(..3).filter(|prefix| prefix.eq_ignore_ascii_case("gh-"));
    prefix.is_some_and(|_| is_issue(&word[3..])) || word.split('-').any(is_hash)
}

/// Whether the `@` before this text would make a mail address of it.
fn begins_with_domain(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    text.split(|c: char| !is_part(c)).next().is_some_and(|domain| domain.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_markdown_becomes_code() {
        for hostile in [
            "[x](javascript:alert)",
            "![i](//evil/p.png)",
            "<img src=x>",
            "</td>",
            "<!-- x",
            "*bold*",
            "_bold_",
            "~~gone~~",
            "&#64;all",
            "\\[x\\]",
            "$x$",
            "@all",
            "by @all",
            "me@evil.example",
            "org/repo#12",
            "!12",
            "%12",
            "GH-12",
            "see gh-3 there",
            "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
            "1234567890123456789012345678901234567890",
            "at 1a2b3c4",
            "https://evil.example",
            "WWW.evil.example",
        ] {
            assert_eq!(markdown(hostile), format!("`{hostile}`"));
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in [
            "",
            "tcp_loopback1 threads ×2",
            "vm_mmap1@di=epoch,rmap=page",
            "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz",
            "<0.0001",
            "~ no difference found; about 5 rounds needed",
            "sort -n < in | uniq -c > out; knee ab --before x",
            "1234567 iterations, 12% of them",
            "GH-x, agh-1, face-off",
            "task 3 was killed by SIGSEGV!",
        ] {
            assert!(matches!(markdown(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn no_text_ends_its_code_early() {
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`a`"), "`` `a` ``");
        assert_eq!(code(" a "), "`  a  `");
        assert_eq!(code("one\ntwo"), "`one two`");
    }

    #[test]
    fn no_text_ends_its_cell_early() {
        assert_eq!(cell("a|b"), "a\\|b");
        assert_eq!(cell("*|b"), "`*\\|b`");
        assert_eq!(cell("a\\|b|c"), "`a\\¦b\\|c`");
    }
}
