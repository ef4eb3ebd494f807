//! `check.json`, which describes the tests of a record and the kernel or program that they check.

use std::path::Path;
use std::str::FromStr;
use std::{fmt, io};

use knee_host::RegularFile;
use knee_host::digest::sha256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SCHEMA;
use crate::kernel::Kernel;

/// Maximum number of shards. No check needs this many machines. The limit bounds the work that an invalid
/// file can cause.
const MAX_SHARDS: usize = 1 << 16;
/// The `kind` that distinguishes `check.json` from other documents.
pub(super) const KIND: &str = "commute check";

/// `check.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Version of this format: 1.
    pub schema: u32,
    /// `commute check`.
    pub kind: String,
    /// Whether every test of the shard has a line in `tests.jsonl`.
    pub complete: bool,
    /// When the check began, in UTC: `2026-11-21T09:00:00Z`.
    pub began: String,
    /// When knee last exited, in UTC; `null` while knee runs, or if it was killed.
    pub ended: Option<String>,
    /// Version of knee that began the check.
    pub knee_version: String,
    /// Version of QEMU, as QEMU reports it.
    pub qemu: String,
    /// The first 16 hexadecimal digits of the SHA-256 of knee's plugin for QEMU; missing from records
    /// of older versions of knee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// What was checked.
    #[serde(flatten)]
    pub tested: Tested,
    /// All tests of the check, by their ids. If the check has `sets`, only the tests of this shard.
    pub tests: Ids,
    /// If shards divide sets of operations among themselves: all sets of the check. The id of a set consists
    /// of its operations and the maximum number of tests of a situation: `open,link,stat/128`. Missing if
    /// shards divide the tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sets: Option<Ids>,
    /// The shard in this record.
    pub shard: Shard,
}

/// A tool that traces tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// QEMU, identified by its version.
    Qemu,
    /// knee's plugin for QEMU, identified by `plugin` in `check.json`.
    Plugin,
}

/// A tool that differs between two checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolChange {
    /// The tool.
    pub tool: Tool,
    /// The tool's version in the first check.
    pub before: String,
    /// The tool's version in the second check.
    pub after: String,
}

/// Displays a warning: `QEMU differs (7.2.22, then 10.0.13), so verdicts may differ for that reason alone`.
impl fmt::Display for ToolChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after, tool } = self;
        let tool = match tool {
            Tool::Qemu => "QEMU",
            Tool::Plugin => "knee's plugin for QEMU",
        };
        write!(
            f,
            "{tool} differs ({before}, then {after}), so verdicts may differ for that reason alone"
        )
    }
}

/// What was checked: a kernel with a file system, knee's own kernel, or a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Tested {
    /// The system calls of a kernel.
    Kernel {
        /// The kernel.
        kernel: TestedKernel,
        /// The file system of the tests' files, such as `tmpfs`.
        file_system: String,
    },
    /// The system calls of a build of knee's own kernel.
    GuestKernel {
        /// The file of the kernel.
        guest_kernel: TestedProgram,
    },
    /// The library that a program calls.
    Program {
        /// The program.
        program: TestedProgram,
    },
}

/// Displays Linux as `Linux 6.1.0-50-cloud-amd64, tmpfs`, and anything else as the name of its file.
impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel { kernel, file_system } => {
                write!(f, "Linux {}, {file_system}", kernel.release)
            }
            Self::GuestKernel { guest_kernel: file } | Self::Program { program: file } => {
                f.write_str(&file.name)
            }
        }
    }
}

/// A kernel that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestedKernel {
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// SHA-256 of the kernel's image, in hexadecimal. Two builds may have the same release.
    pub image: String,
}

impl TestedKernel {
    /// The description of a kernel.
    pub fn of(kernel: &Kernel) -> Self {
        Self { release: kernel.release().to_owned(), image: sha256(kernel.image()) }
    }
}

/// A program, or a build of knee's own kernel, that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestedProgram {
    /// The name of the file, without directories.
    pub name: String,
    /// SHA-256 of the file, in hexadecimal. The digest does not cover shared libraries.
    pub file: String,
}

