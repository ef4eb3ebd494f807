//! Words that select testcases and servers.

use std::path::Path;

use anyhow::Context;
use knee_host::RegularFile;
use knee_host::suggest::nearest;
use knee_run::catalogue::{SelectError, Selected};
use knee_run::plan::Case;
use knee_run::server::Server;
use knee_testcases::{BuiltInServer, CATALOGUE, SERVERS, servers};

use super::existing;
use super::sweep::{as_in_word, split_connections};
use crate::exit::usage;

/// Extension of a file that describes a server.
const DESCRIPTION: &str = "toml";
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
        for word in words {
            let (name, connections) = split_connections(word);
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
            if let SelectError::Unknown { name, nearest: known, .. } = &mut error {
                known.extend(nearest(name, SERVERS.iter().map(|server| server.name)));
            }
            usage(error.to_string())
        })?;
        Ok(selection)
    }
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
    Ok((text, server))
}
