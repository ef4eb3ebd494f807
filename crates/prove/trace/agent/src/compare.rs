//! Compares the result of a call with the result that the model allows. In the model's result,
//! names stand for inodes, contents and addresses.

use knee_harness::Names;
use knee_operations::page_at;
use knee_plan::{Returned, content};
use serde_json::Value;

use crate::arguments::{datum_nr, name_nr};

/// Returns whether a call that `process` made returned the expected result.
pub(crate) fn agrees<'t>(
    names: &mut Names<'t>,
    expected: &'t Value,
    returned: Returned,
    process: u8,
) -> bool {
    let field = |name: &str| &expected[name];
    match returned {
        Returned::Done => *field("result") == "0",
        Returned::Error(_) | Returned::Signal(_) | Returned::End | Returned::APipe => {
            field("result").as_str() == Some(returned.to_string().as_str())
        }
        Returned::Number(n) => is_number(field("result"), n),
        Returned::Page(byte) => is_page(field("result"), byte),
        Returned::Status { inode, pages, links } => {
            is_named(names, field("ino"), inode)
                && is_number(field("size"), pages)
                && is_number(field("nlink"), links as i64)
        }
        Returned::Ends([read, write]) => {
            is_number(field("read end"), read.into()) && is_number(field("write end"), write.into())
        }
        Returned::Address(at) => match field("result").get("name").and_then(Value::as_str) {
            Some(va) => name_nr(va).is_ok_and(|nr| page_at(nr) == at),
            // The same address in two processes counts as two addresses.
            None => is_named(names, field("result"), at as u64 + u64::from(process)),
        },
        Returned::Nothing | Returned::Odd(_) => false,
    }
}

fn is_named<'t>(names: &mut Names<'t>, expected: &'t Value, value: u64) -> bool {
    let name = expected.get("name").or_else(|| expected.get("any")).and_then(Value::as_str);
    name.is_some_and(|name| names.agree(name, value))
}

fn is_page(expected: &Value, byte: u8) -> bool {
    let name = expected.get("name").and_then(Value::as_str);
    name.and_then(|name| datum_nr(name).ok()).is_some_and(|datum| content(datum) == byte)
}

/// Returns whether `n` is the expected number. If the model leaves the number open, any number that is not
/// negative is accepted.
fn is_number(expected: &Value, n: i64) -> bool {
    expected.as_i64() == Some(n) || (expected["any"].is_string() && n >= 0)
}
