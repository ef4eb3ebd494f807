//! Finds the conflicts of a test, given the tables of its sides.

use crate::lines::{Line, LineTable};

/// The maximum number of conflicts that are listed for a test; further conflicts are only counted.
pub(crate) const MAX_CONFLICTS: usize = 1000;

/// A line that one side wrote and another side read or wrote.
pub(crate) struct Conflict<'a> {
    /// The sides that touched the line: their numbers and accesses.
    pub(crate) sides: Vec<(usize, &'a Line)>,
    /// Whether the conflict is true sharing: one side touched a byte that another side wrote.
    pub(crate) overlap: bool,
}

/// Returns the conflicts of a test, in the order in which the first side touched the lines, and the
/// number of conflicts beyond [`MAX_CONFLICTS`].
pub(crate) fn conflicts<'a>(tables: &[(usize, &'a LineTable)]) -> (Vec<Conflict<'a>>, u64) {
    let mut found = Vec::new();
    let mut more = 0;
    for (at, (side, table)) in tables.iter().enumerate() {
        for line in table.lines() {
            let later = tables[at + 1..].iter();
            let later = later.filter_map(|(side, table)| Some((*side, table.get(line.number)?)));
            let (mut shared, mut written) = (false, line.written != 0);
            for (_, other) in later.clone() {
                shared = true;
                written |= other.written != 0;
            }
            let is_new = || tables[..at].iter().all(|(_, table)| table.get(line.number).is_none());
            if !(shared && written && is_new()) {
                continue;
            }
            if found.len() == MAX_CONFLICTS {
                more += 1;
                continue;
            }
            let sides: Vec<_> = std::iter::once((*side, line)).chain(later).collect();
            let overlap = sides.iter().any(|(writer, written)| {
                let others = sides.iter().filter(|(side, _)| side != writer);
                others.fold(0, |bytes, (_, other)| bytes | other.read | other.written)
                    & written.written
                    != 0
            });
            found.push(Conflict { sides, overlap });
        }
    }
    (found, more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Chain;
    use crate::lines::Access;

    fn table(accesses: &[(u64, bool)]) -> LineTable {
        let mut table = LineTable::new();
        for &(physical, store) in accesses {
            table.add(&Access { physical, address: physical, bytes: 4, pc: 1, store }, || {
                Chain::EMPTY
            });
        }
        table
    }

    fn found(tables: &[&LineTable]) -> Vec<(Vec<usize>, bool)> {
        let tables: Vec<_> = tables.iter().copied().enumerate().collect();
        let (conflicts, more) = conflicts(&tables);
        assert_eq!(more, 0);
        let sides =
            |conflict: &Conflict<'_>| conflict.sides.iter().map(|(side, _)| *side).collect();
        conflicts.iter().map(|conflict| (sides(conflict), conflict.overlap)).collect()
    }

    #[test]
    fn two_readers_do_not_conflict_but_a_reader_and_a_writer_do() {
        let (reader, writer) = (table(&[(0, false)]), table(&[(0, true)]));
        assert_eq!(found(&[&reader, &reader]), []);
        assert_eq!(found(&[&reader, &writer]), [(vec![0, 1], true)]);
        assert_eq!(found(&[&writer, &table(&[(64, true)])]), []);
    }

    #[test]
    fn neighbouring_bytes_of_a_line_are_false_sharing() {
        assert_eq!(found(&[&table(&[(0, true)]), &table(&[(4, true)])]), [(vec![0, 1], false)]);
        assert_eq!(found(&[&table(&[(0, true)]), &table(&[(4, false)])]), [(vec![0, 1], false)]);
    }

    #[test]
    fn a_conflict_lists_each_side_that_touched_the_line_once() {
        let (none, reader, writer) = (table(&[]), table(&[(0, false)]), table(&[(0, true)]));
        assert_eq!(found(&[&none, &reader, &none, &writer]), [(vec![1, 3], true)]);
        assert_eq!(found(&[&reader, &reader, &writer, &writer]), [(vec![0, 1, 2, 3], true)]);
    }

    #[test]
    fn conflicts_beyond_a_thousand_are_only_counted() {
        let lines: Vec<_> = (0..1003).map(|line| (line * 64, true)).collect();
        let table = table(&lines);
        let (conflicts, more) = conflicts(&[(0, &table), (1, &table)]);
        assert_eq!((conflicts.len(), more), (MAX_CONFLICTS, 3));
    }
}
