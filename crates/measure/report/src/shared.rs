//! What calls that commute share in a kernel: the results of a check, for a page and a drawing.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use serde::Serialize;

/// The results of a check. Tests are added one by one; equal lines are stored once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shared {
    /// The checked system, such as `Linux 6.1.0-50-cloud-amd64, tmpfs`.
    pub name: String,
    /// Facts about the check, such as its time and versions.
    pub facts: Vec<String>,
    /// Operations in display order.
    pub operations: Vec<String>,
    /// Suggested fixes in order, one sentence each.
    pub fixes: Vec<String>,
    /// Tests by the indices of their operations, the smaller index first.
    pub(crate) pairs: BTreeMap<[usize; 2], Vec<SharedTest>>,
    /// The distinct lines, in order of appearance.
    pub(crate) lines: IndexSet<SharedLine>,
}

/// The result of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharedVerdict {
    /// Its calls share something in every run.
    Conflict,
    /// Its calls share something in some runs.
    Sometimes,
    /// The observation was disturbed.
    Disturbed,
    /// It crashed the guest.
    Died,
    /// Its calls share nothing.
    Free,
}

/// A test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SharedTest {
    pub(crate) id: String,
    pub(crate) verdict: SharedVerdict,
    pub(crate) note: String,
    /// Indices of lines.
    pub(crate) lines: Vec<usize>,
}

/// A cache line that both calls of a test touch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SharedLine {
    /// Name of the line.
    pub name: String,
    /// Whether both calls touch the same bytes; if not, it is false sharing.
    pub same_bytes: bool,
    /// The accesses of each call.
    pub sides: Vec<SharedSide>,
}

/// The accesses of a call to a line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SharedSide {
    /// The number of the call.
    pub call: usize,
    /// The first and the last byte of the line that the call touches.
    pub bytes: [u32; 2],
    /// Functions that write it.
    pub writers: Vec<String>,
    /// Functions that read it.
    pub readers: Vec<String>,
}

impl Shared {
    /// A check of calls of `operations`, without tests yet.
    pub fn new(name: impl Into<String>, operations: Vec<String>) -> Self {
        Self { name: name.into(), operations, ..Self::default() }
    }

    /// Adds a test of two operations, with a further remark in `note`. Returns false, and does not
    /// add the test, if there are not exactly two, or if one is not in [`Shared::operations`].
    pub fn add(
        &mut self,
        id: &str,
        operations: &[&str],
        verdict: SharedVerdict,
        note: String,
        lines: impl IntoIterator<Item = SharedLine>,
    ) -> bool {
        let number = |name: &str| self.operations.iter().position(|known| known == name);
        let &[a, b] = operations else { return false };
        let (Some(a), Some(b)) = (number(a), number(b)) else { return false };
        let mut numbers: Vec<usize> =
            lines.into_iter().map(|line| self.lines.insert_full(line).0).collect();
        numbers.sort_unstable();
        let test = SharedTest { id: id.to_owned(), verdict, note, lines: numbers };
        self.pairs.entry([a.min(b), a.max(b)]).or_default().push(test);
        true
    }

    /// The counts of the tests of two operations, given by index.
    pub(crate) fn counts(&self, a: usize, b: usize) -> Option<Counts> {
        self.pairs.get(&[a.min(b), a.max(b)]).map(|tests| self.count(tests))
    }

    /// The counts of all tests.
    pub(crate) fn total(&self) -> Counts {
        self.count(self.pairs.values().flatten())
    }

    fn count<'t>(&self, tests: impl IntoIterator<Item = &'t SharedTest>) -> Counts {
        let mut counts = Counts { free: 0, false_sharing: 0, tests: 0 };
        for test in tests {
            let is_false = test.verdict == SharedVerdict::Conflict
                && !test.lines.is_empty()
                && !test.lines.iter().any(|&line| self.lines[line].same_bytes);
            counts.free += usize::from(test.verdict == SharedVerdict::Free);
            counts.false_sharing += usize::from(is_false);
            counts.tests += 1;
        }
        counts
    }
}

