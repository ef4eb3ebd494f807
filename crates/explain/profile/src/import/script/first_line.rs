//! The first line of a sample: whose it is, when, and of which event.

/// The first line of a sample.
#[derive(Debug, PartialEq)]
pub(super) struct FirstLine<'a> {
    pub(super) program: &'a [u8],
    pub(super) time: Option<f64>,
    pub(super) period: Option<u64>,
    pub(super) event: &'a [u8],
    /// What follows the event: a stack of one function, or the fields of a tracepoint.
    pub(super) rest: &'a [u8],
}

impl<'a> FirstLine<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Option<FirstLine<'a>> {
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
        if rest.starts_with(b"PERF_RECORD_") {
            return Some(FirstLine { program, time, period: None, event: rest, rest: b"" });
        }
        let mut period = None;
        if let Some((word, after)) = split_word(rest)
            && let Some(number) = parse_number(word)
        {
            period = Some(number);
            rest = after;
        }
        let (event, after) = split_word(rest)?;
        let event = event.strip_suffix(b":").filter(|event| !event.is_empty())?;
        Some(FirstLine { program, time, period, event, rest: after })
    }
}

/// The program's name, and what follows the number of its process or thread.
fn split_process(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut first = None;
    let mut at = 0;
    while let Some(found) = line[at..].iter().position(|byte| *byte != b' ') {
        let begin = at + found;
        let end = line[begin..].iter().position(|byte| *byte == b' ');
        let Some(end) = end.map(|length| begin + length) else { break };
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

/// `12`, `12/13`, or `-1` where perf does not know.
fn is_process(word: &[u8]) -> bool {
    let is_number = |text: &[u8]| {
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
    };
    word.split(|byte| *byte == b'/').all(is_number)
}

fn is_cpu(word: &[u8]) -> bool {
    let number = word.strip_prefix(b"[").and_then(|word| word.strip_suffix(b"]"));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// Seconds of `1325.548184:`.
fn parse_time(word: &[u8]) -> Option<f64> {
    let digits = word.strip_suffix(b":")?;
    let is_time =
        digits.contains(&b'.') && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    is_time.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

fn parse_number(word: &[u8]) -> Option<u64> {
    let is_number = word.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(word).ok()?.parse().ok()).flatten()
}

/// The first word, and what follows the spaces after it.
fn split_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    (end > 0).then(|| (&text[..end], text[end..].trim_ascii_start()))
}
