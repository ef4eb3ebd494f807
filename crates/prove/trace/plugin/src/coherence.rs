//! Finds the lines that have to move between CPUs, given the lines that operations touch.
//!
//! The model is the textbook one: each virtual CPU has an infinite cache, and the caches are kept
//! coherent by invalidation (MSI). Only the traced operations change the caches; accesses between
//! them are ignored. Operations run one after the other, so a line moves at most once in each
//! operation.

use std::collections::HashMap;

use crate::lines::Line;
use crate::log::Reported;
use crate::side::Side;

/// The maximum number of moves that are listed for a test; further moves are only counted.
const MAX_MOVES: usize = 1000;

/// A set of virtual CPUs, with a bit for each. Bit 63 also stands for CPUs above 63, which the
/// driver does not create.
pub(crate) type Cpus = u64;

/// The CPUs whose caches have a line.
#[derive(Clone, Copy, Default)]
struct Holders {
    cpus: Cpus,
    /// Whether the only holder has written the line, and no other CPU has read it since.
    modified: bool,
    /// Whether the line has ever moved.
    moved: bool,
}

/// The way in which a line moves to the CPU that touches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// The CPU writes the line, and the copies in other CPUs' caches are invalidated.
    Taken,
    /// The CPU reads the line, which another CPU has modified. Both CPUs hold the line afterwards.
    Fetched,
}

/// The moves of a test: how many there are of each kind, and the first of them.
#[derive(Default)]
pub(crate) struct Moves<'a> {
    pub(crate) taken: u64,
    pub(crate) fetched: u64,
    /// The side, the line, the kind of move, and the CPUs that held the line.
    pub(crate) first: Vec<(usize, &'a Line, Move, Cpus)>,
}

/// The caches of all virtual CPUs.
#[derive(Default)]
pub(crate) struct Caches {
    lines: HashMap<u64, Holders>,
}