impl TestedProgram {
    /// The description of a file.
    pub fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, file: sha256(RegularFile::at(path).read()?) })
    }
}

impl TestedProgram {
    /// How `other` differs from this file. `what` is the word for such a file in the result: `program` or
    /// `kernel`.
    fn difference(&self, what: &str, other: &Self) -> Option<String> {
        if self.file == other.file {
            None
        } else if self.name == other.name {
            Some(format!("the {what} is a different build of {}", self.name))
        } else {
            mismatch(&format!("the {what} is"), &self.name, &other.name)
        }
    }
}

/// A list of ids, for comparison with another list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ids {
    /// The number of ids.
    pub count: usize,
    /// SHA-256 of the ids in order, each id followed by a newline, in hexadecimal.
    pub digest: String,
}

impl Ids {
    /// The list of these ids, in this order.
    pub fn of(ids: impl Iterator<Item = impl AsRef<str>>) -> Self {
        let mut lines = String::new();
        let mut count = 0;
        for id in ids {
            lines += id.as_ref();
            lines.push('\n');
            count += 1;
        }
        Self { count, digest: sha256(lines) }
    }
}

/// The first 16 hexadecimal digits of the SHA-256 of the plugin with which this version of knee traces.
pub fn plugin_digest() -> String {
    let mut digest = sha256(knee_artefacts::PLUGIN);
    digest.truncate(16);
    digest
}

/// A part of a check: shard `I/N` has every N-th test or set of operations, starting with the I-th.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shard {
    /// The number of this shard, from 1.
    pub index: usize,
    /// The number of shards.
    pub of: usize,
}

impl Shard {
    /// The only shard of a check that is not divided.
    pub const WHOLE: Self = Self { index: 1, of: 1 };

    /// Whether the test or the set with this number, from 0, is part of the shard.
    pub fn has(self, nr: usize) -> bool {
        nr % self.of == self.index - 1
    }

    /// Removes the tests or sets that are not part of the shard. `all` must contain all tests or sets of the
    /// check.
    pub fn retain<T>(self, all: &mut Vec<T>) {
        let mut nrs = 0..;
        all.retain(|_| nrs.next().is_some_and(|nr| self.has(nr)));
    }

    /// How many of `count` tests or sets are part of the shard.
    pub fn size(self, count: usize) -> usize {
        count / self.of + usize::from(count % self.of >= self.index)
    }

    pub(super) fn is_possible(self) -> bool {
        (1..=self.of).contains(&self.index) && self.of <= MAX_SHARDS
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// The error for a text that is not a valid shard `I/N`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a shard as I/N, such as 2/4, with I from 1 to N and N at most {MAX_SHARDS}")]
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
    /// A check that begins now. `began` is the current time.
    pub fn begin(
        began: String,
        tested: Tested,
        (tests, sets): (Ids, Option<Ids>),
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
            plugin: Some(plugin_digest()),
            tested,
            tests,
            sets,
            shard,
        }
    }

    /// The number of tests in the shard.
    pub fn expected(&self) -> usize {
        match self.sets {
            None => self.shard.size(self.tests.count),
            Some(_) => self.tests.count,
        }
    }

    /// The tools that differ between this check and a later one. Such a difference alone may change
    /// verdicts. Leaves out a tool that is missing from either description.
    pub fn tool_changes(&self, after: &Self) -> Vec<ToolChange> {
        let plugin = |check: &Self| check.plugin.clone().unwrap_or_default();
        let changes = [
            (Tool::Qemu, self.qemu.clone(), after.qemu.clone()),
            (Tool::Plugin, plugin(self), plugin(after)),
        ];
        let differs =
            |before: &str, after: &str| !before.is_empty() && !after.is_empty() && before != after;
        changes
            .into_iter()
            .filter(|(_, before, after)| differs(before, after))
            .map(|(tool, before, after)| ToolChange { tool, before, after })
            .collect()
    }

