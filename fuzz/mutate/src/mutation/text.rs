//! Mutations of text: lines, numbers and words.

use std::ops::Range;

use crate::random::Random;

const MOST_COPIES: usize = 50;

/// Numbers at the limits of types and of formats.
const NUMBERS: [&str; 26] = [
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "255",
    "256",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "0.1",
    "1e308",
    "1e999",
    "-1e999",
    "5e-324",
    "NaN",
    "inf",
    "0x10",
    "1_000",
];

/// Factors that leave a number plausible, and some that do not.
const FACTORS: [f64; 9] = [-1.0, 0.0, 0.5, 0.999, 1.001, 2.0, 10.0, 1e-6, 1e9];

pub(super) fn swap_lines(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    if lines.len() >= 2 {
        let (a, b) = (random.below(lines.len()), random.below(lines.len()));
        lines.swap(a, b);
        *text = lines.concat();
    }
}

pub(super) fn delete_line(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if let Some(line) = line(text, random) {
        text.drain(line);
    }
}

pub(super) fn repeat_line(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if let Some(line) = line(text, random) {
        let copies = text[line.clone()].repeat(1 + random.below(MOST_COPIES));
        text.splice(line.end..line.end, copies);
    }
}

/// Inserts a line of another input.
pub(super) fn insert_line(text: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = line(text, random).map_or(0, |line| line.start);
    if let Some(line) = line(other, random) {
        text.splice(at..at, other[line].iter().copied());
    }
}

/// Replaces a number by a limit of its type, or by a multiple of the number.
pub(super) fn replace_number(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let Some(place) = token(text, u8::is_ascii_digit, is_part, random) else { return };
    let digits = std::str::from_utf8(&text[place.clone()]);
    let number: Option<f64> = digits.ok().and_then(|digits| digits.parse().ok());
    let new = match number {
        Some(number) if random.one_in(2) => (number * random.pick(&FACTORS)).to_string(),
        _ => (*random.pick(&NUMBERS)).to_owned(),
    };
    text.splice(place, new.into_bytes());
}

/// Replaces a word by one of this or another input, or by nothing.
pub(super) fn replace_word(text: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let Some(place) = word(text, random) else { return };
    let new = match (word(other, random), word(text, random)) {
        (Some(word), _) if random.one_in(2) => other[word].to_vec(),
        (_, Some(word)) if !random.one_in(8) => text[word].to_vec(),
        _ => Vec::new(),
    };
    text.splice(place, new);
}

fn word(text: &[u8], random: &mut Random) -> Option<Range<usize>> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    token(text, u8::is_ascii_alphabetic, is_part, random)
}

/// The place of a line, with its end.
fn line(text: &[u8], random: &mut Random) -> Option<Range<usize>> {
    let ends = |byte: &u8| *byte == b'\n';
    let within = (!text.is_empty()).then(|| random.below(text.len()))?;
    let start = text[..within].iter().rposition(ends).map_or(0, |at| at + 1);
    let end = text[within..].iter().position(ends).map_or(text.len(), |at| within + at + 1);
    Some(start..end)
}

/// The place of a token near a random place: it contains a byte for which `is_first` holds.
fn token(
    text: &[u8],
    is_first: fn(&u8) -> bool,
    is_part: impl Fn(u8) -> bool,
    random: &mut Random,
) -> Option<Range<usize>> {
    let from = (!text.is_empty()).then(|| random.below(text.len()))?;
    let after = text[from..].iter().position(is_first).map(|at| from + at);
    let found = after.or_else(|| text[..from].iter().position(is_first))?;
    let start = text[..found].iter().rposition(|byte| !is_part(*byte)).map_or(0, |at| at + 1);
    let end = text[found..].iter().position(|byte| !is_part(*byte));
    Some(start..end.map_or(text.len(), |at| found + at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_before_and_after_the_random_place() {
        for run in 0..50 {
            let mut random = Random::of_run(1, run);
            let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.';
            let place = token(b"rate: 12.5 ops", u8::is_ascii_digit, is_part, &mut random);
            assert_eq!(place, Some(6..10));
            assert_eq!(token(b"none", u8::is_ascii_digit, is_part, &mut random), None);
        }
    }

    #[test]
    fn a_line_includes_its_end() {
        let lines: std::collections::BTreeSet<_> = (0..50)
            .filter_map(|run| line(b"a\nbc", &mut Random::of_run(1, run)))
            .map(|line| (line.start, line.end))
            .collect();
        assert_eq!(lines.into_iter().collect::<Vec<_>>(), [(0, 2), (2, 4)]);
    }
}
