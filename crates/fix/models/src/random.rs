//! Pseudorandom numbers for tests, and the factor by which tests are lengthened.

/// Pseudorandom numbers: xorshift.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Returns a generator that starts from this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number, from 0 to `end - 1`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// The factor by which tests are lengthened: `long` if `KNEE_TORTURE=long` is set, and otherwise 1. A long
/// run takes minutes.
pub fn patience(long: u64) -> u64 {
    let is_long = std::env::var_os("KNEE_TORTURE").is_some_and(|is| is == "long");
    if is_long { long } else { 1 }
}
