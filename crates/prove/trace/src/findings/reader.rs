//! Reads records, and several shards as one record.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use knee_host::RegularFile;
use knee_host::json::{fault_in_file, with_one_line_strings};
use knee_host::regular_file::FileError;

use super::description::KIND;
use super::{CHECK_FILE, Check, FindingsError, SCHEMA, Shard, TESTS_FILE, TestLine, Touched};
use crate::datum::Layouts;

/// What a check has found, in one record or in several shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// The first shard's description.
    pub check: Check,
    /// The tests of all shards, in the order of the shards, and within a shard in the order in
    /// which they ended.
    pub tests: Vec<TestLine>,
    /// The shards that were read.
    pub shards: Vec<Shard>,
    /// The number of tests of the check. If shards divide sets of operations, only the record of a shard
    /// contains the shard's number of tests. So this is the number of tests in the shards that were read.
    pub count: usize,
    /// The types of the data that the tests share, as far as the kernel describes them.
    pub layouts: Layouts,
}

/// Whether `path` is a directory with a record in it.
pub fn is_record(path: &Path) -> bool {
    path.join(CHECK_FILE).is_file()
}

impl Findings {
    /// Reads the record in a directory.
    ///
    /// If the last line has no newline, it was not completely written, and is left out.
    ///
    /// # Errors
    /// If there is no record, or its content does not match the schema.
    pub fn open(dir: &Path) -> Result<Self, FindingsError> {
        Self::of_check(read_check(dir)?, dir, &mut Allowance::default())
    }

    /// Reads the tests of a record, and subtracts their size from what is left.
    fn of_check(check: Check, dir: &Path, left: &mut Allowance) -> Result<Self, FindingsError> {
        let path = dir.join(TESTS_FILE);
        let text = RegularFile::at(&path).at_most(left.bytes).read();
        left.bytes -= text.as_ref().map_or(0, |text| text.len() as u64);
        let (mut tests, _) = parse_tests(text, &path, left)?;
        let (found, count) = (tests.len(), check.tests.count);
        if found > count {
            return Err(FindingsError::TooMany { dir: dir.to_owned(), found, count });
        }
        let mut layouts = Layouts::default();
        tests.iter_mut().for_each(|test| layouts.extend(std::mem::take(&mut test.layouts)));
        Ok(Self { shards: vec![check.shard], count, check, tests, layouts })
    }

    /// Reads the shards of a check, in any order, as one record.
    ///
    /// # Errors
    /// If a shard cannot be read, is named twice, or belongs to another check.
    ///
    /// # Panics
    /// If `dirs` is empty.
    pub fn of_shards(dirs: &[PathBuf]) -> Result<Self, FindingsError> {
        // A description is small, so all of them are compared before any tests are read.
        let mut checks = Vec::with_capacity(dirs.len());
        for dir in dirs {
            checks.push((dir, read_check(dir)?));
        }
        checks.sort_by_key(|(_, check)| check.shard.index);
        refuse_other_shards(&checks)?;
        let mut left = Allowance::default();
        let mut places = HashMap::new();
        let mut checks = checks.into_iter();
        let (dir, check) = checks.next().expect("at least one directory");
        let mut all = Self::of_check(check, dir, &mut left)?;
        refuse_common_tests(&mut places, dir, &all.tests)?;
        for (dir, check) in checks {
            let Self { check, tests, layouts, .. } = Self::of_check(check, dir, &mut left)?;
            refuse_common_tests(&mut places, dir, &tests)?;
            all.shards.push(check.shard);
            if check.sets.is_some() {
                all.count = all.count.saturating_add(check.tests.count);
            }
            all.tests.extend(tests);
            all.layouts.extend(layouts);
        }
        Ok(all)
    }

    /// The number of tests without a result, out of [`count`](Self::count).
    pub fn missing(&self) -> usize {
        self.count.saturating_sub(self.tests.len())
    }

    /// Whether all tests of all shards have a result.
    pub fn is_complete(&self) -> bool {
        self.missing() == 0 && self.missing_shards().is_empty()
    }

