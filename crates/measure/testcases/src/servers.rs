//! The built-in servers. Their descriptions are those that a user can write, in `servers/`.

use knee_run::Family;
use knee_run::catalogue::glob;
use knee_run::server::Server;

/// A built-in server.
#[derive(Debug, Clone, Copy)]
pub struct BuiltInServer {
    /// Its name.
    pub name: &'static str,
    /// Its description in TOML.
    pub toml: &'static str,
}

macro_rules! servers {
    ($($name:literal),*) => {
        &[$(BuiltInServer {
            name: $name,
            toml: include_str!(concat!("../servers/", $name, ".toml")),
        }),*]
    };
}

/// All built-in servers, in the order of `knee list`.
pub const SERVERS: &[BuiltInServer] =
    servers!["nginx", "nginx_connections", "memcached", "redis", "pgbench_select", "pgbench_tpcb"];

/// The built-in servers that `word` selects: a name, a glob, or the family of all.
pub fn servers(word: &str) -> Vec<&'static BuiltInServer> {
    let is_family = word.strip_prefix("family:") == Some(Family::Server.as_str());
    let glob = glob(word).ok();
    let is_selected = |server: &&BuiltInServer| {
        is_family || glob.as_ref().is_some_and(|glob| glob.matches(server.name))
    };
    SERVERS.iter().filter(is_selected).collect()
}

impl BuiltInServer {
    /// Its description.
    pub fn parsed(&self) -> Server {
        Server::parse(self.toml).expect("a test parses all descriptions")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CATALOGUE;

    #[test]
    fn a_word_selects_servers_by_name_glob_or_family() {
        let names = |word: &str| servers(word).iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names("redis"), ["redis"]);
        assert_eq!(names("nginx*"), ["nginx", "nginx_connections"]);
        assert_eq!(names("family:server").len(), SERVERS.len());
        assert!(names("ngin").is_empty() && names("[").is_empty());
    }

    #[test]
    fn every_description_is_valid_and_says_what_the_server_does() {
        for server in SERVERS {
            let parsed = Server::parse(server.toml);
            let parsed = parsed.unwrap_or_else(|error| panic!("{}: {error}", server.name));
            assert_eq!(parsed.name, server.name);
            assert!((1..=90).contains(&parsed.description.len()), "{}", server.name);
            assert!(!parsed.needs.is_empty(), "{}", server.name);
            assert!(CATALOGUE.find(server.name).is_none(), "{}", server.name);
        }
    }

    /// All users of a machine can send requests to its servers, which can write files.
    #[test]
    fn no_server_runs_as_root() {
        for server in SERVERS {
            assert_eq!(server.parsed().server.user.as_deref(), Some("nobody"), "{}", server.name);
        }
    }
}
