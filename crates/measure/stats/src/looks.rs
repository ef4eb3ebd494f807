//! Repeated looks at growing data: when to look, and how much evidence to require at each look.
//!
//! A test at 5% that is repeated after every round, until it succeeds, calls equal sides different
//! far more often than in 5% of all runs. Alpha spending bounds the error over all looks: each look
//! gets a share of the error probability, fixed before the first round (K. K. G. Lan and D. L.
//! DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70, 1983). The shares
//! add up to 1. By the union bound, the error probability of all looks together is therefore at
//! most that of a single test, however the looks depend on each other and whichever look is the
//! last. Lan and DeMets choose tighter boundaries from the joint distribution of the looks, which
//! for ranks is known only approximately. The union bound holds for every distribution, at the
//! price of somewhat more rounds.
//!
//! The shares are a property of the intervals too: at 95% confidence, the intervals of all looks
//! contain the true value together, with a probability of 95%. A caller may therefore stop at any
//! look, for any reason, and report the interval of that look.
//!
//! # Which looks
//!
//! * The first look is at the smallest round count at which a claim is possible. With fewer rounds,
//!   even rounds that all agree prove too little: the smallest p-value of a sign test, a signed-rank
//!   test or an interval of a median is 2^(1−n). At the first look, only such rounds give a
//!   result, as those of a quiet machine do. It gets a quarter of the error probability, because a
//!   smaller share would delay it: each halving costs one round.
//! * Each later look is at √2 times the rounds of the previous one. A run thus has at most 41% more
//!   rounds than it needed, and few looks share the other three quarters. Look number k gets a
//!   share in proportion to 1/k, because most runs end early.
//! * The last look is at 128 times the rounds of the first. Intervals narrow with the square root
//!   of the rounds, so longer runs are not worth their time.

/// The share of the first look.
const FIRST_SHARE: f64 = 0.25;
/// The number of looks after the first.
const LATER_LOOKS: u32 = 14;

/// A plan of looks at the rounds of some points, for a family of claims with one error probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Looks {
    first: u32,
    points: usize,
}

impl Looks {
    /// The looks for claims that hold for all of `points` points together at `confidence` (0 to 1,
    /// exclusive). The first look has at least `rounds` rounds.
    ///
    /// ```
    /// use knee_stats::Looks;
    ///
    /// let looks = Looks::new(0.95, 1, 5);
    /// let rounds: Vec<u32> = (1..=32).filter(|&n| looks.is_look(n)).collect();
    /// assert_eq!(rounds, [8, 11, 16, 23, 32]);
    /// ```
    pub fn new(confidence: f64, points: usize, rounds: u32) -> Self {
        let level = (1.0 - confidence) * FIRST_SHARE / points.max(1) as f64;
        let suffices = |n: &u32| 2.0 * 0.5f64.powf(f64::from(*n)) < level;
        let first = (1..).find(suffices).expect("each round halves it").max(rounds);
        Self { first, points: points.max(1) }
    }

    /// The rounds of the first look.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The rounds of the last look.
    pub fn last(&self) -> u32 {
        self.look(LATER_LOOKS)
    }

    /// The number of looks.
    pub fn count(&self) -> u32 {
        1 + LATER_LOOKS
    }

    /// The number of points whose claims hold together.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Whether there is a look at `n` rounds.
    pub fn is_look(&self, n: u32) -> bool {
        (0..=LATER_LOOKS).any(|nr| self.look(nr) == n)
    }

    /// The share of the error probability for a claim about one point from `n` rounds. A run that
    /// ends between two looks, for a reason other than its rates, uses the share of the look that
    /// it does not reach.
    pub fn share(&self, n: usize) -> f64 {
        let reached = (0..LATER_LOOKS).find(|&nr| self.look(nr) as usize >= n);
        let of_look = match reached.unwrap_or(LATER_LOOKS) {
            0 => FIRST_SHARE,
            nr => {
                let all: f64 = (1..=LATER_LOOKS).map(|nr| 1.0 / f64::from(nr)).sum();
                (1.0 - FIRST_SHARE) / all / f64::from(nr)
            }
        };
        of_look / self.points as f64
    }

    /// The confidence of the interval of one point from `n` rounds, so that all intervals hold
    /// together at `confidence`.
    pub fn confidence(&self, n: usize, confidence: f64) -> f64 {
        1.0 - (1.0 - confidence) * self.share(n)
    }

    /// The rounds of look number `nr`, from 0.
    fn look(&self, nr: u32) -> u32 {
        let rounds = f64::from(self.first) * std::f64::consts::SQRT_2.powf(f64::from(nr));
        rounds.round().min(f64::from(u32::MAX)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CompareOptions, Verdict, compare_pairs, median_interval};

    #[test]
    fn the_shares_of_all_looks_at_all_points_add_up_to_one() {
        for (points, rounds) in [(1, 1), (3, 20), (24, 5)] {
            let looks = Looks::new(0.95, points, rounds);
            let counts: Vec<u32> = (1..=looks.last()).filter(|&n| looks.is_look(n)).collect();
            assert_eq!(counts.len(), looks.count() as usize);
            assert_eq!((counts[0], counts.last()), (looks.first(), Some(&looks.last())));
            let spent: f64 = counts.iter().map(|&n| looks.share(n as usize)).sum();
            assert!((spent * points as f64 - 1.0).abs() < 1e-12, "{spent}");
        }
    }

    #[test]
    fn rounds_between_two_looks_use_the_share_of_the_next() {
        let looks = Looks::new(0.95, 2, 1);
        assert_eq!(looks.first(), 9);
        assert_eq!(looks.share(5), looks.share(9));
        assert_eq!(looks.share(10), looks.share(13));
        assert!(looks.share(10) < looks.share(9));
        assert!(looks.share(14) < looks.share(13));
        assert!((looks.confidence(9, 0.95) - (1.0 - 0.05 / 8.0)).abs() < 1e-12);
    }

    #[test]
    fn the_first_look_is_the_first_at_which_a_claim_is_possible() {
        for (confidence, points) in [(0.8, 1), (0.95, 1), (0.95, 3), (0.95, 24), (0.99, 2)] {
            let looks = Looks::new(confidence, points, 1);
            let options = CompareOptions { confidence, looks: Some(looks), ..Default::default() };
            let verdict = |n: u32| {
                let pairs: Vec<_> = (0..n).map(|i| (100.0, 110.0 + f64::from(i))).collect();
                compare_pairs(&[pairs], &options)[0].unwrap().verdict
            };
            assert_eq!(verdict(looks.first()), Verdict::Faster, "{looks:?}");
            assert_eq!(verdict(looks.first() - 1), Verdict::Inconclusive, "{looks:?}");
        }
        let looks = Looks::new(0.95, 1, 1);
        let rates: Vec<f64> = (0..looks.first()).map(f64::from).collect();
        let asked = looks.confidence(rates.len(), 0.95);
        assert_eq!(median_interval(&rates, asked).unwrap().confidence, asked);
        assert!(median_interval(&rates[1..], asked).unwrap().confidence < asked);
    }

    #[test]
    fn more_requested_rounds_move_all_looks() {
        let looks = Looks::new(0.95, 1, 20);
        assert!([20, 28, 40].iter().all(|&n| looks.is_look(n)));
        assert!(![8, 11, 16, 21].iter().any(|&n| looks.is_look(n)));
    }
}
