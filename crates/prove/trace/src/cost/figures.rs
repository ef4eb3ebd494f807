//! Computes the cost of an operation from its repetitions.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Cost;
use crate::datum::Datum;
use crate::record::{Move, Side, TestResult};

/// The cost of an operation. Occasionally, an operation refills one of the kernel's caches and costs
/// more than the others. This affects the mean, but not the median.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// The number of operations that the figures cover.
    pub operations: usize,
    /// The number of operations that are left out, because the task was switched out or the result
    /// is incomplete.
    pub disturbed: usize,
    /// Instructions in the kernel or in the program.
    pub instructions: Spread,
    /// Accesses to memory.
    pub accesses: Spread,
    /// Distinct lines that are read.
    pub read: Spread,
    /// Distinct lines that are written.
    pub written: Spread,
    /// Lines that an operation writes while other CPUs hold them.
    pub taken: Spread,
    /// Lines that an operation only reads and that were last modified by another CPU.
    pub fetched: Spread,
    /// The mean number of instructions in the work that an operation defers: RCU callbacks, which run after a
    /// grace period. The other figures do not include this work.
    pub deferred: f64,
    /// Lines that move between CPUs. The line that moves most often is first.
    #[serde(skip)]
    pub lines: Vec<HotLine>,
}

/// The distribution of a figure over many operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The median; for an even number of operations, the greater of the two middle values.
    pub median: u64,
    /// The minimum.
    pub min: u64,
    /// The maximum.
    pub max: u64,
    /// The mean.
    pub mean: f64,
}

/// A line that moves from CPU to CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct HotLine {
    /// Physical address of the line's first byte.
    pub line: u64,
    /// The data in the line, if known.
    pub datum: Option<Datum>,
    /// The line's virtual addresses.
    pub virtuals: Vec<u64>,
    /// The average number of times that an operation takes the line, as in [`Figures::taken`].
    pub taken: f64,
    /// The average number of times that an operation fetches the line, as in [`Figures::fetched`].
    pub fetched: f64,
    /// Addresses of the code that writes the line.
    pub writers: Vec<u64>,
    /// Addresses of the code that reads the line.
    pub readers: Vec<u64>,
}

impl Spread {
    /// The spread of values; all fields are 0 if there are no values.
    pub fn of(values: impl Iterator<Item = u64>) -> Spread {
        let mut values: Vec<u64> = values.collect();
        values.sort_unstable();
        match values[..] {
            [] => Spread::default(),
            [min, ..] => Spread {
                median: values[values.len() / 2],
                min,
                max: values[values.len() - 1],
                mean: values.iter().sum::<u64>() as f64 / values.len() as f64,
            },
        }
    }

    /// Whether all operations have the same value.
    pub fn is_constant(&self) -> bool {
        self.min == self.max
    }
}

impl Cost {
    /// The operations after the first `warm_up` rounds.
    fn after(&self, warm_up: u32) -> &[TestResult] {
        let skipped = warm_up.saturating_mul(self.experiment.cpus) as usize;
        self.operations.get(skipped..).unwrap_or_default()
    }

    /// The operations that count: those after the warm-up, except if the task was switched out or the result
    /// is incomplete.
    pub(super) fn counted(&self, warm_up: u32) -> impl Iterator<Item = &TestResult> {
        let counts = |done: &&TestResult| !done.is_disturbed() && !done.is_incomplete();
        self.after(warm_up).iter().filter(counts)
    }

    /// The mean number of instructions in the deferred work of an operation. All rounds count, because the
    /// operations of all rounds defer work.
    fn deferred_instructions(&self) -> f64 {
        let sides = self.deferred.iter().flat_map(|work| &work.sides);
        let all: u64 = sides.map(|side| side.instructions).sum();
        all as f64 / self.operations.len().max(1) as f64
    }

    /// The cost of an operation, computed without the first `warm_up` rounds.
    pub fn figures(&self, warm_up: u32) -> Figures {
        let all = self.after(warm_up);
        let done: Vec<&TestResult> = self.counted(warm_up).collect();
        let of_side = |figure: fn(&Side) -> u64| {
            Spread::of(done.iter().map(|done| done.sides.iter().map(figure).sum()))
        };
        Figures {
            operations: done.len(),
            disturbed: all.len() - done.len(),
            instructions: of_side(|side| side.instructions),
            accesses: of_side(|side| side.accesses),
            read: of_side(|side| side.read as u64),
            written: of_side(|side| side.written as u64),
            taken: Spread::of(done.iter().map(|done| done.taken)),
            fetched: Spread::of(done.iter().map(|done| done.fetched)),
            deferred: self.deferred_instructions(),
            lines: lines(&done, &self.data),
        }
    }
}

