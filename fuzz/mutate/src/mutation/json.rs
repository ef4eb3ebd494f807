//! Mutations of one value of a JSON document, or of one line of JSON. The rest stays valid.

use std::ops::Range;

use serde_json::{Map, Value, json};

use crate::random::Random;

const LONG: usize = 5000;
const MOST_COPIES: usize = 50;
/// Deeper than any document of knee.
const DEEP: usize = 100;

/// What may follow a name: markup, control characters, parts of other names.
const ENDS: [&str; 8] =
    ["", "1", "@file=same", " ", "<b>&'\"", "\u{1b}[31m", "\u{202e}", "\n\u{0}"];

/// Replaces one value by another: a limit, another type, or another value of the document.
pub(super) fn replace_value(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    change(text, random, |document, random| {
        let copy = any_of(document, random).clone();
        let value = any_of(document, random);
        *value = match &*value {
            Value::Number(number) if random.one_in(2) => near(number.as_f64(), random),
            _ if random.one_in(4) => copy,
            _ => any(random),
        };
    });
}

/// Replaces one value by another of the same type, which the reader of a strict format accepts more often.
pub(super) fn replace_alike(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    change(text, random, |document, random| {
        let copy = any_of(document, random).clone();
        let value = any_of(document, random);
        *value = match &*value {
            Value::Null => any(random),
            Value::Bool(flag) => json!(!flag),
            Value::Number(number) => near(number.as_f64(), random),
            Value::String(_) if copy.is_string() => copy,
            Value::String(text) => json!(format!("{text}{}", random.pick(&ENDS))),
            Value::Array(elements) => {
                let part = &elements[random.below(elements.len() + 1)..];
                Value::Array(vec![part.to_vec(); 1 + random.below(3)].concat())
            }
            Value::Object(_) if copy.is_object() => copy,
            Value::Object(members) => Value::Object(members.clone()),
        };
    });
}

/// Removes, renames or adds a member of an object, or removes or repeats an element of a list.
pub(super) fn change_shape(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    change(text, random, |document, random| {
        let places: Vec<usize> =
            (0..count(document)).filter(|nr| has_members(nth(document, *nr))).collect();
        if places.is_empty() {
            return;
        }
        match nth(document, *random.pick(&places)) {
            Value::Object(members) => change_members(members, random),
            Value::Array(elements) => {
                let at = random.below(elements.len());
                if random.one_in(3) {
                    elements.remove(at);
                } else {
                    let copies = vec![elements[at].clone(); 1 + random.below(MOST_COPIES)];
                    elements.splice(at..at, copies);
                }
            }
            _ => {}
        }
    });
}

fn change_members(members: &mut Map<String, Value>, random: &mut Random) {
    let names: Vec<String> = members.keys().cloned().collect();
    let name = random.pick(&names);
    match random.below(3) {
        0 => {
            members.remove(name);
        }
        1 => {
            let value = members.remove(name).unwrap_or_default();
            members.insert(format!("{name}_"), value);
        }
        _ => {
            members.insert("another".to_owned(), any(random));
        }
    }
}

/// Changes the document, or one line if every line is a document of its own.
fn change(text: &mut Vec<u8>, random: &mut Random, change: fn(&mut Value, &mut Random)) {
    let Some((place, mut document)) = document(text, random) else { return };
    change(&mut document, random);
    let new = serde_json::to_vec(&document).expect("the keys of JSON are strings");
    text.splice(place, new);
}

fn document(text: &[u8], random: &mut Random) -> Option<(Range<usize>, Value)> {
    if !text.trim_ascii_start().starts_with(b"{") && !text.trim_ascii_start().starts_with(b"[") {
        return None;
    }
    if let Ok(document) = serde_json::from_slice(text) {
        return Some((0..text.len(), document));
    }
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let nr = random.below(lines.len());
    let start = lines[..nr].iter().map(|line| line.len() + 1).sum();
    Some((start..start + lines[nr].len(), serde_json::from_slice(lines[nr]).ok()?))
}

fn has_members(value: &Value) -> bool {
    match value {
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    }
}

/// How many values a document has, with itself.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(elements) => elements.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Any value of a document, or the document itself.
fn any_of<'d>(document: &'d mut Value, random: &mut Random) -> &'d mut Value {
    let values = count(document);
    nth(document, random.below(values))
}

/// Value `nr` of a document, in the order of the text. Value 0 is the document.
fn nth(value: &mut Value, nr: usize) -> &mut Value {
    let Some(mut left) = nr.checked_sub(1) else { return value };
    let inner: Vec<&mut Value> = match value {
        Value::Array(elements) => elements.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        _ => Vec::new(),
    };
    for inner in inner {
        let all = count(inner);
        if left < all {
            return nth(inner, left);
        }
        left -= all;
    }
    unreachable!("the document has fewer values")
}

/// A number near another one, as an integer if that is exact.
fn near(number: Option<f64>, random: &mut Random) -> Value {
    let number = number.unwrap_or_default();
    let new = match random.below(8) {
        0 => number + 1.0,
        1 => number - 1.0,
        2 => -number,
        3 => number * 2.0,
        4 => number * 1e-6,
        5 => number * 1e9,
        6 => 0.0,
        _ => *random.pick(&[1e15, 1e300, f64::from(u32::MAX), u64::MAX as f64, 1e-300]),
    };
    match new {
        new if new.fract() != 0.0 || new.abs() >= 1e20 => json!(new),
        new if new < 0.0 => json!(new as i64),
        new => json!(new as u64),
    }
}

fn any(random: &mut Random) -> Value {
    match random.below(24) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(false),
        3 => json!(0),
        4 => json!(-1),
        5 => json!(1),
        6 => json!(u64::from(u32::MAX)),
        7 => json!(1_u64 << 32),
        8 => json!(i64::MAX),
        9 => json!(i64::MIN),
        10 => json!(u64::MAX),
        11 => json!(1e308),
        12 => json!(-1e308),
        13 => json!(5e-324),
        14 => json!(0.1),
        15 => json!(""),
        16 => json!("1"),
        17 => json!("\u{1b}]0;x\u{7}\u{202e}\u{0}"),
        18 => json!("<b>&'\"</script>"),
        19 => json!("x".repeat(LONG)),
        20 => json!([]),
        21 => json!({}),
        22 => json!(vec![random.below(10); MOST_COPIES]),
        _ => (0..DEEP).fold(Value::Null, |inner, _| Value::Array(vec![inner])),
    }
}