    /// The shards that were not read.
    pub fn missing_shards(&self) -> Vec<Shard> {
        let of = self.check.shard.of;
        let here: BTreeSet<usize> = self.shards.iter().map(|shard| shard.index).collect();
        // Shards divide sets of operations or tests. If there are fewer of these than shards, the last shards are
        // empty, so their records are not needed.
        let divided = self.check.sets.as_ref().unwrap_or(&self.check.tests).count;
        let shards = (1..=of.min(divided)).map(|index| Shard { index, of });
        shards.filter(|shard| !here.contains(&shard.index)).collect()
    }
}

/// Refuses a record that is not a shard of the first record's check, and a shard that occurs twice. `checks`
/// must be sorted by shard.
fn refuse_other_shards(checks: &[(&PathBuf, Check)]) -> Result<(), FindingsError> {
    let (first, of_first) = &checks[0];
    for pair in checks.windows(2) {
        let [(last, before), (dir, check)] = pair else { unreachable!() };
        let other = (*dir).clone();
        if let Some(difference) = of_first.difference(check) {
            let one = (*first).clone();
            return Err(FindingsError::OtherShard { one, other, difference });
        }
        if before.shard == check.shard {
            let (one, shard) = ((*last).clone(), check.shard.to_string());
            return Err(FindingsError::SameShard { one, other, shard });
        }
    }
    Ok(())
}

/// Refuses a test that is in two shards. `places` contains the tests of the previous shards. This function
/// adds the tests in `dir`.
fn refuse_common_tests<'d>(
    places: &mut HashMap<String, &'d PathBuf>,
    dir: &'d PathBuf,
    tests: &[TestLine],
) -> Result<(), FindingsError> {
    for TestLine { test, .. } in tests {
        if let Some(one) = places.insert(test.clone(), dir) {
            let (one, other, test) = (one.clone(), dir.clone(), test.clone());
            return Err(FindingsError::SameTest { one, other, test });
        }
    }
    Ok(())
}

/// What may still be read from, or written to, the `tests.jsonl` of all shards of a check together. A ranking takes memory
/// for each datum and for each function that accesses it, so a short text could take much of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    /// Bytes. At first as many as for any single file.
    bytes: u64,
    /// Names of data and of fields of structs, added up over all lines. All pairs of calls of the `posix` model share
    /// 60,000, in 45 MB.
    data: usize,
    /// Functions and chains of callers of each datum, added up over all lines; 600,000 in the same record.
    accesses: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { bytes: 512 << 20, data: 2_000_000, accesses: 8_000_000 }
    }
}

