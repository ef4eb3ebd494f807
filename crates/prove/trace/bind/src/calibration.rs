//! Trials whose verdicts are known, made before the first test by the threads that make its calls:
//! they show knee whether QEMU reports what threads share, and nothing else.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use knee_marks::{Mark, SIDES};
use serde::{Deserialize, Serialize};

/// Where the first of two neighbouring bytes is in its line.
pub const NEIGHBOURS_AT: usize = 10;
const LINE: usize = 64;

/// What both threads of a trial do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing.
    Nothing,
    /// Each writes to a line of its own.
    OwnLines,
    /// Both write the first word of one line, eight bytes.
    SharedWord,
    /// Each writes a byte of one line: thread `n` the one at [`NEIGHBOURS_AT`] and `n` more.
    NeighbouringBytes,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] =
        [Kind::Nothing, Kind::OwnLines, Kind::SharedWord, Kind::NeighbouringBytes];
}

/// Two threads, one after the other. The number of a thread is that of its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// What both do.
    pub kind: Kind,
    /// The thread that does it first.
    pub first: usize,
    /// … and the other.
    pub second: usize,
}

/// All trials, in their order: each thread beside the next one, in both orders.
pub fn trials() -> Vec<Trial> {
    let pairs = (0..SIDES).map(|first| (first, (first + 1) % SIDES));
    let both = pairs.flat_map(|(first, second)| [(first, second), (second, first)]);
    let of_kind = |kind| both.clone().map(move |(first, second)| Trial { kind, first, second });
    Kind::ALL.into_iter().flat_map(of_kind).collect()
}

#[repr(align(64))]
struct Words([AtomicU64; LINE / 8]);

#[repr(align(64))]
struct Bytes([AtomicU8; LINE]);

static OWN: [Words; SIDES] = [const { Words([const { AtomicU64::new(0) }; LINE / 8]) }; SIDES];
static SHARED: Words = Words([const { AtomicU64::new(0) }; LINE / 8]);
static NEIGHBOURS: Bytes = Bytes([const { AtomicU8::new(0) }; LINE]);

/// Does what a thread does in a trial, in its window. Not inlined: the marks are at one place each.
#[inline(never)]
pub(crate) fn window(kind: Kind, thread: usize) {
    let side = thread as u8;
    Mark::Open(side).emit();
    match kind {
        Kind::Nothing => {}
        Kind::OwnLines => OWN[thread].0[0].store(1, Relaxed),
        Kind::SharedWord => SHARED.0[0].store(1, Relaxed),
        Kind::NeighbouringBytes => NEIGHBOURS.0[NEIGHBOURS_AT + thread].store(1, Relaxed),
    }
    Mark::Close(side).emit();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_is_first_and_second_in_each_kind_of_trial() {
        let all = trials();
        for kind in Kind::ALL {
            for thread in 0..SIDES {
                let of_kind = || all.iter().filter(move |trial| trial.kind == kind);
                assert!(of_kind().any(|trial| trial.first == thread && trial.second != thread));
                assert!(of_kind().any(|trial| trial.second == thread && trial.first != thread));
            }
        }
    }
}
