//! False sharing of the fields of a struct, and which fields to move apart.
//!
//! Two fields must be in different cache lines if one call writes the first while another call accesses the second in the
//! same line. These pairs are the edges of a graph, whose nodes are the fields of one line, and the fields of one colour of
//! a colouring can stay together. Fields of different lines never get the same target: that no test needed them apart does
//! not mean that they can be together. Fields that calls only read have no edges between them: they get the first colour,
//! and stay where they are. Then the search repeatedly colours the field whose neighbours have the most different colours
//! (Brélaz, "New methods to color the vertices of a graph", CACM 1979). There may be more colours than necessary.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::{SCHEMA, SharedLine, TestLine, Verdict};
use crate::datum::{Access, FalselyShared, LINE_BYTES, Layouts, Member};

/// Structs whose layout the hardware or the memory allocator fixes.
const FIXED: [&str; 4] = ["page", "slab", "ptdesc", "folio"];

/// The structs whose fields tests share falsely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "Separations")]
pub struct Separations {
    /// Version of this document: 1.
    pub schema: u32,
    /// In descending order: first by the number of tests that would become conflict-free, then by the number of tests.
    pub structs: Vec<Separation>,
}

/// A struct, and how to separate its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Separation {
    /// The name of the struct.
    #[serde(rename = "struct")]
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The number of tests whose calls share different fields of this struct in one line, in every run.
    pub tests: usize,
    /// The number of tests that would become conflict-free if the fields were apart.
    #[serde(rename = "frees")]
    pub unlocks_tests: usize,
    /// The fields that these tests share, in the order of their offsets.
    pub fields: Vec<SharedField>,
    /// The pairs of these fields that must be in different lines.
    pub apart: BTreeSet<[String; 2]>,
    /// Groups of fields to move; each group gets its own cache lines. All other fields stay where they are.
    #[serde(rename = "move")]
    pub moved: Vec<Vec<String>>,
    /// The maximum size of the struct in bytes if these groups move to its end. Filling the gaps that they leave would make
    /// it smaller.
    pub grown: u64,
    /// All fields of the struct; empty unless requested.
    pub members: Vec<Member>,
}

/// A field of a struct that calls share falsely.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SharedField {
    /// The path to the field in the struct.
    pub name: String,
    /// Its type as in C.
    #[serde(rename = "type")]
    pub of: String,
    /// Its offset in the struct, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The operations that write it while another call uses its line, each with the number of tests.
    pub writers: BTreeMap<String, usize>,
    /// The operations that only read it while another call writes to its line, each with the number of tests.
    pub readers: BTreeMap<String, usize>,
}

/// The offset of a field, and its name: fields of a union have the same offset.
type Key<'l> = (u64, &'l str);

/// A struct, as seen in the tests so far.
#[derive(Default)]
struct Seen<'l> {
    tests: usize,
    unlocks_tests: usize,
    fields: BTreeMap<Key<'l>, SharedField>,
    /// By the offset of a line: its fields, and the pairs of fields that must be apart, the lower one first.
    lines: BTreeMap<i64, (BTreeSet<Key<'l>>, BTreeSet<[Key<'l>; 2]>)>,
}

impl Separations {
    /// The structs whose fields these tests share falsely.
    pub fn of<'t>(tests: impl IntoIterator<Item = &'t TestLine>, layouts: &Layouts) -> Self {
        let mut seen: BTreeMap<&str, Seen<'_>> = BTreeMap::new();
        for test in tests.into_iter().filter(|test| test.verdict == Verdict::Conflict) {
            let objects: Vec<Option<&FalselyShared>> = test.conflicts.iter().map(object).collect();
            let mut by_struct: BTreeMap<&str, Vec<&FalselyShared>> = BTreeMap::new();
            for object in objects.iter().flatten() {
                by_struct.entry(&object.within).or_default().push(object);
            }
            // The test becomes conflict-free only if all its conflicts are false sharing in this struct.
            let is_only = by_struct.len() == 1 && objects.iter().all(Option::is_some);
            for (of, objects) in by_struct {
                let seen = seen.entry(of).or_default();
                seen.tests += 1;
                seen.unlocks_tests += usize::from(is_only);
                seen.learn(&objects, &test.operations());
            }
        }
        let finish = |(name, seen): (&str, Seen<'_>)| {
            seen.finish(name, layouts.structs.get(name).map_or(0, |layout| layout.bytes))
        };
        let mut structs: Vec<Separation> = seen.into_iter().map(finish).collect();
        structs.sort_by_key(|of| (Reverse(of.unlocks_tests), Reverse(of.tests)));
        Self { schema: SCHEMA, structs }
    }
}

