//! Numbers of connections as written on the command line: in a sweep, and after the name of a server.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use anyhow::anyhow;
use knee_run::job::Source;
use knee_run::plan::Case;
use knee_run::server::{CONNECTIONS as PLACEHOLDER, require_open_files};

use crate::exit::{ensure_usage, usage};

/// The key before the numbers.
const CONNECTIONS: &str = "connections";
/// What to write.
const FORM: &str = "connections=1,8,64";
/// The largest number of connections.
const MOST: u32 = 1_000_000;

/// Numbers of connections, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sweep(BTreeSet<NonZeroU32>);

impl Sweep {
    /// The numbers of connections, in ascending order.
    pub(crate) fn connections(&self) -> impl Iterator<Item = NonZeroU32> + '_ {
        self.0.iter().copied()
    }
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((CONNECTIONS, list)) = text.split_once('=') else {
            return Err(format!("knee sweeps only connections; write {FORM}"));
        };
        let mut numbers = BTreeSet::new();
        for text in list.split(',').map(str::trim) {
            let number = number(text).map_err(|error| format!("{error}; write {FORM}"))?;
            if !numbers.insert(number) {
                return Err(format!("{number} appears twice; write each number once"));
            }
        }
        Ok(Self(numbers))
    }
}

fn number(text: &str) -> Result<NonZeroU32, String> {
    let number = text.parse().ok().filter(|n: &NonZeroU32| n.get() <= MOST);
    number.ok_or_else(|| format!("{text:?} is not a whole number from 1 to {MOST}"))
}

/// The name of a server, and what follows `@connections=`.
pub(crate) fn split_connections(word: &str) -> (&str, Option<&str>) {
    let form = word.rsplit_once('@').and_then(|(name, parameter)| {
        Some((name, parameter.strip_prefix(CONNECTIONS)?.strip_prefix('=')?))
    });
    form.map_or((word, None), |(name, number)| (name, Some(number)))
}

/// The server `case`, with the number after `@connections=` of `word` if there is one.
pub(crate) fn as_in_word(case: Case, word: &str) -> anyhow::Result<Case> {
    let (_, Some(text)) = split_connections(word) else { return Ok(case) };
    let number = number(text).map_err(|error| usage(format!("{word}: {error}")))?;
    with_connections(&case, number, word)
}

/// The server `case` with another number of connections. `given` is where the number was written.
///
/// # Errors
/// The load of the server does not take a number, or the limit of open files is too low for it.
pub(crate) fn with_connections(
    case: &Case,
    connections: NonZeroU32,
    given: impl fmt::Display,
) -> anyhow::Result<Case> {
    let case = case.clone().with_connections(connections);
    if let Source::Server { server, .. } = &case.source {
        ensure_usage!(
            server.takes_connections(),
            "{given}: load.command of {} does not use the number of connections; insert \
             {PLACEHOLDER} where it belongs",
            server.name
        );
        require_open_files(server)
            .map_err(|failure| anyhow!("{given}: {}; {}", failure.reason, failure.remedy))?;
    }
    Ok(case)
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<String> = self.connections().map(|n| n.to_string()).collect();
        write!(f, "{CONNECTIONS}={}", list.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        text.parse::<Sweep>().unwrap_err()
    }

    #[test]
    fn a_sweep_is_a_list_of_numbers_in_any_order() {
        let sweep: Sweep = "connections=64, 1,8".parse().unwrap();
        assert_eq!(sweep.to_string(), "connections=1,8,64");
    }

    #[test]
    fn a_number_of_connections_follows_the_name_of_a_server() {
        assert_eq!(split_connections("nginx"), ("nginx", None));
        assert_eq!(split_connections("./a@b.toml@connections=8"), ("./a@b.toml", Some("8")));
        for word in ["nginx@connection=8", "nginx@connections", "nginx@connections8"] {
            assert_eq!(split_connections(word), (word, None));
        }
    }

    #[test]
    fn an_invalid_sweep_is_refused_with_a_valid_one() {
        for text in ["", "1,8", "tasks=1,2", "connection=1"] {
            assert_eq!(refusal(text), "knee sweeps only connections; write connections=1,8,64");
        }
        for number in ["", "0", "-1", "x", "1.5", "1-8", "1000001", "99999999999"] {
            let expected = format!("{number:?} is not a whole number from 1 to 1000000");
            let refused = refusal(&format!("connections=1,{number}"));
            assert!(refused.starts_with(&expected), "{refused}");
        }
        assert_eq!(refusal("connections=8,1,8"), "8 appears twice; write each number once");
    }
}
