//! Pseudorandom numbers: PCG XSH RR (O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically
//! Good Algorithms for Random Number Generation", 2014), with the sequence of the crate oorandom. That crate
//! is not used, because the build script of knee-kernel compiles this crate without Cargo, and thus without
//! dependencies.

const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 2 * 1_442_695_040_888_963_407 + 1;

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut random = Random(0);
        random.next();
        random.0 = random.0.wrapping_add(seed);
        random.next();
        random
    }

    fn next(&mut self) -> u32 {
        let state = self.0;
        self.0 = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        let word = ((state >> 18 ^ state) >> 27) as u32;
        word.rotate_right((state >> 59) as u32)
    }

    /// Returns a number below `end`. `end` must not be 0. All results are equally likely (Lemire, "Fast
    /// Random Integer Generation in an Interval", 2019).
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        let mut product = u64::from(self.next()) * u64::from(end);
        if (product as u32) < end {
            let threshold = end.wrapping_neg() % end;
            while (product as u32) < threshold {
                product = u64::from(self.next()) * u64::from(end);
            }
        }
        (product >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_oorandom() {
        for seed in 0..20 {
            let (mut own, mut other) = (Random::new(seed), oorandom::Rand32::new(seed));
            for end in (1..2000).chain([u32::MAX, 3 << 30]) {
                assert_eq!(own.below(end), other.rand_range(0..end), "{seed}, {end}");
            }
        }
    }
}
