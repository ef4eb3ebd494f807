//! False sharing of the fields of a struct, and which fields to move apart.
//!
//! Two fields must be in different cache lines if calls that commute share the line of both but no byte. This is a graph:
//! its nodes are fields, its edges the pairs to separate. Fields without an edge between them can stay together, so the
//! fields of one colour of a colouring fit in the same lines. Fields that calls only read have no edges between them: they
//! get the first colour, and stay where they are. Of the others, the next is always one whose neighbours have the most
//! colours (Brélaz, "New methods to colour the vertices of a graph", CACM 1979). If two colours are enough, there are two;
//! otherwise, there may be more than necessary.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::cause::{Cause, sides};
use super::{SCHEMA, SharedLine, TestLine, Touched, Verdict};
use crate::datum::{FieldType, LINE_BYTES, Layouts};

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
    /// Fields to move, by name: each list to cache lines of its own. All other fields stay where they are.
    #[serde(rename = "move")]
    pub moved: Vec<Vec<String>>,
    /// The size of the struct in bytes if these fields move to its end. Fields in the gaps that they leave would make it
    /// smaller.
    pub grown: u64,
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
    /// The operations that read it while another call writes to its line, each with the number of tests.
    pub readers: BTreeMap<String, usize>,
}

/// A struct, as seen in the tests so far.
#[derive(Default)]
struct Seen {
    tests: usize,
    unlocks_tests: usize,
    /// By offset.
    fields: BTreeMap<u64, SharedField>,
    /// Pairs of offsets.
    edges: BTreeSet<[u64; 2]>,
}

impl Separations {
    /// The structs whose fields these tests share falsely.
    pub fn of<'t>(tests: impl IntoIterator<Item = &'t TestLine>, layouts: &Layouts) -> Self {
        let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
        for test in tests.into_iter().filter(|test| test.verdict == Verdict::Conflict) {
            let operations = test.operations();
            let lines = test.conflicts.iter();
            let structs: Vec<Option<Shared<'_>>> =
                lines.map(|line| Shared::of(line, layouts)).collect();
            let all: BTreeSet<&str> = structs.iter().flatten().map(|shared| shared.of).collect();
            // A test is freed if all that it shares are fields of this struct.
            let is_only = all.len() == 1 && structs.iter().all(Option::is_some);
            for of in all {
                let seen = seen.entry(of).or_default();
                seen.tests += 1;
                seen.unlocks_tests += usize::from(is_only);
            }
            for shared in structs.into_iter().flatten() {
                seen.entry(shared.of).or_default().learn(&shared, &operations);
            }
        }
        let finish = |(name, seen): (&str, Seen)| {
            seen.finish(name, layouts.structs.get(name).map_or(0, |layout| layout.bytes))
        };
        let mut structs: Vec<Separation> = seen.into_iter().map(finish).collect();
        structs.sort_by_key(|of| (Reverse(of.unlocks_tests), Reverse(of.tests)));
        Self { schema: SCHEMA, structs }
    }
}

/// A line with fields of one struct that calls share falsely.
struct Shared<'l> {
    of: &'l str,
    /// The fields of the call that wrote the line, and those of the others; see [`Datum`](crate::Datum).
    fields: [Vec<(&'l str, &'l FieldType)>; 2],
    line: &'l SharedLine,
}

impl<'l> Shared<'l> {
    /// `None` if this is something else.
    fn of(line: &'l SharedLine, layouts: &'l Layouts) -> Option<Self> {
        let [datum] = line.data.as_slice() else { return None };
        let sides = sides(datum).filter(|_| Cause::of(datum, layouts) == Cause::Layout)?;
        let field = |name: &'l str| {
            // `per-cpu cpu_tlbstate.ctxs (directory)`: the path in the struct follows the first point.
            let path = name.split_once('.').map_or(name, |(_, path)| path);
            let path = path.split_once(" (").map_or(path, |(path, _)| path);
            Some((path, layouts.fields.get(name)?))
        };
        let side = |names: &'l str| names.split(", ").map(field).collect::<Option<Vec<_>>>();
        let fields = [side(sides[0])?, side(sides[1])?];
        let of = &*fields[0].first()?.1.within;
        let is_of_it = |(_, field): &(&str, &FieldType)| field.within == of;
        fields.iter().flatten().all(is_of_it).then_some(Self { of, fields, line })
    }
}

impl Seen {
    fn learn(&mut self, Shared { fields, line, .. }: &Shared<'_>, operations: &[&str]) {
        // If all calls write, the first list has the fields of the call that writes the first byte.
        let first =
            line.sides.iter().filter(|(_, side)| side.wrote).min_by_key(|(_, s)| s.bytes[0]);
        let first = first.map(|(&nr, _)| nr);
        for (list, of_first) in fields.iter().zip([true, false]) {
            for (name, FieldType { of, offset, bytes, .. }) in list {
                let field = self.fields.entry(*offset).or_insert_with(|| SharedField {
                    name: (*name).to_owned(),
                    of: of.clone(),
                    offset: *offset,
                    bytes: *bytes,
                    ..SharedField::default()
                });
                for (nr, Touched { wrote, .. }) in &line.sides {
                    if (Some(*nr) == first) == of_first {
                        let users = if *wrote { &mut field.writers } else { &mut field.readers };
                        let operation = operations.get(*nr).copied().unwrap_or("?");
                        *users.entry(operation.to_owned()).or_default() += 1;
                    }
                }
            }
        }
        for (_, one) in &fields[0] {
            for (_, other) in fields[1].iter().filter(|(_, other)| other.offset != one.offset) {
                let pair = [one.offset, other.offset];
                self.edges.insert([pair[0].min(pair[1]), pair[0].max(pair[1])]);
            }
        }
    }

