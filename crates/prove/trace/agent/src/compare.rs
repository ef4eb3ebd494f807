//! Whether what a call returned is what the model says. Names of the model stand for inodes,
//! contents and addresses; each for one, and no two for the same.

use std::collections::HashMap;

use serde_json::Value;

use crate::arguments::{datum_nr, name_nr};
use crate::layout::{content, page_at};
use crate::returned::Returned;

/// What names stand for, as far as that has been seen.
#[derive(Debug, Default)]
pub(crate) struct Meaning(HashMap<String, u64>);

impl Meaning {
    /// Whether `name` stands for `thing`; from now on it does, if neither has been seen.
    fn agrees(&mut self, name: &str, thing: u64) -> bool {
        // Kinds do not meet: an inode may have the number of an address.
        let kind = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        let same_kind = |other: &str| kind(other) == kind(name);
        match self.0.get(name) {
            Some(known) => *known == thing,
            None if self.0.iter().any(|(other, known)| *known == thing && same_kind(other)) => {
                false
            }
            None => {
                self.0.insert(name.to_owned(), thing);
                true
            }
        }
    }

    /// Says what a name stands for.
    pub(crate) fn learn(&mut self, name: &str, thing: u64) {
        self.0.insert(name.to_owned(), thing);
    }

    /// Whether a call that was made in `process` returned what `expected` says.
    pub(crate) fn is(&mut self, expected: &Value, returned: Returned, process: u8) -> bool {
        let field = |name: &str| &expected[name];
        match returned {
            Returned::Done => *field("result") == "0",
            Returned::Error(_) | Returned::Signal(_) | Returned::End | Returned::APipe => {
                field("result").as_str() == Some(returned.show().as_str())
            }
            Returned::Number(n) => is_number(field("result"), n),
            Returned::Page(byte) => is_page(field("result"), byte),
            Returned::Status { inode, pages, links } => {
                self.is_named(field("ino"), inode)
                    && is_number(field("size"), pages)
                    && is_number(field("nlink"), links as i64)
            }
            Returned::Ends([read, write]) => {
                is_number(field("read end"), read.into())
                    && is_number(field("write end"), write.into())
            }
            Returned::Address(at) => match field("result").get("name").and_then(Value::as_str) {
                Some(va) => name_nr(va).is_ok_and(|nr| page_at(nr) == at),
                // One address is two in two processes.
                None => self.is_named(field("result"), at as u64 + u64::from(process)),
            },
            Returned::Nothing | Returned::Odd(_) => false,
        }
    }

    fn is_named(&mut self, expected: &Value, thing: u64) -> bool {
        let name = expected.get("name").or_else(|| expected.get("any")).and_then(Value::as_str);
        name.is_some_and(|name| self.agrees(name, thing))
    }
}

fn is_page(expected: &Value, byte: u8) -> bool {
    let name = expected.get("name").and_then(Value::as_str);
    name.and_then(|name| datum_nr(name).ok()).is_some_and(|datum| content(datum) == byte)
}

/// A number, or any number that nothing else is.
fn is_number(expected: &Value, n: i64) -> bool {
    expected.as_i64() == Some(n) || (expected["any"].is_string() && n >= 0)
}
