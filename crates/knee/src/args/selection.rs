//! Words that select testcases and servers.

use std::path::Path;

use knee_host::suggest::nearest;
use knee_run::catalogue::{SelectError, Selected};
use knee_testcases::{BuiltInServer, CATALOGUE, SERVERS, servers};

use crate::exit::usage;

/// Extension of a file that describes a server.
const DESCRIPTION: &str = "toml";

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
