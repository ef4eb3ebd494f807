//! Whether a document is as a schema says: the part of JSON Schema that the schemas of knee use. A
//! keyword that is not known here is an error, and so is a member that no schema describes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keywords that only explain.
const NOTES: [&str; 10] = [
    "$defs",
    "$schema",
    "default",
    "description",
    "format",
    "maxItems",
    "minItems",
    "title",
    "uniqueItems",
    "required",
];
/// The one pattern of members: numbers.
const NUMBERS: &str = r"^\d+$";

/// That a document is as a schema says.
#[track_caller]
pub(crate) fn assert_valid(schema: &Value, document: &Value) {
    let wrong = Schema { root: schema }.violations(schema, document, "");
    assert!(wrong.is_empty(), "{}\n{document:#}", wrong.join("\n"));
}

struct Schema<'s> {
    root: &'s Value,
}

impl Schema<'_> {
    /// What is wrong, each with its place.
    fn violations(&self, schema: &Value, value: &Value, at: &str) -> Vec<String> {
        let mut wrong = self.of_keywords(schema, value, at);
        if let (Some(members), Some(known)) = (value.as_object(), self.known(schema)) {
            let unknown = members.keys().filter(|name| !known.contains(name.as_str()));
            wrong.extend(unknown.map(|name| format!("{at}/{name}: no schema has it")));
        }
        wrong
    }

    fn of_keywords(&self, schema: &Value, value: &Value, at: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let Some(keywords) = schema.as_object() else { return wrong };
        let no_members = Map::new();
        let members = value.as_object().unwrap_or(&no_members);
        let required = keywords.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                wrong.push(format!("{at}/{name}: is missing"));
            }
        }
        for (keyword, says) in keywords.iter().filter(|(name, _)| !NOTES.contains(&name.as_str())) {
            match keyword.as_str() {
                "$ref" => wrong.extend(self.violations(self.definition(says), value, at)),
                "type" => {
                    if !is_of(says, value) {
                        wrong.push(format!("{at}: {value} is not of type {says}"));
                    }
                }
                "const" => {
                    if says != value {
                        wrong.push(format!("{at}: {value} is not {says}"));
                    }
                }
                "minimum" => {
                    if value.as_f64().is_some_and(|value| Some(value) < says.as_f64()) {
                        wrong.push(format!("{at}: {value} is less than {says}"));
                    }
                }
                // Of these only one fits, but what fits is what matters.
                "anyOf" | "oneOf" => {
                    let all = says.as_array().expect("a list of schemas");
                    let fits = |one: &Value| self.of_keywords(one, value, at).is_empty();
                    if !all.iter().any(fits) {
                        wrong.push(format!("{at}: {value} is none of {says}"));
                    }
                }
                "properties" => {
                    for (name, value) in members {
                        let at = format!("{at}/{name}");
                        let says = &says[name];
                        if !says.is_null() {
                            wrong.extend(self.violations(says, value, &at));
                        }
                    }
                }
                "additionalProperties" | "patternProperties" => {
                    let says = says.get(NUMBERS).unwrap_or(says);
                    let others =
                        members.iter().filter(|(name, _)| schema["properties"][name].is_null());
                    for (name, value) in others.filter(|_| says.is_object()) {
                        wrong.extend(self.violations(says, value, &format!("{at}/{name}")));
                    }
                }
                "items" => {
                    for (nr, value) in value.as_array().into_iter().flatten().enumerate() {
                        wrong.extend(self.violations(says, value, &format!("{at}/{nr}")));
                    }
                }
                "prefixItems" => {
                    let says = says.as_array().expect("a list of schemas");
                    let values = value.as_array().into_iter().flatten();
                    for (nr, (value, says)) in values.zip(says).enumerate() {
                        wrong.extend(self.violations(says, value, &format!("{at}/{nr}")));
                    }
                }
                _ => panic!("a schema says {keyword}, which this does not know: {schema:#}"),
            }
        }
        wrong
    }

    fn definition(&self, reference: &Value) -> &Value {
        let name = reference.as_str().and_then(|name| name.strip_prefix("#/$defs/"));
        &self.root["$defs"][name.expect("a reference to a definition")]
    }

    /// The members that an object may have; none if it may have any.
    fn known(&self, schema: &Value) -> Option<BTreeSet<String>> {
        let is_open = |name: &str| schema.get(name).is_some_and(Value::is_object);
        if is_open("additionalProperties") || is_open("patternProperties") {
            return None;
        }
        let own = schema["properties"].as_object();
        let of_others = schema["anyOf"].as_array();
        let mut known: BTreeSet<String> = own?.keys().cloned().collect();
        for other in of_others.into_iter().flatten() {
            known.extend(self.known(other).unwrap_or_default());
        }
        Some(known)
    }
}

fn is_of(types: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    };
    types.as_array().map_or_else(|| is(types), |types| types.iter().any(is))
}
