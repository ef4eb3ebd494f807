//! Checks that QEMU reports sharing correctly. The checks are trials whose correct results are known.
//!
//! knee depends on details of how QEMU executes code and calls plugins. Some of these details are
//! undocumented and change between versions. So each guest begins with trials (the module
//! `calibration` of the crate knee-agent): pairs of operations that share nothing, and pairs that share
//! one word, one line or one open file, in both orders and on every virtual CPU. knee refuses a QEMU
//! that misses sharing or reports sharing that did not happen.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use knee_bind::calibration as program;
use knee_operations::trials::{self as kernel, WORD_AT, WORD_BYTES};

use crate::record::{Conflict, LEAST_INSTRUCTIONS, TestResult};

/// The trials of a guest or of a program.
#[derive(Debug, Default)]
pub struct Calibration {
    /// The trials whose results have not arrived.
    expected: VecDeque<Trial>,
    tests: u64,
    /// For each operation that has not yet passed a trial: one of its trials, and why that trial did
    /// not pass.
    not_passed: BTreeMap<&'static str, (Trial, Wrong)>,
}

/// Two operations on different CPUs, one after the other, whose correct result is known. Each of the
/// operations is a *side* of the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trial {
    /// What the sides do, as a clause for messages.
    what: &'static str,
    /// The CPUs of the first and the second operation.
    cpus: [usize; 2],
    /// Whether the sides make system calls.
    in_kernel: bool,
    interrupted: bool,
    shared: Shared,
}

/// What the sides share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shared {
    Nothing,
    /// The sides share at least one byte.
    Something,
    /// The sides share one line. The masks show the bytes that each side writes, in the order of the sides'
    /// numbers.
    Line([u64; 2]),
}

impl Trial {
    fn of_kernel(trial: kernel::Trial) -> Trial {
        use kernel::{Kind, NEIGHBOURS_AT};
        let word = bytes(WORD_AT, WORD_BYTES);
        let neighbours = [bytes(NEIGHBOURS_AT, 1), bytes(NEIGHBOURS_AT + 1, 1)];
        let (what, shared) = match trial.kind {
            Kind::Nothing => ("nothing is done", Shared::Nothing),
            Kind::NoObject => ("a call that accesses no object is made", Shared::Nothing),
            Kind::TwoFiles => ("two files are read", Shared::Nothing),
            Kind::Interrupted => ("calls are made until a timer interrupts", Shared::Nothing),
            Kind::SharedWord => ("the kernel writes one word twice", Shared::Line([word; 2])),
            Kind::NeighbouringBytes => {
                ("the kernel writes two neighbouring bytes", Shared::Line(neighbours))
            }
            Kind::OneFile => ("lseek is called twice on one open file", Shared::Something),
        };
        let interrupted = trial.kind == Kind::Interrupted;
        let in_kernel = trial.kind != Kind::Nothing;
        Trial { what, cpus: [trial.first, trial.second], in_kernel, interrupted, shared }
    }

    fn of_program(trial: program::Trial) -> Trial {
        use program::{Kind, NEIGHBOURS_AT};
        let mut sides = [trial.first, trial.second];
        sides.sort_unstable();
        let (what, shared) = match trial.kind {
            Kind::Nothing => ("nothing is done", Shared::Nothing),
            Kind::OwnLines => ("two lines are written", Shared::Nothing),
            Kind::SharedWord => ("one word is written twice", Shared::Line([bytes(0, 8); 2])),
            Kind::NeighbouringBytes => {
                let neighbour = |side| bytes(NEIGHBOURS_AT + side, 1);
                ("two neighbouring bytes are written", Shared::Line(sides.map(neighbour)))
            }
        };
        let cpus = [trial.first, trial.second];
        Trial { what, cpus, in_kernel: false, interrupted: false, shared }
    }
}

/// A trial whose result is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    trial: Trial,
    wrong: Wrong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// The result misses what the sides share.
    Missed,
    /// The result has a conflict, but the sides share nothing.
    Invented,
    /// The result does not contain complete windows of two sides on two CPUs.
    NoSides,
    /// The result counts fewer instructions than any system call executes.
    TooFewInstructions,
    /// The result does not contain the interrupt.
    NoInterrupt,
    /// All trials of the operation were disturbed.
    AlwaysDisturbed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trial { what, cpus: [first, second], .. } = self.trial;
        let wrong = match self.wrong {
            Wrong::Missed => "it misses the conflict",
            Wrong::Invented => "it reports a conflict",
            Wrong::NoSides => "it does not distinguish two CPUs",
            Wrong::TooFewInstructions => "it counts fewer instructions than a system call executes",
            Wrong::NoInterrupt => "it does not report the interrupt",
            Wrong::AlwaysDisturbed => "it reports a task switch every time",
        };
        write!(f, "{wrong} where {what} on CPU {first}, then on CPU {second}")
    }
}