/// The object whose fields share this line; `None` if that is not known, or if they cannot move.
fn object(line: &SharedLine) -> Option<&FalselyShared> {
    let object = line.object.as_ref().filter(|_| !line.same_bytes && !line.by_position)?;
    (!FIXED.contains(&&*object.within)).then_some(object)
}

fn key(access: &Access) -> Key<'_> {
    (access.offset, &access.name)
}

impl<'l> Seen<'l> {
    /// Adds the lines of one test.
    fn learn(&mut self, objects: &[&'l FalselyShared], operations: &[&str]) {
        let mut users = BTreeSet::new();
        for object in objects {
            let (fields, apart) = self.lines.entry(object.offset).or_default();
            for access in &object.fields {
                fields.insert(key(access));
                users.insert((key(access), access.wrote, access.call));
                self.fields.entry(key(access)).or_insert_with(|| SharedField {
                    name: access.name.clone(),
                    of: access.of.clone(),
                    offset: access.offset,
                    bytes: access.bytes,
                    ..SharedField::default()
                });
                for other in object.fields.iter().filter(|other| other.call != access.call) {
                    let [one, other] = [key(access).min(key(other)), key(access).max(key(other))];
                    if one != other && access.wrote {
                        apart.insert([one, other]);
                    }
                }
            }
        }
        // Calls of one operation count once for each test and field.
        let operation = |call: usize| operations.get(call).copied().unwrap_or("?");
        let users: BTreeSet<_> =
            users.into_iter().map(|(key, wrote, call)| (key, wrote, operation(call))).collect();
        for (key, wrote, operation) in users {
            let Some(field) = self.fields.get_mut(&key) else { continue };
            let by = if wrote { &mut field.writers } else { &mut field.readers };
            *by.entry(operation.to_owned()).or_default() += 1;
        }
    }

    fn finish(self, name: &str, bytes: u64) -> Separation {
        let Self { tests, unlocks_tests, fields, lines } = self;
        let is_read = |key: &Key<'_>| fields[key].writers.is_empty();
        let mut moved: Vec<Vec<Key<'_>>> = Vec::new();
        for (fields, apart) in lines.values() {
            for mut group in colours(fields, apart, &is_read).into_iter().skip(1) {
                // A field can be in two lines.
                group.retain(|key| !moved.iter().flatten().any(|moved| moved == key));
                moved.extend((!group.is_empty()).then_some(group));
            }
        }
        // At the end of the struct, a group may need padding between its fields.
        let bytes_of = |group: &Vec<Key<'_>>| -> u64 {
            group.iter().map(|key| fields[key].bytes.next_multiple_of(8)).sum()
        };
        let added: u64 = moved.iter().map(|group| bytes_of(group).div_ceil(LINE_BYTES)).sum();
        let grown = bytes.div_ceil(LINE_BYTES).saturating_add(added).saturating_mul(LINE_BYTES);
        let pairs = lines.values().flat_map(|(_, apart)| apart);
        Separation {
            name: name.to_owned(),
            bytes,
            tests,
            unlocks_tests,
            apart: pairs.map(|pair| pair.map(|(_, name)| name.to_owned())).collect(),
            moved: moved
                .iter()
                .map(|group| group.iter().map(|(_, name)| (*name).to_owned()).collect())
                .collect(),
            grown,
            members: Vec::new(),
            fields: fields.into_values().collect(),
        }
    }
}

