//! JSON text from elsewhere: what kind of document it is, what is wrong with it, in words for people who did not write
//! it, and newlines and tabs in its strings.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;

use crate::text::one_line;

/// The fields that say what a document is. They are read before the document, without anything else in it: as a
/// [`serde_json::Value`], a text can take a hundred times its size.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Head {
    /// Version of the format; `None` if the document has none, or something other than a number.
    pub schema: Option<u64>,
    /// What it contains; `None` if the document does not say.
    pub kind: Option<String>,
}

impl Head {
    /// Reads the head of a document.
    ///
    /// # Errors
    /// The text is not JSON, or is cut off.
    pub fn of(json: &[u8]) -> serde_json::Result<Self> {
        match serde_json::from_slice(json) {
            Err(error) if error.is_data() => {
                serde_json::from_slice::<IgnoredAny>(json).map(|_| Self::default())
            }
            read => read,
        }
    }

    /// The schema of a document of this kind; `None` if it is another document.
    pub fn schema_of(self, kind: &str) -> Option<u64> {
        self.schema.filter(|_| self.kind.as_deref() == Some(kind))
    }
}

/// Whether a document is an object with all of these fields. Keeps none of its fields in memory: a file of empty ones
/// takes ten times its size.
pub fn has_fields(json: &[u8], fields: &[&str]) -> bool {
    let mut found = vec![false; fields.len()];
    let mut reader = serde_json::Deserializer::from_slice(json);
    let is_object = reader.deserialize_map(Fields { wanted: fields, found: &mut found }).is_ok();
    is_object && reader.end().is_ok() && found.into_iter().all(|found| found)
}

/// Notes which of the wanted fields an object has.
struct Fields<'a> {
    wanted: &'a [&'a str],
    found: &'a mut [bool],
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(place) = object.next_key_seed(Place(self.wanted))? {
            if let Some(place) = place {
                self.found[place] = true;
            }
            object.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// The place of a key among the wanted fields.
struct Place<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Place<'_> {
    type Value = Option<usize>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| *wanted == key))
    }
}

