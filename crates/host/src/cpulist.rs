//! Sets of CPUs in the notation of the kernel, `taskset -c` and cpuset cgroups.
//!
//! A list is pieces joined by commas; a piece is a CPU (`8`), a range (`0-3`), a range with a
//! stride as `taskset` has it (`0-31:2`: every second CPU), or a range of groups as the
//! kernel's `bitmap_parselist` has it (`0-31:2/8`: the first two of every eight).

use std::collections::BTreeSet;
use std::str::FromStr;
use std::{fmt, io};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Above the 8192 CPUs that any kernel configuration allows; refusing more keeps a typing
/// error such as `0-4000000000` from filling memory.
pub const MAX_CPU: u32 = 65_535;

/// A set of CPU numbers, written as the kernel writes it.
///
/// ```
/// use knee_host::CpuList;
///
/// let cpus: CpuList = "0-6:2,8".parse()?;
/// assert_eq!(cpus.iter().collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
/// assert_eq!(cpus.to_string(), "0,2,4,6,8");
/// # Ok::<(), knee_host::cpulist::CpuListError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", description = "A set of CPUs as the kernel writes it: `0-3,8`.")]
pub struct CpuList(BTreeSet<u32>);

/// Why a text is not a list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// A piece is not a number or a range of numbers.
    #[error("`{piece}` is not a CPU or a range of CPUs; write a list such as 0-3,8 or 0-31:2")]
    Malformed {
        /// The piece between two commas.
        piece: String,
    },
    /// A range whose end comes before its start.
    #[error("the range `{piece}` runs backwards; write the smaller CPU number first")]
    Backwards {
        /// The piece between two commas.
        piece: String,
    },
    /// A stride or group of 0, or a group that takes more CPUs than it has.
    #[error("`{piece}` has an invalid stride; A-B:N means every Nth CPU, and N must be at least 1")]
    Stride {
        /// The piece between two commas.
        piece: String,
    },
    /// A CPU number that no Linux kernel can have.
    #[error("`{piece}` contains a CPU number above {MAX_CPU}, which no kernel supports")]
    TooLarge {
        /// The piece between two commas.
        piece: String,
    },
}

impl CpuList {
    /// The CPUs that are online, whether this process may use them or not.
    ///
    /// # Errors
    /// `/sys/devices/system/cpu/online` cannot be read.
    pub fn online() -> io::Result<Self> {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// How many CPUs the set has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest CPU number.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        CpuList(cpus.into_iter().collect())
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    /// The empty text is the empty set, as in the kernel's own files.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            return Ok(CpuList::default());
        }
        // However often a list repeats itself, this is quick.
        let mut listed = Vec::new();
        for piece in text.split(',').map(str::trim) {
            let Piece { first, last, take, group } = parse_piece(piece)?;
            listed.resize(listed.len().max(last as usize + 1), false);
            for start in (first..=last).step_by(group) {
                let end = last.min(start + take - 1);
                listed[start as usize..=end as usize].fill(true);
            }
        }
        Ok((0..).zip(listed).filter_map(|(cpu, listed)| listed.then_some(cpu)).collect())
    }
}

/// `first-last:take/group`: from each `group` CPUs the first `take`.
struct Piece {
    first: u32,
    last: u32,
    take: u32,
    group: usize,
}

fn parse_piece(piece: &str) -> Result<Piece, CpuListError> {
    let malformed = || CpuListError::Malformed { piece: piece.to_owned() };
    // `u32::from_str` alone would let `+3` through.
    let number = |text: &str| -> Result<u32, CpuListError> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed());
        }
        match text.parse() {
            Ok(value) if value <= MAX_CPU => Ok(value),
            _ => Err(CpuListError::TooLarge { piece: piece.to_owned() }),
        }
    };

    let (range, pattern) = match piece.split_once(':') {
        Some((range, pattern)) => (range, Some(pattern)),
        None => (piece, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None if pattern.is_some() => return Err(malformed()),
        None => (number(range)?, number(range)?),
    };
    let (take, group) = match pattern.map(|pattern| pattern.split_once('/').ok_or(pattern)) {
        None => (1, 1),
        Some(Ok((take, group))) => (number(take)?, number(group)?),
        Some(Err(stride)) => (1, number(stride)?),
    };
    if first > last {
        return Err(CpuListError::Backwards { piece: piece.to_owned() });
    }
    if take == 0 || take > group {
        return Err(CpuListError::Stride { piece: piece.to_owned() });
    }
    Ok(Piece { first, last, take, group: group as usize })
}

impl fmt::Display for CpuList {
    /// Ranges without strides, as the kernel prints them.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            // A record may contain any number, also the largest one.
            while let Some(next) = cpus.next_if(|next| Some(*next) == last.checked_add(1)) {
                last = next;
            }
            match last - first {
                0 => write!(out, "{separator}{first}")?,
                _ => write!(out, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuList {
    type Error = CpuListError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CpuList> for String {
    fn from(cpus: CpuList) -> String {
        cpus.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpus(text: &str) -> Vec<u32> {
        text.parse::<CpuList>().unwrap().iter().collect()
    }

    fn error(text: &str) -> String {
        text.parse::<CpuList>().unwrap_err().to_string()
    }

    #[test]
    fn ranges_single_cpus_and_white_space_are_read() {
        assert_eq!(cpus("0-3,8, 10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(cpus("\n"), [0; 0]);
    }

    #[test]
    fn strides_and_groups_select_as_the_kernel_does() {
        assert_eq!(cpus("0-8:2"), [0, 2, 4, 6, 8]);
        assert_eq!(cpus("1-9:2/4"), [1, 2, 5, 6, 9]);
    }

    #[test]
    fn a_list_is_printed_sorted_and_joined() {
        assert_eq!("5,0-2,3,9".parse::<CpuList>().unwrap().to_string(), "0-3,5,9");
    }

    #[test]
    fn the_largest_number_is_printed_like_any_other() {
        let list: CpuList = [3, u32::MAX - 1, u32::MAX].into_iter().collect();
        assert_eq!(list.to_string(), "3,4294967294-4294967295");
    }

    #[test]
    fn errors_name_the_bad_piece() {
        for bad in ["x", "1-", "-1", "+1", "1-2-3", "4:2", "1..3"] {
            assert!(error(&format!("0,{bad},7")).starts_with(&format!("`{bad}` is not a CPU")));
        }
        assert!(error("0,").starts_with("`` is not a CPU"));
        assert!(error("0,7-3").contains("`7-3` runs backwards"));
        assert!(error("0-3:0").contains("`0-3:0` has an invalid stride"));
        assert!(error("0-3:3/2").contains("invalid stride"));
        assert!(error("0-4000000000").contains("above 65535"));
        assert!(error("99999999999999999999").contains("above 65535"));
    }

    #[test]
    fn json_holds_the_text() {
        let list: CpuList = serde_json::from_str("\"0-2,4\"").unwrap();
        assert_eq!(serde_json::to_string(&list).unwrap(), "\"0-2,4\"");
        assert!(serde_json::from_str::<CpuList>("\"3-1\"").is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(set in prop::collection::btree_set(0..=MAX_CPU, 0..40)) {
            let list: CpuList = set.iter().copied().collect();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }

        #[test]
        fn dense_sets_read_back_too(set in prop::collection::btree_set(0u32..64, 0..64)) {
            let list: CpuList = set.iter().copied().collect();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9,:/ -]{0,20}") {
            let _ = text.parse::<CpuList>();
        }
    }
}
