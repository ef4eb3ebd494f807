//! Reads a column of numbers from a text.

use super::number::{self, WHITE_SPACE};
use crate::grouped::ungrouped;

/// Reads one field of each line as a number.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    /// The field that holds the number, counted from 1. Lines with fewer fields hold none.
    pub column: usize,
    /// Bytes that separate fields; several in a row are one separator. A field that begins with `#`
    /// starts a comment up to the end of the line.
    pub delimiters: &'a [u8],
    /// Longer lines, counting the line feed, are split at this length, because ministat reads lines
    /// into a buffer of fixed size; `None` for no limit.
    pub longest_line: Option<usize>,
    /// Whether `1,234` is a number, unless the comma is a delimiter. ministat refuses it.
    pub takes_groups: bool,
}

/// A number and its line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// The line, counted from 1.
    pub line: usize,
    /// The number; may be infinite or NaN.
    pub number: f64,
}

/// Why the numbers of a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A field that is not a number.
    #[error("line {line}: {text:?} is not a number")]
    BadNumber {
        /// The line, counted from 1.
        line: usize,
        /// The field.
        text: String,
    },
    /// There are more numbers than [`Reader::MAX_VALUES`].
    #[error(
        "it has more than {} numbers; compare a sample of them, such as every tenth line",
        Reader::MAX_VALUES
    )]
    TooMany,
}

