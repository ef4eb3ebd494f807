//! Words that select testcases and servers.

use std::path::Path;

use anyhow::Context;
use knee_host::RegularFile;
use knee_host::suggest::nearest;
use knee_run::catalogue::{SelectError, Selected};
use knee_run::job::Source;
use knee_run::plan::Case;
use knee_run::server::Server;
use knee_testcases::{BuiltInServer, CATALOGUE, SERVERS, servers};

use super::existing;
use super::sweep::{as_in_word, split_connections};
use crate::exit::{ensure_usage, usage};
use crate::stderr::tell;

/// Extension of a file that describes a server.
const DESCRIPTION: &str = "toml";
/// Other names of testcases. Those of will-it-scale end with a number.
const ALIASES: &[(&str, &str)] = &[("build", "build1")];
/// The largest description that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// What words select.
#[derive(Default)]
pub(crate) struct Selection {
    pub(crate) testcases: Vec<Selected>,
    pub(crate) servers: Vec<ChosenServer>,
}

/// A built-in server, as a word selects it.
pub(crate) struct ChosenServer {
    pub(crate) server: &'static BuiltInServer,
    word: String,
}

impl Selection {
    /// What `words` select. A glob that matches a testcase selects no servers, unless `mixed`.
    ///
    /// # Errors
    /// The first word that selects nothing.
    pub(crate) fn of(words: &[String], mixed: bool) -> anyhow::Result<Self> {
        let mut selection = Self::default();
        let mut testcases: Vec<&String> = Vec::new();
        let words: Vec<String> = words.iter().map(|word| without_alias(word)).collect();
        for word in &words {
            let (name, connections) = split_connections(word);
            require_connections(word)?;
            let servers = servers(name);
            let is_testcase = servers.is_empty() || CATALOGUE.select(&[word]).is_ok();
            if is_testcase {
                testcases.push(word);
            }
            if mixed || !is_testcase {
                for server in servers {
                    let is_same = |other: &ChosenServer| {
                        other.server.name == server.name
                            && split_connections(&other.word).1 == connections
                    };
                    if !selection.servers.iter().any(is_same) {
                        selection.servers.push(ChosenServer { server, word: word.clone() });
                    }
                }
            }
        }
        selection.testcases = CATALOGUE.select(&testcases).map_err(|mut error| {
            if let SelectError::Unknown { what, name, nearest: known } = &mut error {
                *what = match *what {
                    "testcase matches" => "testcase or server matches",
                    "testcase is named" => "testcase or server is named",
                    other => other,
                };
                known.extend(nearest(name, SERVERS.iter().map(|server| server.name)));
            }
            usage(error.to_string())
        })?;
        Ok(selection)
    }
}

/// `word` with the name of the testcase for which it stands.
fn without_alias(word: &str) -> String {
    let (name, parameters) = word.split_at(word.find('@').unwrap_or(word.len()));
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    alias.map_or(word.to_owned(), |(_, name)| format!("{name}{parameters}"))
}

/// Refuses another parameter of a server than its number of connections.
fn require_connections(word: &str) -> anyhow::Result<()> {
    let Some((server, parameter)) = word.rsplit_once('@') else { return Ok(()) };
    let is_server = SERVERS.iter().any(|known| known.name == server)
        || Path::new(server).extension().is_some_and(|extension| extension == DESCRIPTION);
    let is_number = split_connections(word).1.is_some();
    let value = parameter.rsplit('=').next().filter(|value| value.parse::<u32>().is_ok());
    let value = value.unwrap_or("64");
    ensure_usage!(
        !is_server || is_number,
        "{word}: the only parameter of a server is its number of connections; write \
         {server}@connections={value}"
    );
    Ok(())
}

/// Whether `word` names a file that describes a server, with or without a number of connections.
pub(crate) fn is_description(word: &str) -> bool {
    Path::new(split_connections(word).0)
        .extension()
        .is_some_and(|extension| extension == DESCRIPTION)
}

impl ChosenServer {
    /// Its case. A built-in description has no directory, so the current one takes its place.
    pub(crate) fn case(&self) -> anyhow::Result<Case> {
        let here = existing("the current directory", Path::new("."))?;
        as_in_word(Case::server(self.server.parsed(), here), &self.word)
    }
}

/// Refuses an `interval` in seconds that the load of one of `cases` does not take.
pub(crate) fn require_interval(cases: &[Case], interval: f64) -> anyhow::Result<()> {
    for case in cases {
        if let Source::Server { server, .. } = &case.source {
            let checked = server.check_seconds(interval);
            checked.map_err(|reason| usage(format!("--interval {interval}: {reason}")))?;
        }
    }
    Ok(())
}

/// The case that the file in `word` describes.
pub(crate) fn described_server(word: &str) -> anyhow::Result<Case> {
    let (name, _) = split_connections(word);
    let file = existing("the description", Path::new(name))?;
    let (_, server) = description(name)?;
    let here = file.parent().unwrap_or(Path::new("/"));
    as_in_word(Case::server(server, here.to_owned()), word)
}

/// The text of the file in `word`, and the server that it describes.
pub(crate) fn description(word: &str) -> anyhow::Result<(String, Server)> {
    let (name, _) = split_connections(word);
    let text = RegularFile::at(Path::new(name)).at_most(LARGEST).read_to_string();
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let server = Server::parse(&text).map_err(|error| usage(format!("{name}: {error}")))?;
    for (file, word, meant) in server.doubtful_placeholders() {
        tell!("knee: {name}: the file {file} contains {word}; if it should be {meant}, correct it");
    }
    Ok((text, server))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(word: &str) -> String {
        let selection = Selection::of(&[word.to_owned()], false);
        selection.err().unwrap_or_else(|| panic!("{word} is accepted")).to_string()
    }

    #[test]
    fn another_parameter_of_a_server_is_refused_with_the_valid_one() {
        for word in ["nginx@connection=5", "nginx@conns=5"] {
            assert!(refused(word).ends_with("write nginx@connections=5"), "{}", refused(word));
        }
        let file = refused("./a.toml@connection=5");
        assert!(file.ends_with("write ./a.toml@connections=5"), "{file}");
    }

    #[test]
    fn an_unknown_name_can_be_a_misspelt_server() {
        let name = refused("ngin");
        assert!(
            name.starts_with("no testcase or server is named \"ngin\" (did you mean nginx"),
            "{name}"
        );
        assert!(refused("zz*").starts_with("no testcase or server matches \"zz*\""));
    }

    #[test]
    fn build_is_a_testcase() {
        let selection = Selection::of(&["build".to_owned()], false).unwrap();
        assert_eq!(selection.testcases[0].id().to_string(), "build1");
    }
}
