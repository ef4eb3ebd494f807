//! What is sent.

use knee_host::suggest::{in_braces, is_misspelt};
use oorandom::Rand64;

use crate::reply::Reply;
use crate::text::{TextError, bytes};

/// A request, and what makes its reply complete and correct.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    parts: Vec<Part>,
    /// The expected reply.
    pub reply: Reply,
    /// How often the request is chosen, relative to the others.
    pub weight: u32,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Bytes(Vec<u8>),
    /// A decimal number, at random from 0 to one less than this.
    Random(u64),
    /// The decimal number of the request.
    Number,
}

impl Request {
    /// A request of weight 1 with this text. In it, `\r`, `\n`, `\t`, `\0`, `\\` and `\xHH` are single
    /// bytes, and `{random:N}` is a number from 0 to N-1 that differs from request to request.
    /// `{number}` is the number of the request, from 0.
    ///
    /// # Errors
    /// Another sequence follows a backslash, N is not a number above 0, or a placeholder is misspelt.
    pub fn new(text: &str, reply: Reply) -> Result<Self, TextError> {
        if let Some(sequence) = misspelt(text) {
            return Err(TextError { sequence: sequence.to_owned() });
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(RANDOM) {
            add_text(before, &mut parts)?;
            let end = after.find('}').map_or(after.len(), |at| at + 1);
            let (number, after) = after.split_at(end);
            let limit = number.strip_suffix('}').and_then(|digits| digits.parse().ok());
            let limit = limit.filter(|&limit| limit > 0);
            let unknown = || TextError { sequence: format!("{RANDOM}{number}") };
            parts.push(Part::Random(limit.ok_or_else(unknown)?));
            rest = after;
        }
        add_text(rest, &mut parts)?;
        Ok(Self { parts, reply, weight: 1 })
    }

    /// Writes the bytes of request number `number` into `out`.
    pub(crate) fn write(&self, number: u64, random: &mut Rand64, out: &mut Vec<u8>) {
        use std::io::Write;
        out.clear();
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::Random(limit) => {
                    write!(out, "{}", random.rand_range(0..*limit)).expect("a vector takes all");
                }
                Part::Number => write!(out, "{number}").expect("a vector takes all"),
            }
        }
    }
}

const RANDOM: &str = "{random:";
const NUMBER: &str = "{number}";
/// The bytes of the longest placeholder.
const LONGEST: usize = "{random:18446744073709551615}".len();

/// A word in braces whose name differs from that of a placeholder by one letter or by two swapped ones, or that lacks
/// the limit of a random number. Other braces belong to the protocol.
fn misspelt(text: &str) -> Option<&str> {
    let mut words = in_braces(text, LONGEST + 1).map(|(_, word)| word);
    words.find(|word| {
        let name = word[1..word.len() - 1].split(':').next().unwrap_or_default();
        *word == "{random}" || is_misspelt(name, "random") || is_misspelt(name, "number")
    })
}

/// Adds the parts of a text without random numbers.
fn add_text(text: &str, parts: &mut Vec<Part>) -> Result<(), TextError> {
    for (nr, text) in text.split(NUMBER).enumerate() {
        if nr > 0 {
            parts.push(Part::Number);
        }
        parts.push(Part::Bytes(bytes(text)?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::End;

    fn request(text: &str) -> Result<Request, TextError> {
        Request::new(text, Reply::new("", End::Bytes(1)).unwrap())
    }

    #[test]
    fn random_numbers_are_below_their_limit_and_differ() {
        let request = request(r"get k{random:3} {random:1}\r\n").unwrap();
        let mut random = Rand64::new(1);
        let mut seen: Vec<String> = (0..100)
            .map(|_| {
                let mut out = Vec::new();
                request.write(0, &mut random, &mut out);
                String::from_utf8(out).unwrap()
            })
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, ["get k0 0\r\n", "get k1 0\r\n", "get k2 0\r\n"]);
    }

    #[test]
    fn a_request_can_contain_its_number() {
        let mut out = Vec::new();
        let request = request(r"set k{number} {random:1}{number}\r\n").unwrap();
        request.write(12, &mut Rand64::new(1), &mut out);
        assert_eq!(out, b"set k12 012\r\n");
    }

    #[test]
    fn a_placeholder_without_a_limit_is_refused() {
        for text in ["{random:}", "{random:0}", "{random:x}", "{random:9", "{random}"] {
            assert_eq!(request(text).unwrap_err().sequence, text);
        }
    }

    #[test]
    fn a_misspelt_placeholder_is_refused_and_other_braces_are_text() {
        for word in ["{nubmer}", "{numbers}", "{radom:9}", "{randon:100}"] {
            assert_eq!(request(&format!("get k{word} {{x}}")).unwrap_err().sequence, word);
        }
        for text in [
            r#"{"a": {}}"#,
            r#"{"number": 1}"#,
            "{num}",
            r"\x7bnumbers}",
            "{",
            "{ü}",
            "{random:7}{number}",
        ] {
            assert!(request(text).is_ok(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = request(&text);
        }
    }
}