/// Implements `Deserialize` for a struct with parts whose fields are among its own in the JSON. The struct and the parts
/// are named with all of their fields and serde's attributes for them, the parts after `..`.
///
/// With `#[serde(flatten)]`, serde would keep all unknown fields of an object in memory, in up to 70 times their size. It
/// would also read the others through a map of their names, which takes a quarter of the run time of `knee compare`.
#[macro_export]
macro_rules! deserialize_flattened {
    ($whole:ident {
        $($(#[$on:meta])* $field:ident: $type:ty,)*
        $(..$part:ident: $inner:ident {
            $($(#[$on_inner:meta])* $inner_field:ident: $inner_type:ty,)*
        },)*
    }) => {
        impl<'de> serde::Deserialize<'de> for $whole {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                struct Fields {
                    $($(#[$on])* $field: $type,)*
                    $($($(#[$on_inner])* $inner_field: $inner_type,)*)*
                }

                let Fields { $($field,)* $($($inner_field,)*)* } = Fields::deserialize(from)?;
                Ok(Self { $($field,)* $($part: $inner { $($inner_field,)* },)* })
            }
        }
    };
}

/// Reads a list of at most `MOST` values, for `#[serde(deserialize_with)]`. An empty string takes three bytes of a text,
/// but 24 of memory.
pub fn at_most<'de, const MOST: usize, T, D>(list: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct AtMost<T>(usize, PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
        type Value = Vec<T>;

        fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(text, "a list of at most {} values", self.0)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut values = Vec::new();
            while let Some(value) = list.next_element()? {
                if values.len() == self.0 {
                    return Err(Error::invalid_length(values.len() + 1, &self));
                }
                values.push(value);
            }
            Ok(values)
        }
    }

    list.deserialize_seq(AtMost(MOST, PhantomData))
}

/// JSON with the newlines and tabs of its strings marked as [`one_line`] marks them, so that no string adds lines
/// or columns to the output.
pub fn with_one_line_strings(json: &[u8]) -> Cow<'_, [u8]> {
    let (newline, tab) = (one_line("\n"), one_line("\t"));
    let mut marked = Vec::new();
    let mut rest = json;
    // JSON has backslashes only in strings, and a control character only after one.
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        let (mark, length) = match &rest[at + 1..] {
            [b'n', ..] => (newline.as_bytes(), 2),
            [b't', ..] => (tab.as_bytes(), 2),
            [b'u', b'0', b'0', b'0', b'a' | b'A', ..] => (newline.as_bytes(), 6),
            [b'u', b'0', b'0', b'0', b'9', ..] => (tab.as_bytes(), 6),
            other => (&rest[at..rest.len().min(at + 2)], 1 + other.len().min(1)),
        };
        marked.extend_from_slice(&rest[..at]);
        marked.extend_from_slice(mark);
        rest = &rest[at + length..];
    }
    if marked.is_empty() {
        return json.into();
    }
    marked.extend_from_slice(rest);
    marked.into()
}

/// What is wrong with `what`: `the line is cut off`, `the line is not JSON (column 3)`, or what is
/// wrong with its content.
pub fn fault(what: &str, error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    let place = format!(" at line {} column {column}", error.line());
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    let at = if column > 0 { format!(" (column {column})") } else { String::new() };
    match error.classify() {
        Category::Eof => format!("{what} is cut off"),
        // A number that is too large is JSON.
        Category::Syntax if !reason.starts_with("number") => format!("{what} is not JSON{at}"),
        _ => format!("{reason}{at}"),
    }
}

/// The same for a file, with the line.
pub fn fault_in_file(error: &serde_json::Error) -> String {
    let fault = fault("the file", error);
    // An error about a value that has already been parsed has no line.
    if error.line() == 0 { fault } else { format!("line {}: {fault}", error.line()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        fault("the line", &serde_json::from_str::<Vec<u8>>(text).unwrap_err())
    }

    #[derive(Debug, PartialEq)]
    struct Part {
        b: u8,
        c: Option<u8>,
    }

    #[derive(Debug, PartialEq)]
    struct Whole {
        a: u8,
        part: Part,
    }

    deserialize_flattened!(Whole {
        a: u8,
        ..part: Part {
            #[serde(rename = "bee")]
            b: u8,
            c: Option<u8>,
        },
    });

    #[test]
    fn unknown_fields_of_a_flattened_object_are_not_kept() {
        // serde_json skips a number that it cannot represent, but cannot keep it.
        let json = r#"{"a": 1, "x": [1e999], "bee": 2}"#;
        let whole = Whole { a: 1, part: Part { b: 2, c: None } };
        assert_eq!(serde_json::from_str::<Whole>(json).unwrap(), whole);
        assert!(serde_json::from_str::<Whole>(r#"{"a": 1}"#).is_err());
    }

    #[test]
    fn a_document_is_recognised_by_its_fields() {
        let has = |json: &str| has_fields(json.as_bytes(), &["stacks", "functions"]);
        assert!(has(r#"{"stacks":[{}],"":0,"functi\u006fns":null}"#));
        for other in [r#"{"stacks":0}"#, r#"["stacks","functions"]"#, "0", "", r#"{"stacks":0,"#] {
            assert!(!has(other), "{other}");
        }
        assert!(!has(r#"{"stacks":0,"functions":0}}"#));
    }

    #[test]
    fn the_head_of_a_document_is_read_whatever_else_is_in_it() {
        let of = |json: &str| Head::of(json.as_bytes()).unwrap();
        let head = Head { schema: Some(1), kind: Some("a matrix".to_owned()) };
        assert_eq!(of(r#"{"x": [{"": [0]}], "schema": 1, "y": "z", "kind": "a matrix"}"#), head);
        for other in ["{}", "[{}]", "7", r#"{"schema": "1"}"#, r#"{"kind": 1}"#] {
            assert_eq!(of(other), Head::default(), "{other}");
        }
        for cut in [r#"{"schema": 1, "x": ["#, r#"{"schema": "1", "x": ["#] {
            assert!(Head::of(cut.as_bytes()).unwrap_err().is_eof(), "{cut}");
        }
    }

    #[test]
    fn a_list_that_is_too_long_is_refused() {
        let of = |text: &str| {
            at_most::<2, u8, _>(&mut serde_json::Deserializer::from_str(text))
                .map_err(|error| fault("the line", &error))
        };
        assert_eq!(of("[]"), Ok(vec![]));
        assert_eq!(of("[1, 2]"), Ok(vec![1, 2]));
        let error = of("[1, 2, 3]").unwrap_err();
        assert!(error.starts_with("invalid length 3, expected a list of at most 2"), "{error}");
    }

    #[test]
    fn newlines_and_tabs_in_strings_are_marked_however_they_are_written() {
        let marked = |json: &str| {
            let text = with_one_line_strings(json.as_bytes()).into_owned();
            String::from_utf8(text).unwrap()
        };
        let value: Vec<String> =
            serde_json::from_str(&marked(r#"["a\nb\tc\u000Ad\u0009e", "\\n\"\u00e9\r"]"#)).unwrap();
        assert_eq!(value, [&*one_line("a\nb\tc\nd\te"), "\\n\"é\r"]);
        for unchanged in ["[\n\t\"name\"]\n", r#""\\""#, "\\", "\"\\", ""] {
            assert_eq!(marked(unchanged), unchanged);
        }
    }

    #[test]
    fn cut_text_other_text_and_other_content_are_distinguished() {
        for cut in ["", "[1", "[1,"] {
            assert_eq!(of(cut), "the line is cut off", "{cut}");
        }
        assert_eq!(of("\0\0"), "the line is not JSON (column 1)");
        assert_eq!(of("[NaN]"), "the line is not JSON (column 2)");
        assert!(of("[300]").starts_with("invalid value"), "{}", of("[300]"));
        assert!(of("[1e999]").starts_with("number out of range"), "{}", of("[1e999]"));
        let error = serde_json::from_str::<Vec<u8>>("[1,\n2").unwrap_err();
        assert_eq!(fault_in_file(&error), "line 2: the file is cut off");
    }
}
