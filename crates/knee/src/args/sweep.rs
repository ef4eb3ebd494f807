//! A sweep as written on the command line.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

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
            let number = text.parse().ok().filter(|n: &NonZeroU32| n.get() <= MOST);
            let number = number.ok_or_else(|| {
                format!("{text:?} is not a whole number from 1 to {MOST}; write {FORM}")
            })?;
            if !numbers.insert(number) {
                return Err(format!("{number} appears twice; write each number once"));
            }
        }
        Ok(Self(numbers))
    }
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