    /// How `other` differs from this check; `None` if both are the same check.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let (a, b) = (self, other);
        let tested = a.tested.difference(&b.tested);
        // If shards divide sets of operations, different shards have different tests.
        let compares_tests = a.sets.is_none() || a.shard.index == b.shard.index;
        if tested.is_some() {
            tested
        } else if a.sets != b.sets {
            Some(
                match (&a.sets, &b.sets) {
                    (Some(_), Some(_)) => {
                        "the sets of operations are different, or the limit of tests"
                    }
                    _ => "only one of them divides sets of operations into shards",
                }
                .to_owned(),
            )
        } else if a.shard.of != b.shard.of {
            mismatch("the number of shards is", &a.shard.of, &b.shard.of)
        } else if !compares_tests {
            None
        } else if a.tests.count != b.tests.count {
            mismatch("the number of tests is", &a.tests.count, &b.tests.count)
        } else if a.tests.digest != b.tests.digest {
            Some(format!("the {} tests are different, or in a different order", a.tests.count))
        } else {
            None
        }
    }
}

impl Tested {
    fn difference(&self, other: &Self) -> Option<String> {
        match (self, other) {
            (
                Self::Kernel { kernel: a, file_system: a_files },
                Self::Kernel { kernel: b, file_system: b_files },
            ) => {
                if a.release != b.release {
                    mismatch("the kernel is", &a.release, &b.release)
                } else if a.image != b.image {
                    Some(format!("the kernel is a different image of {}", a.release))
                } else if a_files != b_files {
                    mismatch("files are on", a_files, b_files)
                } else {
                    None
                }
            }
            (Self::Program { program: a }, Self::Program { program: b }) => {
                a.difference("program", b)
            }
            (Self::GuestKernel { guest_kernel: a }, Self::GuestKernel { guest_kernel: b }) => {
                a.difference("kernel", b)
            }
            (a, b) => mismatch("what was checked is", a, b),
        }
    }
}

/// Formats a difference.
fn mismatch(what: &str, a: &dyn fmt::Display, b: &dyn fmt::Display) -> Option<String> {
    Some(format!("{what} {a}, not {b}"))
}

