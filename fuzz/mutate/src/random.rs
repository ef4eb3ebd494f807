//! Random choices that depend only on the seed of a campaign and the number of a run.

use std::ops::Range;

use oorandom::Rand64;

pub(crate) struct Random(Rand64);

impl Random {
    pub(crate) fn of_run(seed: u64, run: u64) -> Self {
        Self(Rand64::new((u128::from(seed) << 64) | u128::from(run)))
    }

    /// A number below `limit`, which must not be 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0.rand_range(0..limit as u64) as usize
    }

    /// An element of `choices`, which must not be empty.
    pub(crate) fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len())]
    }

    /// True with a probability of 1 in `n`.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A part of a text of `len` bytes: at least one byte, at most `most`. `len` must not be 0.
    pub(crate) fn part(&mut self, len: usize, most: usize) -> Range<usize> {
        let start = self.below(len);
        start..start + 1 + self.below(most.min(len - start))
    }
}
