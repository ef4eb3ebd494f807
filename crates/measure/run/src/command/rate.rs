//! The rate that a command prints.

use knee_host::process::last_line;
use knee_results::MAX_RATE;
use knee_stats::ungrouped;

use crate::job::{Command, Failure, FailureKind};

/// The most characters of a number in place of `#`. The time to find it grows with the square of this.
const LONGEST_NUMBER: usize = 40;

/// The rate in the standard output of the command with this line. `pattern` is [`Command::read`].
pub(crate) fn printed(output: &[u8], line: &str, pattern: Option<&str>) -> Result<f64, Failure> {
    let refused = |reason: String, remedy: &str| {
        Failure::new(FailureKind::Died, format!("{line} {reason}"), remedy)
    };
    let text = String::from_utf8_lossy(output);
    let (rate, remedy) = match pattern {
        None => (
            last_number(&text).map_err(|word| {
                let reason = format!("printed {word:?}, which can be one number or two");
                refused(reason, "make the command print a plain number, or name the text around the rate with --read")
            })?,
            "make the command print its rate as its last number, without a unit prefix, or name the \
             text around the rate with --read",
        ),
        Some(pattern) => (
            last_match(&text, pattern),
            "name the text around the rate with --read, such as --read 'tps = #'",
        ),
    };
    match (rate, pattern) {
        // A record with a greater rate could not be read back.
        (Some(rate), _) if rate > 0.0 && rate <= MAX_RATE => Ok(rate),
        (Some(rate), _) => {
            Err(refused(format!("printed {rate}, which is not a valid rate"), remedy))
        }
        (None, None) => Err(refused(format!("printed no number; {}", last_of(output)), remedy)),
        (None, Some(pattern)) => {
            if let Some(word) = word_in_place(&text, pattern) {
                let reason =
                    format!("printed {word:?} in place of the #, which is not a plain number");
                return Err(refused(
                    reason,
                    "make the command print a plain number there, such as 12500, or correct --read",
                ));
            }
            let last = last_of(output);
            Err(refused(format!("printed no text that matches {pattern:?}; {last}"), remedy))
        }
    }
}

/// What a command printed last, in words.
fn last_of(output: &[u8]) -> String {
    match last_line(output) {
        Some(last) => format!("its last line: {last:?}"),
        None => "it printed nothing".to_owned(),
    }
}

