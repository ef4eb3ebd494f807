//! Sample records for the tests of this module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use knee_agent::Outcome;
use proptest::prelude::*;

use super::description::KIND;
use super::{CHECK_FILE, TESTS_FILE};
use super::{Check, Ids, SCHEMA, Shard, SharedLine, TestLine, Touched, Verdict};
use super::{Tested, TestedKernel, TestedProgram};
use crate::datum::{Access, FalselyShared, FieldType, Layout, Layouts, Member};

/// The description of a check with these tests.
pub(super) fn check(shard: Shard, ids: &[&str]) -> Check {
    Check {
        schema: SCHEMA,
        kind: KIND.to_owned(),
        complete: false,
        began: "2026-11-21T09:00:00Z".to_owned(),
        ended: None,
        knee_version: "0.1.0".to_owned(),
        qemu: "7.2.22".to_owned(),
        plugin: Some("00".repeat(8)),
        tested: kernel("6.1.0-test"),
        tests: Ids::of(ids.iter()),
        sets: None,
        shard,
    }
}

/// A kernel of this release, whose tests use tmpfs.
pub(super) fn kernel(release: &str) -> Tested {
    let kernel = TestedKernel { release: release.to_owned(), image: "00".repeat(32) };
    Tested::Kernel { kernel, file_system: "tmpfs".to_owned() }
}

/// A build of knee's own kernel with this digest.
pub(super) fn guest_kernel(file: &str) -> Tested {
    let guest_kernel = TestedProgram { name: "knee-kernel".to_owned(), file: file.to_owned() };
    Tested::GuestKernel { guest_kernel }
}

/// A program of this name and digest.
pub(super) fn program(name: &str, file: &str) -> Tested {
    Tested::Program { program: TestedProgram { name: name.to_owned(), file: file.to_owned() } }
}

/// Writes a record as a killed knee process leaves it.
pub(super) fn record(dir: &Path, check: &Check, lines: &[TestLine]) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join(CHECK_FILE), serde_json::to_string(check).unwrap()).unwrap();
    let lines: String = lines.iter().map(TestLine::to_line).collect();
    std::fs::write(dir.join(TESTS_FILE), lines).unwrap();
}

pub(super) fn with(test: &str, verdict: Verdict, conflicts: Vec<SharedLine>) -> TestLine {
    let test = test.to_owned();
    let layouts = Layouts::default();
    TestLine { schema: SCHEMA, test, verdict, unexpected: None, died: None, conflicts, layouts }
}

pub(super) fn free(test: &str) -> TestLine {
    with(test, Verdict::ConflictFree, Vec::new())
}

/// A test whose calls share one line for each name; see [`shared`].
pub(super) fn conflicting(test: &str, names: &[&str]) -> TestLine {
    let lines = names.iter().enumerate().map(|(at, name)| shared(name, at)).collect();
    with(test, Verdict::Conflict, lines)
}

/// A line that call 0 writes and call 1 reads. `name` is the name of a datum or, after `?`, the
/// functions that write the line.
pub(super) fn shared(name: &str, at: usize) -> SharedLine {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let (data, writers) = match name.strip_prefix('?') {
        Some(writers) => (Vec::new(), words(writers)),
        None => (vec![name.to_owned()], words("write_it")),
    };
    let bytes = [0, 7];
    let touched = |wrote, writers, readers| {
        let callers = BTreeMap::new();
        Touched { bytes, wrote, writers, readers, callers }
    };
    let sides = [
        touched(true, writers, BTreeSet::new()),
        touched(false, BTreeSet::new(), words("read_it")),
    ];
    SharedLine {
        data,
        line: format!("{:#x}", 0x1000 + 64 * at),
        same_bytes: true,
        by_position: false,
        object: None,
        sides: sides.into_iter().enumerate().collect(),
    }
}

/// Any line that a record may contain.
pub(super) fn any_line() -> impl Strategy<Value = TestLine> {
    let verdict = prop_oneof![
        Just(Verdict::ConflictFree),
        Just(Verdict::Conflict),
        Just(Verdict::Sometimes),
        Just(Verdict::Disturbed),
        Just(Verdict::Died)
    ];
    let unexpected = prop::option::of(any::<String>().prop_map(Outcome::NotRun));
    let functions = || prop::collection::btree_set("[a-z_]{1,8}", 0..3);
    let chains = prop::collection::btree_set(prop::collection::vec("[a-z_]{1,8}", 1..3), 1..3);
    let callers = prop::collection::btree_map("[a-z_]{1,8}", chains, 0..3);
    let touched = (any::<[u32; 2]>(), any::<bool>(), functions(), functions(), callers).prop_map(
        |(bytes, wrote, writers, readers, callers)| Touched {
            bytes,
            wrote,
            writers,
            readers,
            callers,
        },
    );
    let access = (any::<(usize, bool)>(), any::<[String; 2]>(), any::<[u64; 2]>()).prop_map(
        |((call, wrote), [name, of], [offset, bytes])| Access {
            call,
            wrote,
            name,
            of,
            offset,
            bytes,
        },
    );
    let object = (any::<String>(), any::<i64>(), prop::collection::vec(access, 0..3))
        .prop_map(|(within, offset, fields)| FalselyShared { within, offset, fields });
    let shared = (
        prop::collection::vec(any::<String>(), 0..3),
        any::<u64>(),
        any::<[bool; 2]>(),
        prop::collection::btree_map(0usize..4, touched, 0..3),
        prop::option::of(object),
    )
        .prop_map(|(data, line, [same_bytes, by_position], sides, object)| {
            let line = format!("{line:#x}");
            SharedLine { data, line, same_bytes, by_position, object, sides }
        });
    let field = any::<[String; 2]>().prop_map(|[of, within]| FieldType { of, within });
    let member = (any::<String>(), any::<String>(), any::<u64>(), any::<u64>())
        .prop_map(|(name, of, offset, bytes)| Member { name, of, offset, bytes });
    let layout = (any::<u64>(), prop::collection::vec(member, 0..3))
        .prop_map(|(bytes, members)| Layout { bytes, members });
    let layouts = (
        prop::collection::btree_map(any::<String>(), field, 1..3),
        prop::collection::btree_map(any::<String>(), layout, 0..3),
    )
        .prop_map(|(fields, structs)| Layouts { fields, structs });
    let layouts = prop::option::of(layouts).prop_map(Option::unwrap_or_default);
    let id = ("[a-z]{1,3},[a-z]{1,3}", any::<String>()).prop_map(|(a, b)| format!("{a}/{b}"));
    (
        id,
        verdict,
        unexpected,
        prop::option::of(any::<String>()),
        prop::collection::vec(shared, 0..3),
        layouts,
    )
        .prop_map(|(test, verdict, unexpected, died, conflicts, layouts)| TestLine {
            schema: SCHEMA,
            test,
            verdict,
            unexpected,
            died,
            conflicts,
            layouts,
        })
}