impl Allowance {
    #[cfg(test)]
    pub(super) fn of_bytes(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// Subtracts a test.
    ///
    /// # Errors
    /// The test has more data or accesses than are left. Returns the reason.
    pub(super) fn take(&mut self, test: &TestLine) -> Result<(), String> {
        let fields = self.data.checked_sub(test.layouts.count());
        self.data = fields.ok_or_else(too_large)?;
        for line in &test.conflicts {
            let fields = line.object.as_ref().map_or(0, |object| object.fields.len());
            let accesses: usize = line.sides.values().map(Touched::accesses).sum();
            let left = |left: usize, size| left.checked_sub(size).ok_or_else(too_large);
            // A line without data has a name too.
            let names = line.data.len().max(1);
            self.data = left(self.data, names + fields)?;
            self.accesses = left(self.accesses, names.saturating_mul(accesses))?;
        }
        Ok(())
    }

    /// Subtracts the bytes of a line.
    ///
    /// # Errors
    /// The line is longer than what is left. Returns the reason.
    pub(super) fn take_bytes(&mut self, line: u64) -> Result<(), String> {
        let longer = || {
            let most = Allowance::default().bytes >> 20;
            format!(
                "it would be larger than {most} MiB, the maximum that knee reads; check fewer tests"
            )
        };
        self.bytes = self.bytes.checked_sub(line).ok_or_else(longer)?;
        Ok(())
    }
}

fn too_large() -> String {
    let Allowance { data, accesses, .. } = Allowance::default();
    let (data, accesses) = (data / 1_000_000, accesses / 1_000_000);
    format!(
        "the tests share too many data; knee reads at most {data} million names of data, and {accesses} million functions \
         and call paths of them"
    )
}

/// Maximum size of a `check.json`, in bytes. knee writes a few kilobytes.
const MOST_BYTES: u64 = 1 << 20;

/// Reads the `check.json` of the record in a directory.
///
/// # Errors
/// If there is no record, or its content does not match the schema.
pub fn read_check(dir: &Path) -> Result<Check, FindingsError> {
    read_check_in(RegularFile::at(&dir.join(CHECK_FILE)), dir)
}

/// Reads a `check.json` from `file`. `dir` is the directory of the record, for messages.
pub(super) fn read_check_in(file: RegularFile<'_>, dir: &Path) -> Result<Check, FindingsError> {
    let path = dir.join(CHECK_FILE);
    let text = match file.at_most(MOST_BYTES).read() {
        Ok(text) => text,
        Err(error) if is_absence(&error) => return Err(FindingsError::NoRecord(dir.to_owned())),
        Err(error) => return Err(FindingsError::read(&path)(error.into())),
    };
    parse_check(&text).map_err(|reason| FindingsError::Check { path, reason })
}

pub(super) fn is_absence(error: &FileError) -> bool {
    let FileError::System(error) = error else { return false };
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn parse_check(text: &[u8]) -> Result<Check, String> {
    let fault = |error: serde_json::Error| {
        format!("{}; restore the file from a copy", fault_in_file(&error))
    };
    let text = &*with_one_line_strings(text);
    let document: serde_json::Value = serde_json::from_slice(text).map_err(fault)?;
    if document["kind"] != KIND {
        return Err("it is not a description of a knee commute check".to_owned());
    }
    if document["schema"] != SCHEMA {
        let found = &document["schema"];
        return Err(format!("it has schema {found}, but this version of knee reads {SCHEMA}"));
    }
    // Parse the text again instead of converting `document`, because only errors in text have a line and a
    // column.
    let check: Check = serde_json::from_slice(text).map_err(fault)?;
    match check.shard.is_possible() {
        true => Ok(check),
        false => Err(format!("there is no shard {}", check.shard)),
    }
}

/// The complete lines of a file of tests. Messages call the file `path`. Also returns the total size of these
/// lines in bytes. A missing file counts as empty, because knee may have been killed before it created the
/// file.
pub(super) fn parse_tests(
    text: Result<Vec<u8>, FileError>,
    path: &Path,
    left: &mut Allowance,
) -> Result<(Vec<TestLine>, u64), FindingsError> {
    let text = match text {
        Ok(text) => text,
        Err(error) if is_absence(&error) => return Ok((Vec::new(), 0)),
        Err(error) => return Err(FindingsError::read(path)(error.into())),
    };
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let mut tests: Vec<TestLine> = Vec::new();
    let mut seen = BTreeSet::new();
    for (nr, line) in text[..whole].split_inclusive(|&byte| byte == b'\n').enumerate() {
        let line = &line[..line.len() - 1];
        let wrong = |reason| FindingsError::Line { path: path.to_owned(), line: nr + 1, reason };
        let test = TestLine::parse(line).map_err(wrong)?;
        left.take(&test).map_err(wrong)?;
        if !seen.insert(test.test.clone()) {
            return Err(wrong(format!("test {} occurs twice", test.test)));
        }
        tests.push(test);
    }
    Ok((tests, whole as u64))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Ids;
    use super::super::samples::{check, conflicting, free, record};
    use super::*;

    #[test]
    fn the_tests_of_all_shards_share_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let text = "not a test\n";
        fs::write(dir.path().join(TESTS_FILE), text).unwrap();
        let bytes = text.len() as u64 - 1;
        let mut left = Allowance { bytes, ..Allowance::default() };
        let refused = Findings::of_check(check(Shard::WHOLE, &["a,b/0"]), dir.path(), &mut left);
        assert!(refused.unwrap_err().to_string().contains("it is larger than"));
        assert_eq!(left, Allowance { bytes, ..Allowance::default() });
    }

    #[test]
    fn all_shards_together_have_a_maximum_number_of_data_and_of_functions_that_access_them() {
        let dir = tempfile::tempdir().unwrap();
        let check = check(Shard::WHOLE, &["a,b/0"]);
        // Each of the two lines has a datum, a function that writes and one that reads.
        record(dir.path(), &check, &[conflicting("a,b/0", &["x", "y"])]);
        let read = |data, accesses| {
            let mut left = Allowance { data, accesses, ..Allowance::default() };
            let read = Findings::of_check(check.clone(), dir.path(), &mut left);
            read.map(|_| (left.data, left.accesses)).map_err(|error| error.to_string())
        };
        assert_eq!(read(3, 5), Ok((1, 1)));
        for (data, accesses) in [(1, 4), (2, 3)] {
            let error = read(data, accesses).unwrap_err();
            assert!(error.contains("tests.jsonl:1: the tests share too many data"), "{error}");
        }
    }

    #[test]
    fn shards_of_different_checks_are_refused_before_their_tests_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["one", "other"].map(|name| dir.path().join(name));
        for path in &paths {
            record(path, &check(Shard::WHOLE, &["a,b/0"]), &[]);
            fs::write(path.join(TESTS_FILE), "not a test\n").unwrap();
        }
        let refused = Findings::of_shards(&paths).unwrap_err();
        assert!(matches!(refused, FindingsError::SameShard { .. }), "{refused}");
    }

