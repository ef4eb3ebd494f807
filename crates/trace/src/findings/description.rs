//! `check.json`: which kernel and tests a record is of.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::SCHEMA;
use crate::kernel::Kernel;

/// More than anybody has machines; so that what a file says can be counted.
const MOST_SHARDS: usize = 1 << 16;
/// What tells `check.json` from other documents.
pub(super) const KIND: &str = "commute check";

/// `check.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Version of this format: 1.
    pub schema: u32,
    /// `commute check`.
    pub kind: String,
    /// Whether every test of the shard has its line.
    pub complete: bool,
    /// When it began, in UTC: `2026-11-21T09:00:00Z`.
    pub began: String,
    /// When knee ended, the last time; `null` while it runs, or when it was killed.
    pub ended: Option<String>,
    /// Version of knee that began it.
    pub knee_version: String,
    /// Version of QEMU, as it says.
    pub qemu: String,
    /// The kernel.
    pub kernel: TestedKernel,
    /// What the tests' files are on: `tmpfs`.
    pub file_system: String,
    /// All tests of the check.
    pub tests: Tests,
    /// Which of these are here.
    pub shard: Shard,
}

/// A kernel that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestedKernel {
    /// As `uname -r` says in it.
    pub release: String,
    /// SHA-256 of its image, in hexadecimal: two builds may call themselves the same.
    pub image: String,
}

impl TestedKernel {
    /// Of a kernel.
    pub fn of(kernel: &Kernel) -> Self {
        Self {
            release: kernel.release().to_owned(),
            image: hexadecimal(Sha256::digest(kernel.image())),
        }
    }
}

/// Which tests there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tests {
    /// How many.
    pub count: usize,
    /// SHA-256 of their ids in order, a newline behind each, in hexadecimal.
    pub digest: String,
}

impl Tests {
    /// Those with these ids.
    pub fn of<'i>(ids: impl Iterator<Item = &'i str>) -> Self {
        let mut digest = Sha256::new();
        let mut count = 0;
        for id in ids {
            digest.update(id);
            digest.update("\n");
            count += 1;
        }
        Self { count, digest: hexadecimal(digest.finalize()) }
    }
}

fn hexadecimal(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Which part of a check: every `of`-th test, from the `index`-th on. `2/3` as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shard {
    /// From 1.
    pub index: usize,
    /// How many shards there are.
    pub of: usize,
}

impl Shard {
    /// All tests.
    pub const WHOLE: Self = Self { index: 1, of: 1 };

    /// Whether the test with this number, from 0, is part of it.
    pub fn has(self, nr: usize) -> bool {
        nr % self.of == self.index - 1
    }

    /// How many of `count` tests are part of it.
    pub fn size(self, count: usize) -> usize {
        count / self.of + usize::from(count % self.of >= self.index)
    }

    pub(super) fn is_possible(self) -> bool {
        (1..=self.of).contains(&self.index) && self.of <= MOST_SHARDS
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// A text that names no shard.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a shard is named i/n with i from 1 to n, such as 2/4, and n at most {MOST_SHARDS}")]
pub struct ShardError;

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let number = |text: &str| text.parse().map_err(|_| ShardError);
        let (index, of) = text.split_once('/').ok_or(ShardError)?;
        let shard = Self { index: number(index)?, of: number(of)? };
        if shard.is_possible() { Ok(shard) } else { Err(ShardError) }
    }
}

impl Check {
    /// One that begins now, which the caller knows.
    pub fn begin(
        began: String,
        kernel: &Kernel,
        file_system: &str,
        tests: Tests,
        shard: Shard,
        qemu: String,
    ) -> Self {
        Self {
            schema: SCHEMA,
            kind: KIND.to_owned(),
            complete: false,
            began,
            ended: None,
            knee_version: env!("CARGO_PKG_VERSION").to_owned(),
            qemu,
            kernel: TestedKernel::of(kernel),
            file_system: file_system.to_owned(),
            tests,
            shard,
        }
    }

    /// How many tests the shard has.
    pub fn expected(&self) -> usize {
        self.shard.size(self.tests.count)
    }

    /// What makes results of `other` no results of the same check, if anything does.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let (a, b) = (self, other);
        let of = |what: &str, a: &dyn fmt::Display, b: &dyn fmt::Display| {
            Some(format!("{what} {a}, not {b}"))
        };
        if a.kernel.release != b.kernel.release {
            of("the kernel is", &a.kernel.release, &b.kernel.release)
        } else if a.kernel.image != b.kernel.image {
            Some(format!("the kernel is another image of {}", a.kernel.release))
        } else if a.file_system != b.file_system {
            of("files are on", &a.file_system, &b.file_system)
        } else if a.tests.count != b.tests.count {
            of("the number of tests is", &a.tests.count, &b.tests.count)
        } else if a.tests.digest != b.tests.digest {
            Some(format!("the {} tests are others, or in another order", a.tests.count))
        } else if a.shard.of != b.shard.of {
            of("the number of shards is", &a.shard.of, &b.shard.of)
        } else {
            None
        }
    }
}

