//! The JSON schema of a description.

use knee_host::toml_text::from_toml;
use serde_json::{Value, json};

use super::fields::Server;

/// The JSON schema of a description. Each field has the example in its documentation as a value too, which editors
/// show.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Server).to_value();
    add_examples(&mut schema);
    let definitions = schema["$defs"].as_object_mut();
    definitions.into_iter().flatten().for_each(|(_, object)| add_examples(object));
    schema
}

fn add_examples(object: &mut Value) {
    let fields = object.get_mut("properties").and_then(Value::as_object_mut);
    for (field, about) in fields.into_iter().flatten() {
        if let Some(example) = about["description"].as_str().and_then(|text| example(field, text)) {
            about["examples"] = json!([example]);
        }
    }
}

/// The value of `field` in a text such as ``Example: `seconds = 60` ``.
fn example(field: &str, text: &str) -> Option<Value> {
    let (_, example) = text.split_once("Example:")?;
    let example = example.trim().strip_prefix('`')?.strip_suffix('`')?;
    let mut table: Value = from_toml(&example.replace('\n', " ")).ok()?;
    table.get_mut(field).map(Value::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_schema_has_an_example() {
        let schema = schema();
        let mut objects = vec![("Server", &schema)];
        objects.extend(schema["$defs"].as_object().unwrap().iter().map(|(n, s)| (n.as_str(), s)));
        let mut count = 0;
        for (name, object) in objects {
            let Some(fields) = object["properties"].as_object() else { continue };
            for (field, about) in fields {
                assert!(about["examples"][0] != Value::Null, "{name}.{field}: {about}");
                count += 1;
            }
        }
        assert!(count > 30);
    }

    #[test]
    fn the_examples_of_all_tables_make_a_description() {
        let schema = schema();
        let fields = schema["properties"].as_object().unwrap().iter();
        let whole = fields.map(|(field, about)| (field.clone(), about["examples"][0].clone()));
        let server: Server = serde_json::from_value(whole.collect()).unwrap();
        server.check().unwrap();
        assert_eq!(server.fill[0].count, 1000);
    }
}