impl Caches {
    /// Updates the caches: the sides of a test have touched their lines, one side after the other. Returns
    /// the moves.
    pub(crate) fn touched<'a>(&mut self, sides: &[(usize, &'a Side)]) -> Moves<'a> {
        let mut moves = Moves::default();
        for &(number, side) in sides {
            for line in side.table.lines() {
                let Some((how, from)) = self.touch(side.count.cpu, line) else { continue };
                match how {
                    Move::Taken => moves.taken += 1,
                    Move::Fetched => moves.fetched += 1,
                }
                if moves.first.len() < MAX_MOVES {
                    moves.first.push((number, line, how, from));
                }
            }
        }
        moves
    }

    /// Returns a side's logged accesses to the lines that have moved since the caches were emptied.
    pub(crate) fn accesses(&self, side: &Side) -> Reported {
        side.log.report(|line| self.lines.get(&line).is_some_and(|holders| holders.moved))
    }

    /// Updates the holders of a line that a CPU has touched. If the line had to move, returns the
    /// kind of move, and the CPUs that held the line.
    fn touch(&mut self, cpu: u32, line: &Line) -> Option<(Move, Cpus)> {
        let own: Cpus = 1 << cpu.min(Cpus::BITS - 1);
        let holders = self.lines.entry(line.number).or_default();
        let others = holders.cpus & !own;
        if line.written != 0 {
            let taken = others != 0;
            *holders = Holders { cpus: own, modified: true, moved: holders.moved || taken };
            return taken.then_some((Move::Taken, others));
        }
        // A modified line has one holder. If the holder is another CPU, this CPU does not have the
        // line.
        let fetched = holders.modified && others != 0;
        holders.modified &= !fetched;
        holders.moved |= fetched;
        holders.cpus |= own;
        fetched.then_some((Move::Fetched, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Chain;
    use crate::lines::{Access, LINE_BYTES, LineTable};
    use crate::place::{Place, Update};

    /// Makes these accesses to one line, and returns the move that each of them causes. Each access is a
    /// pair: the CPU's index, and whether the access is a write.
    fn moves(touches: &[(u32, bool)]) -> Vec<Option<(Move, Cpus)>> {
        let mut caches = Caches::default();
        let touch = |&(cpu, store): &(u32, bool)| {
            let mut table = LineTable::new();
            table.add(&Access { physical: 64, address: 64, bytes: 8, pc: 1, store }, || {
                Chain::EMPTY
            });
            caches.touch(cpu, &table.lines()[0])
        };
        touches.iter().map(touch).collect()
    }

    const READ: bool = false;
    const WRITE: bool = true;

    #[test]
    fn all_moves_of_a_test_are_counted_and_the_first_thousand_are_reported() {
        let side = |cpu: u32, lines: u64| {
            let mut side = Side::new();
            side.count.cpu = cpu;
            for line in 0..lines {
                let physical = line * LINE_BYTES;
                let access = Access { physical, address: physical, bytes: 8, pc: 1, store: WRITE };
                side.table.add(&access, || Chain::EMPTY);
            }
            side
        };
        let (first, second) = (side(0, 3000), side(1, 1200));
        let mut caches = Caches::default();
        let moves = caches.touched(&[(0, &first), (1, &second)]);
        assert_eq!((moves.taken, moves.fetched, moves.first.len()), (1200, 0, MAX_MOVES));
        assert_eq!(
            caches.touched(&[(0, &second)]).taken,
            0,
            "the second side ran on the same CPU as before, so no line moves"
        );
    }

    #[test]
    fn accesses_are_reported_from_the_test_in_which_their_line_first_moves() {
        let side = |cpu: u32, lines: &[u64]| {
            let mut side = Side::new();
            side.count.cpu = cpu;
            for &line in lines {
                let physical = line * LINE_BYTES;
                let access = Access { physical, address: physical, bytes: 8, pc: 1, store: WRITE };
                side.table.add(&access, || Chain::EMPTY);
                let place = Place { pc: 1, rest: 1, update: Update::Plain };
                side.log.add(&access, &place, 1);
            }
            side
        };
        let mut caches = Caches::default();
        let mut lines = |cpu, lines: &[u64]| -> Vec<u64> {
            let side = side(cpu, lines);
            caches.touched(&[(0, &side)]);
            caches.accesses(&side).accesses.iter().map(|access| access.line).collect()
        };
        assert_eq!(lines(0, &[1, 2]), []);
        assert_eq!(lines(1, &[2, 3]), [2]);
        assert_eq!(lines(1, &[2, 3]), [2], "the line does not move in this test");
    }

    #[test]
    fn a_line_that_only_one_cpu_uses_never_moves() {
        assert_eq!(moves(&[(3, WRITE), (3, READ), (3, WRITE), (3, WRITE)]), [None; 4]);
    }

    #[test]
    fn a_line_that_is_only_read_does_not_move() {
        assert_eq!(moves(&[(0, READ), (1, READ), (0, READ), (63, READ)]), [None; 4]);
    }

    #[test]
    fn each_writer_takes_the_line_from_the_previous_writer() {
        let taken = |from| Some((Move::Taken, from));
        assert_eq!(
            moves(&[(0, WRITE), (1, WRITE), (2, WRITE), (0, WRITE)]),
            [None, taken(0b1), taken(0b10), taken(0b100)]
        );
    }

    #[test]
    fn a_writer_that_has_read_the_line_takes_it_from_all_other_readers() {
        assert_eq!(
            moves(&[(0, READ), (1, READ), (2, READ), (1, WRITE)])[3],
            Some((Move::Taken, 0b101))
        );
    }

    #[test]
    fn a_reader_fetches_the_line_from_its_writer_once() {
        let fetched = Some((Move::Fetched, 0b1));
        assert_eq!(
            moves(&[(0, WRITE), (1, READ), (1, READ), (2, READ), (0, READ)]),
            [None, fetched, None, None, None]
        );
        assert_eq!(
            moves(&[(0, WRITE), (1, READ), (0, WRITE)])[2],
            Some((Move::Taken, 0b10)),
            "the writer has to invalidate the reader"
        );
    }
}