/// The JSON schema of `check.json`.
pub fn check_schema() -> serde_json::Value {
    schemars::schema_for!(Check).to_value()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use snapbox::assert_data_eq;

    use super::super::samples::check;
    use super::*;

    #[test]
    fn the_committed_schema_is_that_of_the_code() {
        let schema = format!("{:#}\n", check_schema());
        assert_data_eq!(schema, snapbox::file!["../../schemas/check.schema.json"].raw());
    }

    #[test]
    fn a_shard_is_named_by_two_numbers() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, of: 3 }));
        assert_eq!(Shard { index: 2, of: 3 }.to_string(), "2/3");
        for text in ["", "2", "0/3", "4/3", "0/0", "-1/3", "1/3/5", "1/x", "1/65537"] {
            assert_eq!(text.parse::<Shard>(), Err(ShardError), "{text:?}");
        }
    }

    #[test]
    fn the_digest_knows_order_and_boundaries() {
        let digest = |ids: &[&str]| Tests::of(ids.iter().copied()).digest;
        // printf 'a\nb\n' | sha256sum
        let known = "911169ddaaf146aff539f58c26c489af3b892dff0fe283c1c264c65ae5aa59a2";
        assert_eq!(digest(&["a", "b"]), known);
        assert_ne!(digest(&["a", "b"]), digest(&["b", "a"]));
        assert_ne!(digest(&["a", "b"]), digest(&["ab"]));
    }

    #[test]
    fn what_differs_is_named() {
        let one = check(Shard::WHOLE, &["a,a/0"]);
        let differs = |change: fn(&mut Check)| {
            let mut other = one.clone();
            change(&mut other);
            one.difference(&other)
        };
        assert_eq!(differs(|c| c.shard.index = 2), None);
        assert_eq!(
            differs(|c| c.kernel.release = "5.10".to_owned()).unwrap(),
            "the kernel is 6.1.0-test, not 5.10"
        );
        assert!(differs(|c| c.kernel.image.clear()).unwrap().contains("another image"));
        assert_eq!(
            differs(|c| c.file_system = "ext4".to_owned()).unwrap(),
            "files are on tmpfs, not ext4"
        );
        assert!(differs(|c| c.tests.count = 2).unwrap().contains("number of tests is 1, not 2"));
        assert!(differs(|c| c.tests.digest.clear()).unwrap().contains("tests are others"));
        assert!(differs(|c| c.shard.of = 2).unwrap().contains("number of shards is 1, not 2"));
    }

    proptest! {
        #[test]
        fn shards_are_disjoint_and_all_there_is(count in 0usize..200, of in 1usize..20) {
            let shards: Vec<Shard> = (1..=of).map(|index| Shard { index, of }).collect();
            for nr in 0..count {
                prop_assert_eq!(shards.iter().filter(|shard| shard.has(nr)).count(), 1);
            }
            for shard in shards {
                let here = (0..count).filter(|&nr| shard.has(nr)).count();
                prop_assert_eq!(shard.size(count), here);
            }
        }
    }
}