impl Reader<'_> {
    /// The maximum length of a line that ministat reads at once, in bytes.
    pub const MINISTAT_BUFFER: usize = 8191;

    /// The maximum count of numbers. A comparison takes up to 40 bytes of memory for each, and more numbers would
    /// hardly narrow its interval.
    pub const MAX_VALUES: usize = 10_000_000;

    /// The numbers of `text`, line by line.
    ///
    /// # Errors
    /// A field is not a number, or there are too many numbers.
    ///
    /// # Panics
    /// If the column or the longest line is 0.
    pub fn values(&self, text: &[u8]) -> Result<Vec<Value>, ReadError> {
        self.up_to(Self::MAX_VALUES, text)
    }

    fn up_to(&self, max_values: usize, text: &[u8]) -> Result<Vec<Value>, ReadError> {
        let skipped = self.column.checked_sub(1).expect("columns are counted from 1");
        let mut values = Vec::new();
        let limit = self.longest_line.unwrap_or(usize::MAX);
        let lines = (1..).zip(text.split_inclusive(|&b| b == b'\n'));
        let pieces = lines.flat_map(|(n, line)| line.chunks(limit).map(move |piece| (n, piece)));
        for (line, piece) in pieces {
            let Some(field) = self.fields(piece).nth(skipped) else { continue };
            let Some(number) = number::parse(field).or_else(|| self.grouped(field)) else {
                let text = String::from_utf8_lossy(field).into_owned();
                return Err(ReadError::BadNumber { line, text });
            };
            if values.len() == max_values {
                return Err(ReadError::TooMany);
            }
            values.push(Value { line, number });
        }
        Ok(values)
    }

    /// A number with commas between its groups of digits, if the caller allows it.
    fn grouped(&self, field: &[u8]) -> Option<f64> {
        let field = std::str::from_utf8(field).ok().filter(|_| self.takes_groups)?;
        number::parse(ungrouped(field)?.as_bytes())
    }

    /// The fields of a line, up to a comment or a NUL. White space at the end of the line is not
    /// part of a field, even if it is not a delimiter.
    fn fields<'t>(&self, line: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
        let end = line.iter().position(|&b| b == 0).unwrap_or(line.len());
        let last = line[..end].iter().rposition(|b| !WHITE_SPACE.contains(b));
        line[..last.map_or(0, |last| last + 1)]
            .split(|b| self.delimiters.contains(b))
            .filter(|field| !field.is_empty())
            .take_while(|field| field[0] != b'#')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLANKS: Reader<'_> =
        Reader { column: 1, delimiters: b" \t", longest_line: None, takes_groups: false };

    fn numbers(reader: Reader<'_>, text: &[u8]) -> Vec<f64> {
        reader.values(text).unwrap().iter().map(|v| v.number).collect()
    }

    #[test]
    fn blank_lines_and_comments_hold_no_number() {
        let text = b"# head\n\n 1\t# one\n#2\n  \n3 three\n4";
        assert_eq!(numbers(BLANKS, text), [1.0, 3.0, 4.0]);
        assert_eq!(BLANKS.values(text).unwrap()[2], Value { line: 7, number: 4.0 });
    }

    #[test]
    fn a_column_is_found_between_any_number_of_delimiters() {
        let reader = Reader { column: 2, delimiters: b",;", ..BLANKS };
        assert_eq!(numbers(reader, b"a,1\n;b,;, 2\nc\nd,#,3\ne;4,f"), [1.0, 2.0, 4.0]);
    }

    #[test]
    fn a_field_that_is_not_a_number_is_reported() {
        let error = BLANKS.values(b"1\n2\n3x\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3: \"3x\" is not a number");
    }

    #[test]
    fn more_numbers_than_the_limit_are_refused() {
        assert_eq!(BLANKS.up_to(3, b"1\n2\n3\n").unwrap().len(), 3);
        let error = BLANKS.up_to(3, b"1\n2\n3\n\n4\n").unwrap_err();
        assert_eq!(error, ReadError::TooMany);
        assert!(error.to_string().starts_with("it has more than 10000000 numbers; "), "{error}");
    }

    #[test]
    fn commas_between_groups_of_digits_are_accepted_only_if_asked() {
        let refused = ReadError::BadNumber { line: 1, text: "1,234".to_owned() };
        assert_eq!(BLANKS.values(b"1,234\n").unwrap_err(), refused);
        let grouped = Reader { takes_groups: true, ..BLANKS };
        assert_eq!(numbers(grouped, b"1,234\n-1,234,567.5\n12"), [1234.0, -1234567.5, 12.0]);
        assert!(grouped.values(b"12,34\n").is_err());
        let in_columns = Reader { delimiters: b",", ..grouped };
        assert_eq!(numbers(in_columns, b"1,234\n"), [1.0]);
    }

    #[test]
    fn lines_may_end_as_on_windows() {
        let reader = Reader { delimiters: b",", ..BLANKS };
        assert_eq!(numbers(reader, b"1\r\n2 \t\r\n\r\n"), [1.0, 2.0]);
    }

    #[test]
    fn long_lines_are_broken_only_if_asked() {
        let broken = Reader { longest_line: Some(4), ..BLANKS };
        assert_eq!(numbers(broken, b"123456 7\n8\n"), [1234.0, 56.0, 8.0]);
        let error = broken.values(b"1234567\nx\n").unwrap_err();
        assert_eq!(error, ReadError::BadNumber { line: 2, text: "x".to_owned() });
        assert_eq!(numbers(BLANKS, b"123456 7\n8\n"), [123_456.0, 8.0]);
    }

    #[test]
    fn a_nul_ends_a_line() {
        assert_eq!(numbers(BLANKS, b"1\x002\n\x003\n4\n"), [1.0, 4.0]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            text in prop::collection::vec(any::<u8>(), 0..300),
            delimiters in prop::collection::vec(any::<u8>(), 1..4),
            column in 1usize..5,
            longest_line in prop::option::of(1usize..20),
        ) {
            let reader = Reader { column, delimiters: &delimiters, longest_line, takes_groups: true };
            let _ = reader.values(&text);
        }

        #[test]
        fn no_table_makes_it_panic(text in "([0-9.eExXpP#, \t\0-]{0,6}\r?\n){0,20}", column in 1usize..4) {
            let delimiters = b", \t";
            let reader = Reader { column, delimiters, longest_line: Some(8), takes_groups: true };
            let _ = reader.values(text.as_bytes());
        }
    }
}