    #[test]
    fn shards_are_read_as_one_record_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = [1, 2].map(|index| Shard { index, of: 2 });
        let ids = ["a,b/0", "a,b/1", "a,b/2"];
        record(&dir.path().join("1"), &check(one, &ids), &[free(ids[0]), free(ids[2])]);
        record(&dir.path().join("2"), &check(two, &ids), &[conflicting(ids[1], &["x"])]);
        let dirs = ["2", "1"].map(|name| dir.path().join(name));
        let all = Findings::of_shards(&dirs).unwrap();
        let tests: Vec<&str> = all.tests.iter().map(|test| test.test.as_str()).collect();
        assert_eq!(tests, [ids[0], ids[2], ids[1]]);
        assert_eq!((all.missing(), all.missing_shards()), (0, vec![]));
        let half = Findings::of_shards(&dirs[..1]).unwrap();
        assert_eq!((half.missing(), half.missing_shards()), (2, vec![one]));
    }

    #[test]
    fn shards_of_sets_are_read_as_one_record() {
        let dir = tempfile::tempdir().unwrap();
        let sets = Ids::of(["a,a,a/9", "a,a,b/9", "a,b,b/9"].iter());
        let ids = [vec!["a,a,a/0", "a,b,b/0"], vec!["a,a,b/0", "a,a,b/1"]];
        for (index, ids) in (1..).zip(&ids) {
            let check = Check { sets: Some(sets.clone()), ..check(Shard { index, of: 2 }, ids) };
            let lines: Vec<TestLine> = ids.iter().map(|id| free(id)).collect();
            record(&dir.path().join(index.to_string()), &check, &lines);
        }
        let dirs = ["1", "2"].map(|name| dir.path().join(name));
        let all = Findings::of_shards(&dirs).unwrap();
        assert_eq!((all.tests.len(), all.count, all.is_complete()), (4, 4, true));
        let half = Findings::of_shards(&dirs[..1]).unwrap();
        assert_eq!((half.count, half.missing(), half.is_complete()), (2, 0, false));
        assert_eq!(half.missing_shards(), [Shard { index: 2, of: 2 }]);
    }

    #[test]
    fn the_test_counts_of_shards_may_be_too_large_to_add() {
        let dir = tempfile::tempdir().unwrap();
        let sets = Ids::of(["a,a,a/9", "a,a,b/9"].iter());
        for (index, count) in [(1, usize::MAX), (2, 2)] {
            let mut check =
                Check { sets: Some(sets.clone()), ..check(Shard { index, of: 2 }, &["a,b/0"]) };
            check.tests.count = count;
            record(&dir.path().join(index.to_string()), &check, &[]);
        }
        let dirs = ["1", "2"].map(|name| dir.path().join(name));
        assert_eq!(Findings::of_shards(&dirs).unwrap().count, usize::MAX);
    }

    #[test]
    fn a_record_that_is_not_a_shard_of_the_same_check_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = [1, 2].map(|index| Shard { index, of: 2 });
        record(&dir.path().join("1"), &check(one, &["a,b/0"]), &[]);
        record(&dir.path().join("again"), &check(one, &["a,b/0"]), &[]);
        record(&dir.path().join("other"), &check(two, &["a,b/1"]), &[]);
        let refused = |names: [&str; 2]| {
            let dirs = names.map(|name| dir.path().join(name));
            Findings::of_shards(&dirs).unwrap_err().to_string()
        };
        let again = refused(["1", "again"]);
        assert!(again.contains("are the same shard, 1/2"), "{again}");
        let other = refused(["1", "other"]);
        assert!(
            other.contains("are not shards of the same check: the 1 tests are different"),
            "{other}"
        );
        let nowhere = refused(["1", "nowhere"]);
        assert!(nowhere.contains("nowhere is not a record of knee commute check"), "{nowhere}");
    }

    #[test]
    fn a_test_that_is_in_two_shards_is_refused_and_so_are_more_tests_than_the_check_has() {
        let dir = tempfile::tempdir().unwrap();
        let ids = ["a,b/0", "a,b/1"];
        let names = ["1", "2"].map(|name| dir.path().join(name));
        for (path, index) in names.iter().zip([1, 2]) {
            record(path, &check(Shard { index, of: 2 }, &ids), &[free(ids[0])]);
        }
        let refused = Findings::of_shards(&names).unwrap_err().to_string();
        assert!(refused.contains("both contain the test a,b/0"), "{refused}");
        record(&names[0], &check(Shard::WHOLE, &ids[..1]), &[free(ids[0]), free(ids[1])]);
        let refused = Findings::open(&names[0]).unwrap_err().to_string();
        assert!(refused.ends_with("contains 2 tests, but the check has 1"), "{refused}");
    }

    #[test]
    fn the_message_about_different_checks_names_two_records_that_differ() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two, three] = [1, 2, 3].map(|index| Shard { index, of: 3 });
        record(&dir.path().join("one"), &check(one, &["a,b/0"]), &[]);
        record(&dir.path().join("two"), &check(two, &["a,b/0"]), &[]);
        record(&dir.path().join("three"), &check(three, &["a,b/1"]), &[]);
        let dirs = ["one", "two", "three"].map(|name| dir.path().join(name));
        let message = Findings::of_shards(&dirs).unwrap_err().to_string();
        let names = |name: &str| message.contains(&*dir.path().join(name).to_string_lossy());
        assert_eq!(["one", "two", "three"].map(names), [true, false, true], "{message}");
    }

    #[test]
    fn a_torn_last_line_is_left_out_but_any_other_invalid_line_is_an_error_that_names_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let ids = ["a,b/0", "a,b/1"];
        record(dir.path(), &check(Shard::WHOLE, &ids), &[free(ids[0])]);
        let path = dir.path().join(TESTS_FILE);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
        let findings = Findings::open(dir.path()).unwrap();
        assert_eq!((findings.tests.len(), findings.missing()), (1, 1));
        let refused = |text: String| {
            fs::write(&path, text).unwrap();
            Findings::open(dir.path()).unwrap_err().to_string()
        };
        let torn = refused(format!("{whole}{}\n", &whole[..whole.len() / 2]));
        assert!(torn.contains("tests.jsonl:2: the line is cut off; delete the line"), "{torn}");
        let twice = refused(format!("{whole}{whole}"));
        assert!(twice.contains("tests.jsonl:2: test a,b/0 occurs twice"), "{twice}");
    }

    #[test]
    fn a_description_of_something_else_is_refused() {
        let good = serde_json::to_string(&check(Shard::WHOLE, &["a,b/0"])).unwrap();
        let refused = |from: &str, to: &str| {
            let spoilt = good.replacen(from, to, 1);
            assert_ne!(spoilt, good);
            parse_check(spoilt.as_bytes()).unwrap_err()
        };
        assert_eq!(
            refused("\"schema\":1", "\"schema\":2"),
            "it has schema 2, but this version of knee reads 1"
        );
        assert_eq!(
            refused("commute check", "x"),
            "it is not a description of a knee commute check"
        );
        assert_eq!(refused("\"index\":1", "\"index\":2"), "there is no shard 2/1");
        assert!(refused("\"count\"", "\"n\"").starts_with("line 1: missing field `count`"));
    }
}