/// The lines that move between CPUs. The line that moves most often is first.
fn lines(operations: &[&TestResult], data: &BTreeMap<u64, Datum>) -> Vec<HotLine> {
    let mut lines: BTreeMap<u64, Vec<&Move>> = BTreeMap::new();
    for moved in operations.iter().flat_map(|done| &done.moves) {
        lines.entry(moved.line).or_default().push(moved);
    }
    let distinct = |moves: &[&Move], addresses: fn(&Move) -> &[u64]| {
        let mut all: Vec<u64> = moves.iter().flat_map(|moved| addresses(moved)).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let hot = |(line, moves): (u64, Vec<&Move>)| {
        let taken = moves.iter().filter(|moved| moved.taken).count();
        let share = |count: usize| count as f64 / operations.len() as f64;
        HotLine {
            line,
            datum: data.get(&line).cloned(),
            virtuals: distinct(&moves, |moved| &moved.by.virtuals),
            taken: share(taken),
            fetched: share(moves.len() - taken),
            writers: distinct(&moves, |moved| &moved.by.writers),
            readers: distinct(&moves, |moved| &moved.by.readers),
        }
    };
    let mut lines: Vec<HotLine> = lines.into_iter().map(hot).collect();
    lines.sort_by(|a, b| b.moves().total_cmp(&a.moves()));
    lines
}

impl HotLine {
    /// The average number of times that an operation moves the line to the operation's CPU.
    pub fn moves(&self) -> f64 {
        self.taken + self.fetched
    }
}

#[cfg(test)]
mod tests {
    use knee_agent::Experiment;

    use super::*;
    use crate::record::Record;

    /// An operation that takes line 0x40, with these numbers of instructions and switches.
    fn done(instructions: u64, switches: u64) -> TestResult {
        let line = format!(
            r#"{{"test":0,"sides":[{{"side":0,"cpu":1,"opened":1,"closed":1,
            "instructions":{instructions},"accesses":7,"read":3,"written":2,"interrupts":0,
            "switches":{switches},"unresolved":0,"overflowed":false}}],"conflicts":[],"more":0,
            "stray":0,"taken":1,"fetched":0,"moves":[{{"line":"0x40","taken":true,"from":"0x1",
            "by":{{"side":0,"first":0,"last":7,"read":"0x0","written":"0xff",
            "virtual":["0xffff888000000040"],"writers":["0xffffffff81000000"],"readers":[]}}}}]}}"#
        );
        let Ok(Record::Test(result)) = Record::parse(&line) else { panic!("{line}") };
        result
    }

    #[test]
    fn warm_up_rounds_and_disturbed_operations_do_not_count() {
        let experiment = Experiment { operation: "lseek".to_owned(), cpus: 2 };
        let operations = vec![
            done(900, 0),
            done(800, 0),
            done(500, 0),
            done(7000, 1),
            done(530, 0),
            done(500, 0),
        ];
        let datum = Datum { fields: vec!["file.f_pos".to_owned()], beside: Vec::new() };
        let data = [(0x40, datum.clone()), (0x80, Datum::default())].into();
        let (words, nodes) = (BTreeMap::new(), Vec::new());
        let later = done(1234, 0);
        let deferred = vec![later.clone(), later];
        let figures = Cost { experiment, operations, deferred, data, words, nodes }.figures(1);
        assert_eq!(figures.deferred, 2.0 * 1234.0 / 6.0);
        assert_eq!((figures.operations, figures.disturbed), (3, 1));
        let expected = Spread { median: 500, min: 500, max: 530, mean: 510.0 };
        assert_eq!(figures.instructions, expected);
        assert_eq!(figures.taken, Spread { median: 1, min: 1, max: 1, mean: 1.0 });
        let [line] = &figures.lines[..] else { panic!("{:?}", figures.lines) };
        assert_eq!((line.line, line.taken, line.fetched), (0x40, 1.0, 0.0));
        assert_eq!(line.datum, Some(datum));
        assert_eq!(line.writers, [0xffff_ffff_8100_0000]);
    }

    #[test]
    fn the_spread_of_no_values_is_zero() {
        assert_eq!(Spread::of(std::iter::empty()), Spread::default());
    }
}
