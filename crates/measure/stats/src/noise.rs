//! The noise floor: what an A/A comparison shows on this machine.
//!
//! Rounds of one unchanged thing are split into two groups as if they were "before" and "after".
//! A claim must exceed the difference that 95% of the splits stay below.

use crate::median;

/// For more rounds, the splits are drawn at random instead of enumerated.
const ENUMERATE_UP_TO: usize = 10;
/// Number of random splits. It determines the 95th percentile to about ±1%.
const RANDOM_SPLITS: usize = 2000;

/// What chance alone shows between two halves of the same rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseFloor {
    /// The relative difference of medians that 95% of the splits stay below; 0.02 is 2%.
    pub relative: f64,
    /// The number of rounds it is estimated from.
    pub rounds: usize,
}

/// The noise floor of a point from the rates of its rounds; `None` for fewer than four rounds or a
/// median of zero.
pub fn noise_floor(rates: &[f64]) -> Option<NoiseFloor> {
    let n = rates.len();
    if n < 4 || median(rates)? == 0.0 {
        return None;
    }
    let mut differences = Vec::new();
    let mut consider = |in_a: &dyn Fn(usize) -> bool| {
        let (a, b): (Vec<_>, Vec<_>) = (0..n).partition(|&i| in_a(i));
        let pick = |group: &[usize]| group.iter().map(|&i| rates[i]).collect::<Vec<_>>();
        let (a, b) = (median(&pick(&a)), median(&pick(&b)));
        if let (Some(a), Some(b)) = (a, b)
            && a > 0.0
        {
            differences.push((b / a - 1.0).abs());
        }
    };
    if n <= ENUMERATE_UP_TO {
        for set in 0u32..1 << n {
            if set.count_ones() as usize == n / 2 {
                consider(&|i| set & (1 << i) != 0);
            }
        }
    } else {
        let mut random = oorandom::Rand32::new(n as u64);
        let mut order: Vec<usize> = (0..n).collect();
        for _ in 0..RANDOM_SPLITS {
            for i in (1..n).rev() {
                order.swap(i, random.rand_range(0..i as u32 + 1) as usize);
            }
            let a = &order[..n / 2];
            consider(&|i| a.contains(&i));
        }
    }
    differences.sort_by(f64::total_cmp);
    let rank = (differences.len() as f64 * 0.95).ceil() as usize;
    Some(NoiseFloor { relative: *differences.get(rank.saturating_sub(1))?, rounds: n })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_rounds_have_no_noise() {
        assert_eq!(noise_floor(&[3.0; 8]).unwrap().relative, 0.0);
    }

    #[test]
    fn too_few_rounds_give_no_floor() {
        assert_eq!(noise_floor(&[1.0, 2.0, 3.0]), None);
        assert_eq!(noise_floor(&[0.0; 8]), None);
    }

    #[test]
    fn the_floor_grows_with_the_spread_of_the_rounds() {
        let series = |spread: f64, n: usize| -> Vec<f64> {
            let mut random = oorandom::Rand64::new(9);
            (0..n).map(|_| 100.0 * (1.0 + spread * (random.rand_float() - 0.5))).collect()
        };
        for n in [10, 24] {
            let quiet = noise_floor(&series(0.01, n)).unwrap().relative;
            let loud = noise_floor(&series(0.20, n)).unwrap().relative;
            assert!(quiet < 0.01 && loud > 3.0 * quiet, "{n}: {quiet} {loud}");
        }
    }
}