/// The JSON schema of `check.json`.
pub fn check_schema() -> serde_json::Value {
    schemars::schema_for!(Check).to_value()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use snapbox::assert_data_eq;

    use super::super::samples::{check, guest_kernel, kernel, program};
    use super::*;

    #[test]
    fn the_committed_schema_matches_the_code() {
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
    fn the_digest_depends_on_order_and_boundaries() {
        let digest = |ids: &[&str]| Ids::of(ids.iter()).digest;
        // printf 'a\nb\n' | sha256sum
        let known = "911169ddaaf146aff539f58c26c489af3b892dff0fe283c1c264c65ae5aa59a2";
        assert_eq!(digest(&["a", "b"]), known);
        assert_ne!(digest(&["a", "b"]), digest(&["b", "a"]));
        assert_ne!(digest(&["a", "b"]), digest(&["ab"]));
    }

    #[test]
    fn a_difference_is_named() {
        let one = check(Shard::WHOLE, &["a,a/0"]);
        let differs = |change: fn(&mut Check)| {
            let mut other = one.clone();
            change(&mut other);
            one.difference(&other)
        };
        assert_eq!(differs(|c| c.shard.index = 2), None);
        assert!(differs(|c| c.tests.count = 2).unwrap().contains("number of tests is 1, not 2"));
        assert!(differs(|c| c.tests.digest.clear()).unwrap().contains("tests are different"));
        assert!(differs(|c| c.shard.of = 2).unwrap().contains("number of shards is 1, not 2"));
        let sets = differs(|c| c.sets = Some(Ids::of(["a,a,a/128"].iter())));
        assert!(sets.unwrap().contains("only one of them divides sets"));
    }

    #[test]
    fn shards_of_sets_have_tests_of_their_own() {
        let sets = |ids: &[&str]| Some(Ids::of(ids.iter()));
        let one = Check {
            sets: sets(&["a,a,a/9", "a,a,b/9"]),
            ..check(Shard { index: 1, of: 2 }, &["a,a,a/0", "a,a,a/1"])
        };
        assert_eq!(one.expected(), 2);
        let two =
            Check { sets: one.sets.clone(), ..check(Shard { index: 2, of: 2 }, &["a,a,b/0"]) };
        assert_eq!((two.expected(), one.difference(&two)), (1, None));
        let changed = Check { tests: two.tests.clone(), ..one.clone() };
        assert!(one.difference(&changed).unwrap().contains("number of tests is 2, not 1"));
        let other = Check { sets: sets(&["a,a,a/1", "a,a,b/1"]), ..two };
        assert!(one.difference(&other).unwrap().contains("sets of operations are different"));
    }

    #[test]
    fn another_qemu_or_plugin_is_a_change_of_tools_and_not_of_the_check() {
        let one = check(Shard::WHOLE, &["a,a/0"]);
        let changes = |after: Check| {
            assert_eq!(one.difference(&after), None);
            let changes = one.tool_changes(&after);
            changes.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(changes(one.clone()).is_empty());
        let messages = changes(Check { qemu: "10.0.13".to_owned(), ..one.clone() });
        let expected = "QEMU differs (7.2.22, then 10.0.13), so verdicts may differ";
        assert!(messages.len() == 1 && messages[0].starts_with(expected), "{messages:?}");
        let messages = changes(Check { plugin: Some("11".repeat(8)), ..one.clone() });
        assert!(
            messages.len() == 1 && messages[0].contains("plugin for QEMU differs (0000"),
            "{messages:?}"
        );
        assert!(changes(Check { plugin: None, qemu: String::new(), ..one.clone() }).is_empty());
        assert_eq!(plugin_digest().len(), 16);
    }

    #[test]
    fn a_record_without_a_plugin_is_read() {
        let old = Check { plugin: None, ..check(Shard::WHOLE, &["a,a/0"]) };
        let written = serde_json::to_value(&old).unwrap();
        assert!(written.get("plugin").is_none(), "{written:#}");
        assert_eq!(serde_json::from_value::<Check>(written).unwrap(), old);
    }

    #[test]
    fn kernels_and_programs_that_differ_are_named() {
        let differs = |a: &Tested, b: &Tested| a.difference(b).unwrap_or_default();
        let one = kernel("6.1.0-test");
        assert_eq!(differs(&one, &one), "");
        assert_eq!(differs(&one, &kernel("5.10")), "the kernel is 6.1.0-test, not 5.10");
        let change = |changed: fn(&mut TestedKernel, &mut String)| {
            let mut other = one.clone();
            let Tested::Kernel { kernel, file_system } = &mut other else { unreachable!() };
            changed(kernel, file_system);
            differs(&one, &other)
        };
        assert!(change(|kernel, _| kernel.image.clear()).contains("a different image"));
        let on_disk = change(|_, file_system| *file_system = "ext4".to_owned());
        assert_eq!(on_disk, "files are on tmpfs, not ext4");
        let map = |file: &str| program("map", file);
        assert_eq!(differs(&map("1"), &program("moved", "1")), "");
        assert_eq!(differs(&map("1"), &map("2")), "the program is a different build of map");
        assert_eq!(differs(&map("1"), &program("tree", "2")), "the program is map, not tree");
        let (own, other) = (guest_kernel("1"), guest_kernel("2"));
        assert_eq!(differs(&own, &other), "the kernel is a different build of knee-kernel");
        let both = differs(&one, &map("1"));
        assert_eq!(both, "what was checked is Linux 6.1.0-test, tmpfs, not map");
    }

    #[test]
    fn a_check_describes_either_a_kernel_or_a_program() {
        let kernel = (kernel("6.1"), vec!["kernel", "file_system"]);
        let (own, program) = (guest_kernel("1"), program("map", "1"));
        for (tested, expected) in [kernel, (own, vec!["guest_kernel"]), (program, vec!["program"])]
        {
            let check = Check { tested, ..check(Shard::WHOLE, &["a,a/0"]) };
            let written = serde_json::to_value(&check).unwrap();
            let members = ["kernel", "file_system", "guest_kernel", "program"].into_iter();
            assert_eq!(
                members.filter(|name| !written[name].is_null()).collect::<Vec<_>>(),
                expected
            );
            assert_eq!(serde_json::from_value::<Check>(written).unwrap(), check);
        }
    }

    proptest! {
        #[test]
        fn shards_are_disjoint_and_complete(count in 0usize..200, of in 1usize..20) {
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
