//! Text for a terminal whose character set is not Unicode.

use std::borrow::Cow;

/// What stands for each character that knee prints and ASCII lacks.
const ASCII: [(char, &str); 37] = [
    ('×', "x"),
    ('±', "+-"),
    ('−', "-"),
    ('–', "-"),
    ('—', "--"),
    ('…', "..."),
    ('·', "|"),
    ('µ', "u"),
    ('√', "sqrt"),
    ('²', "2"),
    ('³', "3"),
    ('≤', "<="),
    ('≥', ">="),
    ('≠', "!="),
    ('→', "->"),
    ('←', "<-"),
    ('▲', "^"),
    ('▼', "v"),
    ('◐', "o"),
    ('●', "*"),
    ('○', "."),
    ('λ', "lambda"),
    ('σ', "sigma"),
    ('κ', "kappa"),
    ('─', "-"),
    ('■', "#"),
    ('└', "`"),
    ('┘', "'"),
    // A sparkline becomes its heights.
    ('▁', "1"),
    ('▂', "2"),
    ('▃', "3"),
    ('▄', "4"),
    ('▅', "5"),
    ('▆', "6"),
    ('▇', "7"),
    ('█', "8"),
    ('▌', "|"),
];

/// Replaces the symbols that knee prints by ASCII. Other characters, such as those of a file name,
/// stay as they are.
pub fn to_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let mut ascii = String::with_capacity(text.len());
    for character in text.chars() {
        match ASCII.iter().find(|(from, _)| *from == character) {
            Some((_, to)) => ascii.push_str(to),
            None => ascii.push(character),
        }
    }
    ascii.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_become_ascii_and_names_stay() {
        assert_eq!(to_ascii("mmap1 threads ×2  3.1 µs ± 2%"), "mmap1 threads x2  3.1 us +- 2%");
        assert_eq!(to_ascii("Größe.json"), "Größe.json");
        assert!(ASCII.iter().all(|(_, to)| to.is_ascii()));
    }
}
