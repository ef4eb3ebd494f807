//! Lines that operations touch → lines that have to move between CPUs.
//!
//! The caches are those of a textbook: one per virtual CPU, without an end, kept coherent by
//! invalidation (MSI). What each holds follows from the operations alone: what happens between them
//! is not seen and moves nothing. Operations come one after the other, so a line moves at most once
//! in each.

use std::collections::HashMap;

use crate::lines::Line;
use crate::side::Side;

/// Moves of one operation that are reported one by one; the rest is counted.
const MAX_MOVES: usize = 1000;

/// Bit n: virtual CPU n, and from 63 on all of them: the driver offers a guest no more.
pub(crate) type Cpus = u64;

/// The CPUs that have a line.
#[derive(Clone, Copy, Default)]
struct Holders {
    cpus: Cpus,
    /// Its only holder has written it, and no other CPU has read it since.
    modified: bool,
}

/// What a line's way to the CPU that touches it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// It is written, and others have it: they lose it.
    Taken,
    /// It is read, and another has modified it: both have it then.
    Fetched,
}

/// How many lines the operations of a test had to move, and the first of them.
#[derive(Default)]
pub(crate) struct Moves<'a> {
    pub(crate) taken: u64,
    pub(crate) fetched: u64,
    /// The side, its line, how it moved and which CPUs had it.
    pub(crate) first: Vec<(usize, &'a Line, Move, Cpus)>,
}

/// The caches of all virtual CPUs.
#[derive(Default)]
pub(crate) struct Caches {
    lines: HashMap<u64, Holders>,
}

impl Caches {
    /// The sides of a test have touched their lines, one side after the other.
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

    /// A CPU has touched a line. If the line had to move, returns how, and which CPUs had it.
    fn touch(&mut self, cpu: u32, line: &Line) -> Option<(Move, Cpus)> {
        let own: Cpus = 1 << cpu.min(Cpus::BITS - 1);
        let holders = self.lines.entry(line.number).or_default();
        let others = holders.cpus & !own;
        if line.written != 0 {
            *holders = Holders { cpus: own, modified: true };
            return (others != 0).then_some((Move::Taken, others));
        }
        // A modified line has one holder: if that is another, this CPU has nothing.
        let fetched = holders.modified && others != 0;
        holders.modified &= !fetched;
        holders.cpus |= own;
        fetched.then_some((Move::Fetched, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Chain;
    use crate::lines::{Access, LINE_BYTES, LineTable};

    /// The moves that the touches of one line, by a CPU that writes or reads, cause.
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
    fn all_moves_of_a_test_are_counted_and_a_thousand_reported() {
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
            "the side's CPU counts, not its number"
        );
    }

    #[test]
    fn a_line_that_one_cpu_has_for_itself_never_moves() {
        assert_eq!(moves(&[(3, WRITE), (3, READ), (3, WRITE), (3, WRITE)]), [None; 4]);
    }

    #[test]
    fn readers_move_nothing_among_them() {
        assert_eq!(moves(&[(0, READ), (1, READ), (0, READ), (63, READ)]), [None; 4]);
    }

    #[test]
    fn each_writer_takes_it_from_the_one_before() {
        let taken = |from| Some((Move::Taken, from));
        assert_eq!(
            moves(&[(0, WRITE), (1, WRITE), (2, WRITE), (0, WRITE)]),
            [None, taken(0b1), taken(0b10), taken(0b100)]
        );
    }

    #[test]
    fn a_writer_takes_it_from_all_readers_even_if_it_has_read_it() {
        assert_eq!(
            moves(&[(0, READ), (1, READ), (2, READ), (1, WRITE)])[3],
            Some((Move::Taken, 0b101))
        );
    }

    #[test]
    fn a_reader_fetches_it_from_its_writer_once() {
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