/// The last number that stands by itself, or after a sign such as `:` or `=`, or before a unit that
/// is separated by a blank or a slash. `1,234,567` is one number. `1.2M`, `12ms` and `v3` are not
/// numbers, because the meaning of the letters is unknown.
///
/// # Errors
/// The word could be a number with a decimal comma, or two numbers.
fn last_number(text: &str) -> Result<Option<f64>, String> {
    let apart = |c: char| c.is_whitespace() || ":;=/()[]{}<>\"'".contains(c);
    for word in text.split(apart).rev() {
        let word = word.trim_end_matches(['.', ',', '!']);
        if let Some(number) = number(word) {
            return Ok(Some(number));
        }
        let parts: Vec<Option<f64>> = word.rsplit(',').map(number).collect();
        let is_plain = |c: char| c.is_ascii_digit() || "+-,".contains(c);
        match parts[..] {
            [Some(_), Some(_)] if word.chars().all(is_plain) => {
                return Err(word.chars().take(LONGEST_NUMBER).collect());
            }
            _ => {}
        }
        if let Some(number) = parts.into_iter().flatten().next() {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// The number in place of the `#` of `pattern`, in the last line that contains the pattern. A blank
/// stands for any number of blanks and tabs.
fn last_match(text: &str, pattern: &str) -> Option<f64> {
    let pattern = squeezed(pattern);
    let (before, after) = pattern.split_once(Command::NUMBER)?;
    text.lines().rev().find_map(|line| first_match(&squeezed(line), before, after))
}

/// The beginning of the word in place of the `#` of `pattern`, in the last line that contains the text before it. `None`
/// if it is a number.
fn word_in_place(text: &str, pattern: &str) -> Option<String> {
    let pattern = squeezed(pattern);
    let (before, _) = pattern.split_once(Command::NUMBER)?;
    if before.is_empty() {
        return None;
    }
    let rest = text
        .lines()
        .rev()
        .map(squeezed)
        .find_map(|line| line.split_once(before).map(|(_, rest)| rest.to_owned()))?;
    let word: String = rest.split_whitespace().next()?.chars().take(LONGEST_NUMBER).collect();
    // Otherwise, the text after the number differs.
    number(&word).is_none().then_some(word)
}

fn first_match(line: &str, before: &str, after: &str) -> Option<f64> {
    line.match_indices(before).find_map(|(at, _)| {
        let begin = at + before.len();
        let is_inside_word = |c: char| c.is_alphanumeric() || c == '.';
        // `#/s` does not match in the middle of a word or number.
        if before.is_empty() && line[..begin].ends_with(is_inside_word) {
            return None;
        }
        let rest = line[begin..].strip_prefix(' ').unwrap_or(&line[begin..]);
        let is_of_number = |c: &char| "0123456789.,+-eE".contains(*c);
        let end = rest.chars().take(LONGEST_NUMBER).take_while(is_of_number).count();
        // The longest number first, so that 12 does not match in 123.
        (1..=end).rev().find_map(|end| {
            let (word, rest) = rest.split_at(end);
            let ends_here = match after {
                // The meaning of letters after the number is unknown.
                "" => {
                    let mut rest = rest.chars().take(LONGEST_NUMBER);
                    let next = rest.find(|c| !['.', ','].contains(c));
                    !next.is_some_and(|c| c.is_alphanumeric() || c == '%')
                }
                after => rest.starts_with(after),
            };
            if ends_here { number(word) } else { None }
        })
    })
}

fn squeezed(line: &str) -> String {
    let mut squeezed = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            ' ' | '\t' if squeezed.ends_with(' ') => {}
            '\t' => squeezed.push(' '),
            c => squeezed.push(c),
        }
    }
    squeezed
}

fn number(word: &str) -> Option<f64> {
    let plain = if word.contains(',') { ungrouped(word)? } else { word.to_owned() };
    // Rust also parses words such as inf and nan as numbers.
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    if has_digit { plain.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_the_rate() {
        assert_eq!(last_number("testcase:mmap1\naverage:1310849\n"), Ok(Some(1310849.0)));
        assert_eq!(last_number("min:1 max:2 total=3.5e6 ops/s"), Ok(Some(3.5e6)));
        assert_eq!(last_number("rate: -3."), Ok(Some(-3.0)));
        assert_eq!(last_number("1,234,567 in all"), Ok(Some(1234567.0)));
        assert_eq!(last_number("12,345.5/s"), Ok(Some(12345.5)));
        assert_eq!(last_number("columns 6,7,8"), Ok(Some(8.0)));
        assert_eq!(last_number("8 threads: 1,5"), Err("1,5".to_owned()));
        assert_eq!(last_number("4,1234"), Err("4,1234".to_owned()));
        assert_eq!(last_number("4,1520.7"), Ok(Some(1520.7)));
        assert_eq!(last_number("a,5"), Ok(Some(5.0)));
        assert_eq!(last_number("got 12"), Ok(Some(12.0)));
        assert_eq!(last_number("took 12.5ms."), Ok(None));
        assert_eq!(last_number("1.2M and v1.2.3 and nan"), Ok(None));
        assert_eq!(last_number("p99 of mmap1"), Ok(None));
        assert_eq!(last_number("- . + e5"), Ok(None));
        assert_eq!(last_number(""), Ok(None));
    }

    #[test]
    fn the_number_in_the_last_match_is_the_rate() {
        let pgbench = "latency average = 0.083 ms\ntps = 12044.5 (without connections)\n";
        assert_eq!(last_match(pgbench, "tps = #"), Some(12044.5));
        assert_eq!(last_match(pgbench, "average = # ms"), Some(0.083));
        assert_eq!(last_match("Requests/sec:   1,234.5\n99% 3\n", "Requests/sec: #"), Some(1234.5));
        assert_eq!(last_match("a 1 op/s\na 2 op/s\n", "# op/s"), Some(2.0));
        assert_eq!(last_match("a12 op/s", "# op/s"), None);
        assert_eq!(last_match("rate=1.2M", "rate=#"), None);
        assert_eq!(last_match("rate=1.2M", "rate=#M"), Some(1.2));
        assert_eq!(last_match("rate=12", "rate=#2"), Some(1.0));
        assert_eq!(last_match("rate=nan", "rate=#"), None);
        assert_eq!(last_match("rate 12.", "rate #"), Some(12.0));
        assert_eq!(last_match("", "#"), None);
    }

    #[test]
    fn a_number_has_at_most_forty_characters_so_that_a_match_is_found_soon() {
        let long = |digits: usize| last_match(&format!("{}/s", "1".repeat(digits)), "#/s");
        assert!(long(LONGEST_NUMBER).is_some() && long(LONGEST_NUMBER + 1).is_none());
        // With a number of any length, this would take hours.
        for output in
            ["1,".repeat(1 << 15), "1".repeat(1 << 16), format!("1{}x", ",".repeat(1 << 16))]
        {
            for pattern in ["#x", "#/s", "tps = #"] {
                assert_eq!(last_match(&output, pattern), None);
            }
            let _ = last_match(&output, "#");
        }
    }

    #[test]
    fn a_pattern_that_does_not_match_is_reported_with_the_last_line() {
        let failure = printed(b"ready\n12 req\n", "./bench", Some("tps = #")).unwrap_err();
        let reason = "./bench printed no text that matches \"tps = #\"; its last line: \"12 req\"";
        assert_eq!(failure.reason, reason);
        let failure = printed(b"tps = 12.5k\n", "./bench", Some("tps = #")).unwrap_err();
        let reason = "./bench printed \"12.5k\" in place of the #, which is not a plain number";
        assert_eq!(failure.reason, reason);
        let failure = printed(b"tps = 12 ops\n", "./bench", Some("tps = # kops")).unwrap_err();
        assert!(failure.reason.ends_with("its last line: \"tps = 12 ops\""), "{failure:?}");
        let failure = printed(b"", "./bench", Some("tps = #")).unwrap_err();
        assert!(failure.reason.ends_with("it printed nothing"), "{failure:?}");
    }

    #[test]
    fn a_rate_too_large_for_a_record_is_rejected() {
        assert_eq!(printed(b"1e9\n", "x", None).unwrap(), 1e9);
        for rate in ["0", "-3", "1e40", "1e999"] {
            let failure = printed(rate.as_bytes(), "x", None).unwrap_err();
            assert!(failure.reason.ends_with("which is not a valid rate"), "{failure:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_output_makes_it_panic(text: String, pattern: String) {
            let _ = last_number(&text);
            let _ = last_match(&text, &pattern);
        }

        #[test]
        fn a_printed_number_is_found_between_its_texts(
            before in "[a-z ]{1,8}[=:]", after in "( [a-z/]{1,8})?", rate in 0.001..1e12_f64,
        ) {
            let text = format!("{before} {rate}{after}\n");
            proptest::prop_assert_eq!(last_match(&text, &format!("{before} #{after}")), Some(rate));
        }
    }
}
