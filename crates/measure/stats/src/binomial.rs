//! Binomial probabilities: the arithmetic behind every statement about a median.

use statrs::distribution::{Binomial, DiscreteCDF};
use statrs::function::factorial::ln_binomial;

/// The probability of at least `count` successes in `n` trials.
pub(crate) fn at_least(count: usize, n: usize, probability: f64) -> f64 {
    if count == 0 {
        return 1.0;
    }
    let binomial = Binomial::new(probability, n as u64).expect("a share of the rounds is in 0..=1");
    binomial.sf(count as u64 - 1)
}

/// The logarithm of the number of ways to choose `k` of `n`.
pub(crate) fn ln_choose(n: usize, k: usize) -> f64 {
    ln_binomial(n as u64, k as u64)
}
