//! The description of a server testcase: a TOML file.
//!
//! ```
//! use knee_run::server::Server;
//!
//! let echo = r#"
//! name = "echo"
//! server.command = "{here}/echo --port {port} --threads {tasks}"
//! load.address = "127.0.0.1:{port}"
//! load.request = [{ send = 'hello\n', expect = "hello", reply_ends = '\n' }]
//! "#;
//! assert_eq!(Server::parse(echo)?.name, "echo");
//! # Ok::<(), knee_run::server::DescriptionError>(())
//! ```

mod check;
mod fields;
mod schema;

pub use check::DescriptionError;
pub(crate) use fields::Generator;
pub use fields::{
    Fill, LoadDescription, Program, Ready, RequestDescription, Server, ServerCommand, Stop,
    StopSignal,
};
pub use schema::schema;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_explains_every_key_and_contains_the_example() {
        let guide = include_str!("../../../../../docs/servers.md");
        let example = include_str!("../../../../../docs/examples/server.toml");
        assert!(guide.contains(example));
        assert_eq!(Server::parse(example).unwrap().name, "my-server");
        let schema = schema();
        let mut objects = vec![&schema];
        objects.extend(schema["$defs"].as_object().unwrap().values());
        let keys = objects.iter().filter_map(|object| object["properties"].as_object());
        for key in keys.flat_map(serde_json::Map::keys) {
            assert!(guide.contains(&format!("`{key}`")), "{key} is missing in docs/servers.md");
        }
    }

    #[test]
    fn the_committed_schema_matches_the_code() {
        let schema = format!("{:#}\n", schema());
        snapbox::assert_data_eq!(schema, snapbox::file!["../../schemas/server.schema.json"].raw());
    }
}