    fn finish(self, name: &str, bytes: u64) -> Separation {
        let Self { tests, unlocks_tests, fields, edges } = self;
        let mut colours = colours(&fields, &edges);
        colours.iter_mut().for_each(|colour| colour.sort_unstable());
        let bytes_of = |colour: &Vec<u64>| colour.iter().map(|at| fields[at].bytes).sum::<u64>();
        let moved = colours.get(1..).unwrap_or_default();
        let lines: u64 = moved.iter().map(|colour| bytes_of(colour).div_ceil(LINE_BYTES)).sum();
        let grown = bytes.div_ceil(LINE_BYTES).saturating_add(lines).saturating_mul(LINE_BYTES);
        let names = |colour: &Vec<u64>| colour.iter().map(|at| fields[at].name.clone()).collect();
        let moved = moved.iter().map(names).collect();
        let (name, fields) = (name.to_owned(), fields.into_values().collect());
        Separation { name, bytes, tests, unlocks_tests, fields, moved, grown }
    }
}

/// The offsets of the fields of each colour; see the module. `edges` has the pairs of offsets, the lower one first.
fn colours(fields: &BTreeMap<u64, SharedField>, edges: &BTreeSet<[u64; 2]>) -> Vec<Vec<u64>> {
    let is_edge = |a: u64, b: u64| edges.contains(&[a.min(b), a.max(b)]);
    let (read, mut written): (Vec<u64>, Vec<u64>) =
        fields.keys().partition(|at| fields[at].writers.is_empty());
    let mut colours = if read.is_empty() { Vec::new() } else { vec![read] };
    loop {
        let has_neighbour =
            |colour: &&Vec<u64>, at: u64| colour.iter().any(|&other| is_edge(at, other));
        let neighbours =
            |at: u64| colours.iter().filter(|colour| has_neighbour(colour, at)).count();
        let next = (0..written.len()).max_by_key(|&nr| (neighbours(written[nr]), Reverse(nr)));
        let Some(at) = next.map(|nr| written.remove(nr)) else { break colours };
        match colours.iter_mut().find(|colour| !colour.iter().any(|&other| is_edge(at, other))) {
            Some(colour) => colour.push(at),
            None => colours.push(vec![at]),
        }
    }
}

/// The JSON schema of what `knee commute explain --layout --json` prints.
pub fn separation_schema() -> serde_json::Value {
    schemars::schema_for!(Separations).to_value()
}

#[cfg(test)]
mod tests {
    use snapbox::{assert_data_eq, file};

    use super::super::samples::{conflicting, free};
    use super::*;
    use crate::datum::Layout;

    /// The layout of a struct with these fields of 8 bytes.
    fn layouts(fields: &[&str]) -> Layouts {
        let mut layouts = Layouts::default();
        for (nr, name) in (0..).zip(fields) {
            let (of, within) = ("long".to_owned(), "s".to_owned());
            let field = FieldType { of, within, offset: 8 * nr, bytes: 8 };
            layouts.fields.insert(format!("s.{name}"), field);
        }
        let layout = Layout { bytes: 8 * fields.len() as u64, members: Vec::new() };
        layouts.structs.insert("s".to_owned(), layout);
        layouts
    }

    /// A test whose calls share these lines falsely.
    fn falsely(test: &str, names: &[&str]) -> TestLine {
        let mut test = conflicting(test, names);
        test.conflicts.iter_mut().for_each(|line| line.same_bytes = false);
        test
    }

    #[test]
    fn the_committed_schema_matches_the_code() {
        let schema = format!("{:#}\n", separation_schema());
        assert_data_eq!(schema, file!["../../schemas/check-layout.schema.json"].raw());
    }

    #[test]
    fn a_field_that_calls_write_moves_away_from_the_fields_beside_it() {
        let tests = [
            falsely("open,stat/0", &["s.count / s.uid, s.gid"]),
            falsely("open,stat/1", &["s.count / s.gid", "other.x / other.y"]),
            conflicting("open,stat/2", &["s.count"]),
            free("open,stat/3"),
        ];
        let of = Separations::of(&tests, &layouts(&["count", "uid", "gid"]));
        let [found] = of.structs.as_slice() else { panic!("{of:?}") };
        assert_eq!((&*found.name, found.bytes, found.grown), ("s", 24, 128));
        assert_eq!((found.tests, found.unlocks_tests), (2, 1));
        assert_eq!(found.moved, [["count"]]);
        let [count, uid, gid] = found.fields.as_slice() else { panic!("{found:?}") };
        assert_eq!(count.writers, [("open".to_owned(), 2)].into());
        assert_eq!((uid.readers["stat"], gid.readers["stat"]), (1, 2));
        assert!(count.readers.is_empty() && uid.writers.is_empty());
    }

    #[test]
    fn fields_that_share_no_line_falsely_with_each_other_stay_together() {
        let tests = [
            falsely("a,b/0", &["s.a / s.b"]),
            falsely("a,b/1", &["s.b / s.c"]),
            falsely("a,b/2", &["s.c / s.d"]),
        ];
        let of = Separations::of(&tests, &layouts(&["a", "b", "c", "d"]));
        assert_eq!(of.structs[0].moved, [["a", "c"]], "d is only read");
    }

    #[test]
    fn elements_of_a_table_and_fields_of_unknown_structs_have_no_layout() {
        let tests = [falsely("a,b/0", &["s.a / s.a", "t.a / t.b"])];
        assert_eq!(Separations::of(&tests, &layouts(&["a", "b"])).structs, []);
    }
}