impl std::error::Error for Fault {}

impl Calibration {
    /// The calibration of a guest that has `cpus` virtual CPUs and whose agent makes system calls.
    pub fn of(cpus: u32) -> Calibration {
        Calibration::of_kinds(&kernel::Kind::ALL, cpus)
    }

    /// The calibration of a guest that makes only these kinds of trials.
    pub(crate) fn of_kinds(kinds: &[kernel::Kind], cpus: u32) -> Calibration {
        Calibration::new(kernel::trials(kinds, cpus as usize).map(Trial::of_kernel))
    }

    /// The calibration of a program that makes these trials.
    pub(crate) fn of_program(trials: Vec<program::Trial>) -> Calibration {
        Calibration::new(trials.into_iter().map(Trial::of_program))
    }

    fn new(trials: impl Iterator<Item = Trial>) -> Calibration {
        let expected: VecDeque<Trial> = trials.collect();
        let not_passed = |trial: &Trial| (trial.what, (*trial, Wrong::AlwaysDisturbed));
        let not_passed = expected.iter().map(not_passed).collect();
        Calibration { tests: expected.len() as u64, expected, not_passed }
    }

    /// The number of trials, which are the first tests of the guest or the program.
    pub(crate) fn tests(&self) -> u64 {
        self.tests
    }

    /// Whether all results have arrived.
    pub fn is_over(&self) -> bool {
        self.expected.is_empty()
    }

    /// Adds the result of the next trial.
    ///
    /// # Errors
    /// The result is wrong, or it is the last result and some operation has not passed any trial.
    pub fn add(&mut self, result: &TestResult) -> Result<(), Fault> {
        let Some(trial) = self.expected.pop_front() else { return Ok(()) };
        if !result.is_disturbed() {
            let interrupted = result.is_interrupted();
            match judge(trial, result) {
                Ok(()) => drop(self.not_passed.remove(trial.what)),
                // These results do not prove that QEMU is wrong. Linux 7.2 raises no interrupt for a timer
                // that has already expired when it is set. And at the end of an interrupt, the kernel may
                // search for another task to run, and this search accesses shared data.
                Err(wrong)
                    if wrong == Wrong::NoInterrupt || wrong == Wrong::Invented && interrupted =>
                {
                    let not_passed = self.not_passed.entry(trial.what);
                    not_passed.and_modify(|not_passed| *not_passed = (trial, wrong));
                }
                Err(wrong) => return Err(Fault { trial, wrong }),
            }
        }
        if !self.is_over() {
            return Ok(());
        }
        // On a busy host, other tasks may disturb every window that waits for an interrupt. Such a
        // disturbance is evidence neither for nor against this QEMU.
        let is_fault = |(trial, wrong): &&(Trial, Wrong)| {
            !(trial.interrupted && *wrong == Wrong::AlwaysDisturbed)
        };
        match self.not_passed.values().find(is_fault) {
            Some(&(trial, wrong)) => Err(Fault { trial, wrong }),
            None => Ok(()),
        }
    }
}

/// Judges the result of a trial in which no other task ran.
fn judge(trial: Trial, result: &TestResult) -> Result<(), Wrong> {
    let [first, second] = &result.sides[..] else { return Err(Wrong::NoSides) };
    if first.cpu == second.cpu || result.is_incomplete() {
        return Err(Wrong::NoSides);
    }
    let mut instructions = result.sides.iter().map(|side| side.instructions);
    if trial.in_kernel && instructions.any(|count| count < LEAST_INSTRUCTIONS) {
        return Err(Wrong::TooFewInstructions);
    }
    if trial.interrupted && result.sides.iter().any(|side| side.interrupts == 0) {
        return Err(Wrong::NoInterrupt);
    }
    let mut conflicts = result.conflicts.iter();
    let missed = match trial.shared {
        Shared::Nothing => {
            return if result.is_conflict_free() { Ok(()) } else { Err(Wrong::Invented) };
        }
        Shared::Something => !conflicts.any(|conflict| conflict.overlap),
        Shared::Line(bytes) => {
            let overlap = bytes[0] & bytes[1] != 0;
            let is_it = |conflict: &Conflict| {
                conflict.overlap == overlap
                    && conflict.sides.iter().map(|side| side.written).eq(bytes)
            };
            !conflicts.any(is_it)
        }
    };
    if missed { Err(Wrong::Missed) } else { Ok(()) }
}

