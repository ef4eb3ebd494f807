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
use crate::exit::usage;

/// Extension of a file that describes a server.
const DESCRIPTION: &str = "toml";
/// The largest description that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// What words select.
#[derive(Default)]
pub(crate) struct Selection {
    pub(crate) testcases: Vec<Selected>,
    pub(crate) servers: Vec<&'static BuiltInServer>,
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
            let servers = servers(word);
            let is_testcase = servers.is_empty() || CATALOGUE.select(&[word]).is_ok();
            if is_testcase {
                testcases.push(word);
            }
            if mixed || !is_testcase {
                let is_new = |one: &&BuiltInServer| {
                    !selection.servers.iter().any(|other| other.name == one.name)
                };
                let new: Vec<_> = servers.into_iter().filter(is_new).collect();
                selection.servers.extend(new);
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

/// Whether `word` names a file that describes a server.
pub(crate) fn is_description(word: &str) -> bool {
    Path::new(word).extension().is_some_and(|extension| extension == DESCRIPTION)
}

/// The case of a built-in server. Its description has no directory, so the current one takes its place.
pub(crate) fn built_in_server(server: &BuiltInServer) -> anyhow::Result<Case> {
    let here = existing("the current directory", Path::new("."))?;
    Ok(Case::server(server.parsed(), here))
}

/// The case that the file `word` describes.
pub(crate) fn described_server(word: &str) -> anyhow::Result<Case> {
    let file = existing("the description", Path::new(word))?;
    let (_, server) = description(word)?;
    let here = file.parent().unwrap_or(Path::new("/"));
    Ok(Case::server(server, here.to_owned()))
}

/// The text of the file `word`, and the server that it describes.
pub(crate) fn description(word: &str) -> anyhow::Result<(String, Server)> {
    let text = RegularFile::at(Path::new(word)).at_most(LARGEST).read_to_string();
    let text = text.with_context(|| format!("cannot read {word}"))?;
    let server = Server::parse(&text).map_err(|error| usage(format!("{word}: {error}")))?;
    Ok((text, server))
}
