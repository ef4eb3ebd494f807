//! Trials with known verdicts. Before the first test, these trials run on the threads that make calls.
//! The results show knee whether QEMU reports exactly the memory that two threads share.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use knee_marks::{Mark, SIDES};
use serde::{Deserialize, Serialize};

/// The offset of the first of the two neighbouring bytes in their line.
pub const NEIGHBOURS_AT: usize = 10;
const LINE: usize = 64;

/// What each of the two threads of a trial does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing.
    Nothing,
    /// Each thread writes to its own line.
    OwnLines,
    /// Both threads write the first eight bytes of one line.
    SharedWord,
    /// The threads write neighbouring bytes of one line: thread `n` writes the byte at
    /// [`NEIGHBOURS_AT`] + `n`.
    NeighbouringBytes,
}

impl Kind {
    /// All kinds, in the order of their trials.
    pub const ALL: [Kind; 4] =
        [Kind::Nothing, Kind::OwnLines, Kind::SharedWord, Kind::NeighbouringBytes];
}

/// A trial: two threads that run one after the other. Thread `n` opens and closes the window of side `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// What each of the two threads does.
    pub kind: Kind,
    /// The thread that runs first.
    pub first: usize,
    /// The thread that runs second.
    pub second: usize,
}

/// Returns all trials, in the order in which they run. For each kind, each thread is paired with the
/// thread of the next number, and the last thread with thread 0. Each pair runs in both orders.
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

/// Performs a thread's part of a trial, inside the thread's window. This function is not inlined, so that
/// each mark occurs only once in the code.
#[inline(never)]
pub(crate) fn window(kind: Kind, thread: usize) {
    let side = thread as u8;
    Mark::Open(side).emit();
    match kind {
        Kind::Nothing => {}
        // Nothing reads these variables. `black_box` keeps the optimizer from removing the stores.
        Kind::OwnLines => black_box(&OWN)[thread].0[0].store(1, Relaxed),
        Kind::SharedWord => black_box(&SHARED).0[0].store(1, Relaxed),
        Kind::NeighbouringBytes => {
            black_box(&NEIGHBOURS).0[NEIGHBOURS_AT + thread].store(1, Relaxed);
        }
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
