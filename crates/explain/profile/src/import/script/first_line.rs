//! The first line of a sample: its process, time and event.

/// The first line of a sample.
#[derive(Debug, PartialEq)]
pub(super) struct FirstLine<'a> {
    pub(super) program: &'a str,
    pub(super) time: Option<f64>,
    pub(super) period: Option<u64>,
    pub(super) event: &'a str,
    /// The text after the event: a stack of one function, or the fields of a tracepoint.
    pub(super) rest: &'a str,
}

impl<'a> FirstLine<'a> {
    pub(super) fn parse(line: &'a str) -> Option<FirstLine<'a>> {
        let (program, mut rest) = split_process(line)?;
        let mut time = None;
        while let Some((word, after)) = split_word(rest) {
            if let Some(found) = parse_time(word) {
                time = Some(found);
                rest = after;
                break;
            }
            if !is_cpu(word) {
                break;
            }
            rest = after;
        }
        if rest.starts_with("PERF_RECORD_") {
            return Some(FirstLine { program, time, period: None, event: rest, rest: "" });
        }
        let mut period = None;
        if let Some((word, after)) = split_word(rest)
            && let Ok(number) = word.parse()
        {
            period = Some(number);
            rest = after;
        }
        let (event, after) = split_word(rest)?;
        let event = event.strip_suffix(':').filter(|event| !event.is_empty())?;
        Some(FirstLine { program, time, period, event, rest: after })
    }
}

/// The program's name, and the text after its process or thread ID.
fn split_process(line: &str) -> Option<(&str, &str)> {
    let mut first = None;
    let mut at = 0;
    while let Some(found) = line[at..].find(|c| c != ' ') {
        let begin = at + found;
        let Some(length) = line[begin..].find(' ') else { break };
        let end = begin + length;
        if begin > 0 && is_process(&line[begin..end]) {
            let rest = line[end..].trim_ascii_start();
            let split = (line[..begin].trim_ascii(), rest);
            let (next, _) = split_word(rest)?;
            if is_cpu(next) || parse_time(next).is_some() {
                return Some(split);
            }
            first.get_or_insert(split);
        }
        at = end;
    }
    first
}

/// `12`, `12/13`, or `-1` if perf does not know the process.
fn is_process(word: &str) -> bool {
    word.split('/').all(|number| is_digits(number.strip_prefix('-').unwrap_or(number)))
}

fn is_cpu(word: &str) -> bool {
    word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).is_some_and(is_digits)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Seconds of `1325.548184:`.
fn parse_time(word: &str) -> Option<f64> {
    let seconds = word.strip_suffix(':')?;
    let (whole, part) = seconds.split_once('.')?;
    (is_digits(whole) && is_digits(part)).then(|| seconds.parse().ok()).flatten()
}

/// The first word, and the text after the spaces that follow it.
fn split_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_ascii_start();
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (!word.is_empty()).then(|| (word, rest.trim_ascii_start()))
}
