//! Placeholders in commands, and in the addresses and files of a server.

use std::net::{IpAddr, SocketAddr};

use knee_host::CpuList;
use knee_host::suggest::{in_braces, is_misspelt};

/// See [`crate::job::Command::TASKS`].
pub(crate) const TASKS: &str = "{tasks}";
/// See [`crate::job::Command::CPUS`].
pub(crate) const CPUS: &str = "{cpus}";
/// See [`crate::job::Command::SECONDS`].
pub(crate) const SECONDS: &str = "{seconds}";
/// See [`crate::job::Command::DIR`].
pub(crate) const DIR: &str = "{dir}";
/// See [`crate::job::Command::PORT`].
pub(crate) const PORT: &str = "{port}";
/// See [`crate::job::Command::NUMBER`].
pub(crate) const NUMBER: char = '#';
const LOAD_TASKS: &str = "{load_tasks}";
const LOAD_CPUS: &str = "{load_cpus}";
/// Placeholder for the number of connections of a load.
pub const CONNECTIONS: &str = "{connections}";
/// Placeholder for the number of connections that a server should allow; see [`max_connections`].
pub(crate) const MAX_CONNECTIONS: &str = "{max_connections}";
/// Placeholder for the address of this machine that the load can reach.
pub(crate) const ADDRESS: &str = "{address}";
/// The same in front of a port.
const ADDRESS_OF_PORT: &str = "{address}:";
/// Placeholder for the directory of a description.
pub const HERE: &str = "{here}";

/// All placeholders.
pub(crate) const PLACEHOLDERS: [&str; 11] = [
    TASKS,
    CPUS,
    LOAD_TASKS,
    LOAD_CPUS,
    CONNECTIONS,
    MAX_CONNECTIONS,
    SECONDS,
    DIR,
    ADDRESS,
    PORT,
    HERE,
];

/// The bytes of the longest placeholder.
const LONGEST: usize = MAX_CONNECTIONS.len();

/// Connections that a server should allow beyond those of the load.
///
/// The number is fixed, so that a larger load changes the configuration only as far as it must. It is large because
/// memcached limits its open files to its connections, and then opens four files for each thread.
pub(crate) const SPARE_CONNECTIONS: u32 = 1000;

/// The number of connections that a server should allow for `connections` of the load.
pub(crate) fn max_connections(connections: u32) -> u32 {
    connections.saturating_add(SPARE_CONNECTIONS)
}

/// What the placeholders stand for in one round.
#[derive(Clone)]
pub(crate) struct Values(Vec<(&'static str, String)>);

impl Values {
    /// The values of a server on the CPUs `server` and a load on the CPUs `load`.
    pub(crate) fn new(
        [server, load]: [&[u32]; 2],
        connections: u32,
        seconds: f64,
        dir: String,
        address: SocketAddr,
        here: String,
    ) -> Self {
        let list = |cpus: &[u32]| cpus.iter().copied().collect::<CpuList>().to_string();
        // An IPv6 address in front of a port has brackets.
        let of_port = match address.ip() {
            IpAddr::V4(ip) => format!("{ip}:"),
            IpAddr::V6(ip) => format!("[{ip}]:"),
        };
        Self(vec![
            (TASKS, server.len().to_string()),
            (CPUS, list(server)),
            (LOAD_TASKS, load.len().to_string()),
            (LOAD_CPUS, list(load)),
            (CONNECTIONS, connections.to_string()),
            (MAX_CONNECTIONS, max_connections(connections).to_string()),
            (SECONDS, seconds.to_string()),
            (DIR, dir),
            (ADDRESS_OF_PORT, of_port),
            (ADDRESS, address.ip().to_string()),
            (PORT, address.port().to_string()),
            (HERE, here),
        ])
    }

    /// The same values with another private directory.
    pub(crate) fn in_dir(mut self, dir: &str) -> Self {
        for (_, value) in self.0.iter_mut().filter(|(name, _)| *name == DIR) {
            dir.clone_into(value);
        }
        self
    }

    /// `text` with values in place of its placeholders.
    pub(crate) fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

/// A word in braces that differs from one of `placeholders` by one letter or by two swapped ones, and this
/// placeholder. Other words in braces belong to the program.
pub(crate) fn misspelt<'t>(
    text: &'t str,
    placeholders: &[&'static str],
) -> Option<(&'t str, &'static str)> {
    // A longer word differs by more than one letter.
    in_braces(text, LONGEST + "ü".len()).find_map(|(before, word)| {
        // `${word}` is a variable of a shell.
        let is_other = PLACEHOLDERS.contains(&word) || before.ends_with('$');
        let meant = placeholders.iter().find(|name| is_misspelt(word, name));
        meant.filter(|_| !is_other).map(|meant| (word, *meant))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced() {
        let here = "/home/me".to_owned();
        let address = "192.0.2.1:4711".parse().unwrap();
        let dir = "/private".to_owned();
        let values = Values::new([&[0, 2, 1], &[3]], 64, 1.5, dir, address, here);
        let text = "{tasks} {cpus} {load_tasks} {load_cpus} {connections} {seconds} {dir}/{port} {here} {x}";
        assert_eq!(values.fill(text), "3 0-2 1 3 64 1.5 /private/4711 /home/me {x}");
        assert_eq!(values.fill("{max_connections} {address}:{port}"), "1064 192.0.2.1:4711");
        assert_eq!(values.in_dir("/other").fill("{dir} {here}"), "/other /home/me");
    }

    #[test]
    fn an_ipv6_address_has_brackets_in_front_of_a_port() {
        let address = "[2001:db8::1]:80".parse().unwrap();
        let empty = String::new;
        let values = Values::new([&[], &[]], 1, 1.0, empty(), address, empty());
        assert_eq!(values.fill("{address} {address}:{port}"), "2001:db8::1 [2001:db8::1]:80");
    }

    #[test]
    fn only_a_word_that_is_similar_to_a_placeholder_is_misspelt() {
        assert_eq!(misspelt("a {port} {task}", &PLACEHOLDERS), Some(("{task}", "{tasks}")));
        assert!(PLACEHOLDERS.iter().all(|name| name.len() <= LONGEST));
        let longer = "a {max_connectionss}";
        assert_eq!(misspelt(longer, &PLACEHOLDERS), Some(("{max_connectionss}", MAX_CONNECTIONS)));
        for text in ["{port}", "{print}", "${port_number}", "{a,b}", "{", "{}", "{random:9}"] {
            assert_eq!(misspelt(text, &PLACEHOLDERS), None, "{text}");
        }
    }
}