/// The fields of each colour, in the order of their offsets; see the module. Those of the first colour stay in the line.
fn colours<'l>(
    fields: &BTreeSet<Key<'l>>,
    apart: &BTreeSet<[Key<'l>; 2]>,
    is_read: &dyn Fn(&Key<'_>) -> bool,
) -> Vec<Vec<Key<'l>>> {
    let is_edge = |a: Key<'l>, b: Key<'l>| apart.contains(&[a.min(b), a.max(b)]);
    let (read, mut written): (Vec<_>, Vec<_>) = fields.iter().copied().partition(is_read);
    let mut colours = if read.is_empty() { Vec::new() } else { vec![read] };
    loop {
        let is_beside =
            |colour: &Vec<Key<'l>>, key| colour.iter().any(|&other| is_edge(key, other));
        let neighbours = |key| colours.iter().filter(|colour| is_beside(colour, key)).count();
        let next = (0..written.len()).max_by_key(|&nr| (neighbours(written[nr]), Reverse(nr)));
        let Some(key) = next.map(|nr| written.remove(nr)) else { break };
        match colours.iter_mut().find(|colour| !is_beside(colour, key)) {
            Some(colour) => colour.push(key),
            None => colours.push(vec![key]),
        }
    }
    colours.iter_mut().for_each(|colour| colour.sort_unstable());
    colours
}