/// Counts of conflict-free tests and of all tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) free: usize,
    /// Of the other tests: those that conflict, but share no byte.
    pub(crate) false_sharing: usize,
    pub(crate) tests: usize,
}

impl Counts {
    /// The number of tests that are not conflict-free.
    pub(crate) fn others(self) -> usize {
        self.tests - self.free
    }

    /// The share of conflict-free tests, in whole per cent. It is 0 or 100 only if that is exact.
    pub(crate) fn percent(self) -> usize {
        match (self.free, self.tests) {
            (0, _) => 0,
            (free, all) if free == all => 100,
            (free, all) => (100 * free / all).clamp(1, 99),
        }
    }

    /// The sentence, and how many of the other tests share lines only: `2495 of 4078 tests are conflict-free (61.2%); 30
    /// others share lines, but no byte (false sharing)`.
    pub(crate) fn with_false_sharing(self) -> String {
        let apart = match self.false_sharing {
            0 => String::new(),
            1 => "; 1 other shares a line, but no byte (false sharing)".to_owned(),
            n => format!("; {n} others share lines, but no byte (false sharing)"),
        };
        self.sentence() + &apart
    }

    /// `2495 of 4078 tests are conflict-free (61.2%)`.
    pub(crate) fn sentence(self) -> String {
        let share = match self.percent() {
            all @ (0 | 100) => format!("{all}%"),
            _ => {
                let exact = 100.0 * self.free as f64 / self.tests as f64;
                format!("{:.1}%", exact.clamp(0.1, 99.9))
            }
        };
        let tests = if self.tests == 1 { "test is" } else { "tests are" };
        format!("{} of {} {tests} conflict-free ({share})", self.free, self.tests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_are_stored_once_and_pairs_have_no_order() {
        let mut shared = Shared::new("test", ["open", "close"].map(str::to_owned).to_vec());
        let line = SharedLine { name: "x".to_owned(), same_bytes: true, sides: Vec::new() };
        let mut add = |id: &str, operations: &[&str], verdict, lines: &[&SharedLine]| {
            let lines: Vec<SharedLine> = lines.iter().map(|&line| line.clone()).collect();
            shared.add(id, operations, verdict, String::new(), lines)
        };
        assert!(add("close,open/0", &["close", "open"], SharedVerdict::Conflict, &[&line, &line]));
        assert!(add("open,close/1", &["open", "close"], SharedVerdict::Free, &[]));
        assert!(!add("open/1", &["open"], SharedVerdict::Free, &[]));
        assert!(!add("open,dup/1", &["open", "dup"], SharedVerdict::Free, &[]));
        assert_eq!(shared.lines, IndexSet::from([line.clone()]));
        assert_eq!(shared.counts(1, 0), Some(Counts { free: 1, false_sharing: 0, tests: 2 }));
        assert_eq!(shared.counts(0, 0), None);
        assert_eq!(shared.total().sentence(), "1 of 2 tests are conflict-free (50.0%)");
        let apart = SharedLine { same_bytes: false, ..line.clone() };
        for lines in [&[&apart, &line][..], &[&apart], &[&apart]] {
            let lines = lines.iter().map(|&line| line.clone());
            let verdict = SharedVerdict::Conflict;
            assert!(shared.add("open,open/0", &["open", "open"], verdict, String::new(), lines));
        }
        let said = shared.counts(0, 0).unwrap().with_false_sharing();
        assert!(said.ends_with("; 2 others share lines, but no byte (false sharing)"), "{said}");
    }

    #[test]
    fn only_exact_shares_are_printed_as_0_or_100_percent() {
        let said = |free, tests| Counts { free, false_sharing: 0, tests }.sentence();
        assert!(said(9999, 10000).ends_with("(99.9%)"));
        assert!(said(1, 10000).ends_with("(0.1%)"));
        assert_eq!(said(1, 1), "1 of 1 test is conflict-free (100%)");
    }
}