/// The mask of `count` bytes of a line, starting with byte `at`.
const fn bytes(at: usize, count: usize) -> u64 {
    ((1 << count) - 1) << at
}

#[cfg(test)]
mod tests {
    use knee_operations::trials::{Kind, Trial as KernelTrial, trials};

    use super::*;
    use crate::record::{Record, Side, Touch};

    const CPUS: u32 = 2;

    fn side(number: usize, interrupts: u64) -> Side {
        let line = format!(
            r#"{{"side":{number},"cpu":{number},"opened":1,"closed":1,"instructions":400,
               "accesses":90,"read":9,"written":3,"interrupts":{interrupts},"switches":0,
               "unresolved":0,"overflowed":false}}"#
        );
        serde_json::from_str(&line).unwrap()
    }

    fn conflict(overlap: bool, written: [u64; 2]) -> Conflict {
        let touch = |(side, written): (usize, u64)| Touch {
            side,
            first: written.trailing_zeros(),
            last: 63 - written.leading_zeros(),
            read: 0,
            written,
            virtuals: Vec::new(),
            writers: Vec::new(),
            readers: Vec::new(),
            callers: Vec::new(),
        };
        let sides = written.into_iter().enumerate().map(touch).collect();
        Conflict { line: 0x1000, overlap, sides, datum: None, by_position: false, object: None }
    }

    /// The result of a trial in a correct QEMU.
    fn right(trial: KernelTrial) -> TestResult {
        let line = r#"{"test":0,"sides":[],"conflicts":[],"more":0,"stray":0}"#;
        let Ok(Record::Test(mut result)) = Record::parse(line) else { panic!() };
        result.sides =
            (0..2).map(|nr| side(nr, u64::from(trial.kind == Kind::Interrupted))).collect();
        let conflict = match trial.kind {
            Kind::SharedWord => conflict(true, [0xff << 16; 2]),
            Kind::NeighbouringBytes => conflict(false, [1 << 10, 1 << 11]),
            Kind::OneFile => conflict(true, [0xff; 2]),
            _ => return result,
        };
        result.conflicts.push(conflict);
        result
    }

    /// Adds the results of all trials, each modified by `spoil`.
    fn calibrate(spoil: impl Fn(KernelTrial, &mut TestResult)) -> Result<(), Fault> {
        let mut calibration = Calibration::of(CPUS);
        for trial in trials(&Kind::ALL, CPUS as usize) {
            let mut result = right(trial);
            spoil(trial, &mut result);
            calibration.add(&result)?;
        }
        assert!(calibration.is_over());
        Ok(())
    }

    #[test]
    fn a_qemu_that_reports_exactly_what_is_shared_is_accepted() {
        calibrate(|_, _| {}).unwrap();
    }

    #[test]
    fn a_missed_conflict_of_each_kind_is_detected_on_each_cpu() {
        for kind in [Kind::SharedWord, Kind::NeighbouringBytes, Kind::OneFile] {
            for cpu in 0..CPUS as usize {
                let fault = calibrate(|trial, result| {
                    if (trial.kind, trial.first) == (kind, cpu) {
                        result.conflicts.clear();
                    }
                });
                let Fault { trial, wrong } = fault.unwrap_err();
                let known = Trial::of_kernel(KernelTrial { kind, first: cpu, second: 1 - cpu });
                assert_eq!((trial, wrong), (known, Wrong::Missed));
            }
        }
    }

    #[test]
    fn a_false_conflict_is_detected_in_each_kind_of_trial() {
        for kind in [Kind::Nothing, Kind::NoObject, Kind::TwoFiles, Kind::Interrupted] {
            let fault = calibrate(|trial, result| {
                if trial.kind == kind {
                    result.conflicts.push(conflict(true, [1; 2]));
                }
            });
            assert_eq!(fault.unwrap_err().wrong, Wrong::Invented);
        }
    }

    #[test]
    fn false_sharing_and_a_shared_word_are_distinguished() {
        for kind in [Kind::SharedWord, Kind::NeighbouringBytes] {
            let fault = calibrate(|trial, result| {
                if trial.kind == kind {
                    result.conflicts.iter_mut().for_each(|conflict| conflict.overlap ^= true);
                }
            });
            assert_eq!(fault.unwrap_err().wrong, Wrong::Missed);
        }
    }

    #[test]
    fn impossible_sides_are_detected() {
        let wrong =
            |spoil: fn(&mut TestResult)| calibrate(|_, result| spoil(result)).unwrap_err().wrong;
        assert_eq!(wrong(|result| result.sides[1].cpu = 0), Wrong::NoSides);
        assert_eq!(wrong(|result| result.sides.truncate(1)), Wrong::NoSides);
        assert_eq!(wrong(|result| result.sides[0].closed = 0), Wrong::NoSides);
        assert_eq!(wrong(|result| result.sides[1].instructions = 3), Wrong::TooFewInstructions);
    }

    #[test]
    fn a_conflict_in_an_interrupted_trial_is_ignored_unless_it_occurs_every_time() {
        let share = |result: &mut TestResult| result.conflicts.push(conflict(true, [1; 2]));
        let interrupt = |result: &mut TestResult| result.sides[0].interrupts = 1;
        calibrate(|trial, result| {
            if trial.first == 0 && [Kind::TwoFiles, Kind::Interrupted].contains(&trial.kind) {
                interrupt(result);
                share(result);
            }
        })
        .unwrap();
        for kind in [Kind::TwoFiles, Kind::Interrupted] {
            let fault = calibrate(|trial, result| {
                if trial.kind == kind {
                    interrupt(result);
                    share(result);
                }
            });
            assert_eq!(fault.unwrap_err().wrong, Wrong::Invented);
        }
    }

    #[test]
    fn a_missing_interrupt_is_ignored_unless_every_interrupt_is_missing() {
        let quiet = |result: &mut TestResult| result.sides[1].interrupts = 0;
        calibrate(|trial, result| {
            if trial.first == 0 {
                quiet(result);
            }
        })
        .unwrap();
        let fault = calibrate(|_, result| quiet(result)).unwrap_err();
        assert_eq!((fault.trial.interrupted, fault.wrong), (true, Wrong::NoInterrupt));
    }

    #[test]
    fn the_trials_of_a_program_are_judged_by_the_bytes_that_its_threads_write() {
        use knee_bind::calibration::{Kind, Trial};
        let trial = |kind| Trial { kind, first: 3, second: 1 };
        let of_kernel = trials(&super::kernel::Kind::ALL, CPUS as usize).next().unwrap();
        let judged = |kind, conflicts: Vec<Conflict>| {
            let mut result = right(of_kernel);
            result.conflicts = conflicts;
            judge(super::Trial::of_program(trial(kind)), &result)
        };
        assert_eq!(judged(Kind::Nothing, Vec::new()), Ok(()));
        assert_eq!(judged(Kind::OwnLines, vec![conflict(true, [1; 2])]), Err(Wrong::Invented));
        assert_eq!(judged(Kind::SharedWord, vec![conflict(true, [0xff; 2])]), Ok(()));
        assert_eq!(judged(Kind::SharedWord, Vec::new()), Err(Wrong::Missed));
        let neighbours = vec![conflict(false, [1 << 11, 1 << 13])];
        assert_eq!(judged(Kind::NeighbouringBytes, neighbours), Ok(()));
    }

    #[test]
    fn a_disturbed_trial_is_ignored_unless_all_trials_of_its_kind_are_disturbed() {
        let disturb = |result: &mut TestResult| {
            result.sides[0].switches = 1;
            result.conflicts.clear();
        };
        calibrate(|trial, result| {
            if trial.first == 0 {
                disturb(result);
            }
        })
        .unwrap();
        calibrate(|trial, result| {
            if trial.kind == Kind::Interrupted {
                disturb(result);
            }
        })
        .unwrap();
        let fault = calibrate(|trial, result| {
            if trial.kind == Kind::OneFile {
                disturb(result);
            }
        });
        let fault = fault.unwrap_err();
        assert_eq!(fault.wrong, Wrong::AlwaysDisturbed);
        assert!(fault.to_string().starts_with("it reports a task switch every time where lseek"));
    }
}