/// The JSON schema of what `knee commute explain --layout --json` prints.
pub fn separation_schema() -> serde_json::Value {
    schemars::schema_for!(Separations).to_value()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use snapbox::assert_data_eq;

    use super::super::samples::{conflicting, free};
    use super::*;
    use crate::datum::Layout;

    /// A line of a struct with fields of 8 bytes, by number. For each call, the fields that it accesses; those that it
    /// writes are negative.
    fn line(within: &str, calls: &[&[i64]]) -> SharedLine {
        let access = |call: usize, field: i64| Access {
            call,
            wrote: field < 0,
            name: format!("f{}", field.abs()),
            of: "long".to_owned(),
            offset: 8 * (field.unsigned_abs() - 1),
            bytes: 8,
        };
        let of_call = |(call, fields): (usize, &&[i64])| -> Vec<Access> {
            fields.iter().map(|field| access(call, *field)).collect()
        };
        let fields = calls.iter().enumerate().flat_map(of_call).collect();
        let mut line = conflicting("a,b/0", &["s.a / s.b"]).conflicts.remove(0);
        line.same_bytes = false;
        line.object = Some(FalselyShared { within: within.to_owned(), offset: 0, fields });
        line
    }

    fn test(id: &str, lines: Vec<SharedLine>) -> TestLine {
        TestLine { conflicts: lines, ..conflicting(id, &["x"]) }
    }

    fn layouts(bytes: u64) -> Layouts {
        let layout = Layout { bytes, members: Vec::new() };
        Layouts { structs: [("s".to_owned(), layout)].into(), ..Layouts::default() }
    }

    #[test]
    fn the_committed_schema_matches_the_code() {
        let schema = format!("{:#}\n", separation_schema());
        assert_data_eq!(schema, snapbox::file!["../../schemas/check-layout.schema.json"].raw());
    }

    #[test]
    fn a_field_that_calls_write_moves_away_from_those_that_others_read() {
        let tests = [
            test("open,stat/0", vec![line("s", &[&[-1, 4], &[2, 3]])]),
            test("open,stat/1", vec![line("s", &[&[-1], &[3]]), line("t", &[&[-1], &[2]])]),
            conflicting("open,stat/2", &["s.f1"]),
            free("open,stat/3"),
        ];
        let found = Separations::of(&tests, &layouts(32));
        let of = &found.structs[0];
        assert_eq!((&*of.name, of.bytes, of.grown), ("s", 32, 128));
        assert_eq!((of.tests, of.unlocks_tests), (2, 1));
        assert_eq!(of.moved, [["f1"]], "what the writer itself reads can stay beside its field");
        let pairs = [["f1", "f2"], ["f1", "f3"]].map(|pair| pair.map(str::to_owned));
        assert_eq!(of.apart, pairs.into());
        let [count, uid, gid, own] = of.fields.as_slice() else { panic!("{of:?}") };
        assert_eq!(count.writers, [("open".to_owned(), 2)].into());
        assert_eq!((uid.readers["stat"], gid.readers["stat"]), (1, 2));
        assert_eq!(own.readers, [("open".to_owned(), 1)].into());
    }

    #[test]
    fn each_of_two_writers_is_credited_with_its_own_fields() {
        let lines = vec![line("s", &[&[-2, 3], &[-1]])];
        let found = Separations::of(&[test("close,read/0", lines)], &layouts(24));
        let [of] = found.structs.as_slice() else { panic!("{found:?}") };
        assert_eq!(of.fields[0].writers, [("read".to_owned(), 1)].into());
        assert_eq!(of.fields[1].writers, [("close".to_owned(), 1)].into());
        assert_eq!(of.moved, [["f1"]]);
    }

    #[test]
    fn an_operation_counts_once_for_each_test_and_field() {
        let lines = || vec![line("s", &[&[-1], &[2], &[2]]), line("s", &[&[-1], &[2], &[2]])];
        let found = Separations::of(&[test("open,stat,stat/0", lines())], &layouts(16));
        assert_eq!(found.structs[0].fields[1].readers, [("stat".to_owned(), 1)].into());
    }

    #[test]
    fn fields_of_different_lines_get_different_lines() {
        let mut other = line("s", &[&[-9], &[10]]);
        other.object.as_mut().unwrap().offset = 64;
        let tests = [test("a,b/0", vec![line("s", &[&[-1], &[2]]), other])];
        assert_eq!(Separations::of(&tests, &layouts(128)).structs[0].moved, [["f1"], ["f9"]]);
    }

    #[test]
    fn true_sharing_and_structs_that_the_hardware_fixes_get_no_advice() {
        let mut same = line("s", &[&[-1], &[2]]);
        same.same_bytes = true;
        let tests = [test("a,b/0", vec![same, line("slab", &[&[-1], &[2]])])];
        assert_eq!(Separations::of(&tests, &layouts(16)).structs, []);
    }

    /// The names of two fields that must be apart but are not.
    fn unseparated(of: &Separation) -> Option<&[String; 2]> {
        let moved: BTreeSet<&String> = of.moved.iter().flatten().collect();
        let stay = of.fields.iter().map(|field| &field.name);
        let stay: Vec<&String> = stay.filter(|name| !moved.contains(name)).collect();
        let groups = of.moved.iter().map(|group| group.iter().collect::<Vec<_>>());
        let groups: Vec<Vec<&String>> = groups.chain([stay]).collect();
        let is_together = |pair: &&[String; 2]| {
            groups.iter().any(|group| pair.iter().all(|name| group.contains(&name)))
        };
        of.apart.iter().find(is_together)
    }

    /// Fields of a call, and whether it writes them.
    fn accesses() -> impl Strategy<Value = Vec<i64>> {
        prop::collection::vec(prop_oneof![1_i64..9, -8_i64..0], 1..4)
    }

    proptest! {
        #[test]
        fn no_two_fields_that_must_be_apart_get_the_same_line(
            calls in prop::collection::vec((accesses(), accesses()), 1..12),
        ) {
            let lines = calls.iter().map(|(a, b)| line("s", &[a, b])).collect();
            for of in Separations::of(&[test("a,b/0", lines)], &layouts(64)).structs {
                prop_assert_eq!(unseparated(&of), None);
            }
        }
    }
}
