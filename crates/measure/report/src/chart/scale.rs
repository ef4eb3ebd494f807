//! Maps numbers to positions, and chooses the ticks of an axis.

/// A map from a domain to a range, linear or logarithmic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    pub(super) domain: (f64, f64),
    pub(super) range: (f64, f64),
    is_logarithmic: bool,
}

impl Scale {
    /// A domain of one number maps to the middle of the range.
    pub(super) fn new(domain: (f64, f64), range: (f64, f64)) -> Self {
        let (low, high) = domain;
        let domain = if high > low { domain } else { (low - 0.5, low + 0.5) };
        Self { domain, range, is_logarithmic: false }
    }

    /// A scale of positive numbers on which equal factors have equal lengths. A domain of one
    /// number maps to the middle of the range.
    pub(super) fn logarithmic(domain: (f64, f64), range: (f64, f64)) -> Self {
        Self { is_logarithmic: domain.1 > domain.0, ..Self::new(domain, range) }
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        self.is_logarithmic
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let ((d0, d1), (r0, r1)) = (self.domain, self.range);
        let share = match self.is_logarithmic {
            true => (value / d0).ln() / (d1 / d0).ln(),
            false => (value - d0) / (d1 - d0),
        };
        r0 + share * (r1 - r0)
    }

    /// Like [`Scale::at`], clamped to the range.
    pub(super) fn within(&self, value: f64) -> f64 {
        self.at(value.clamp(self.domain.0, self.domain.1))
    }
}

/// Round numbers from `low` to `high`, about `wanted` of them: steps of 1, 2 or 5 times a power
/// of ten.
pub(super) fn round_ticks(low: f64, high: f64, wanted: u32) -> Vec<f64> {
    let step = round_step((high - low) / f64::from(wanted));
    let (first, last) = ((low / step).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (first..=last).map(|i| i as f64 * step).collect()
}

/// The round number closest to `rough`, by ratio.
fn round_step(rough: f64) -> f64 {
    if rough <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let factor = match rough / power {
        x if x < 1.5 => 1.0,
        x if x < 3.2 => 2.0,
        x if x < 7.1 => 5.0,
        _ => 10.0,
    };
    factor * power
}

/// The logarithms of round numbers in a domain of logarithms: the powers of ten, and their
/// multiples by 2 and 5 if there are few powers.
pub(super) fn log_ticks((low, high): (f64, f64)) -> Vec<f64> {
    let factors: &[f64] = if high - low > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let decades = low.floor() as i32..=high.ceil() as i32;
    let ticks = decades.flat_map(|ten| factors.iter().map(move |f| f64::from(ten) + f.log10()));
    ticks.filter(|tick| (low..=high).contains(tick)).collect()
}

/// A number with its unit, such as `20.0 M`, without zeros at the end of its decimals.
pub(super) fn without_zeros(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// Decimals that distinguish about `wanted` ticks in a range of `size`.
pub(super) fn tick_decimals(size: f64, wanted: u32) -> usize {
    let step = round_step(size / f64::from(wanted));
    (-step.log10().floor()).clamp(0.0, 6.0) as usize
}

/// The `counts` to write on the axis, at least `gap` apart. The ends have priority, then the
/// multiples of the highest power of two, which are typical CPU counts.
pub(super) fn count_ticks(counts: &[u32], scale: &Scale, gap: f64) -> Vec<u32> {
    let mut rounder_first = counts.to_vec();
    rounder_first.sort_by_key(|n| std::cmp::Reverse(n.trailing_zeros()));
    let ends = counts.first().into_iter().chain(counts.last()).copied();
    let mut ticks: Vec<u32> = Vec::new();
    for n in ends.chain(rounder_first) {
        let at = |n: u32| scale.at(f64::from(n));
        if ticks.iter().all(|&tick| (at(tick) - at(n)).abs() >= gap) {
            ticks.push(n);
        }
    }
    ticks.sort_unstable();
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(round_ticks(0.0, 11.6, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(round_ticks(0.0, 1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(round_ticks(0.0, 0.0, 4), [0.0]);
        assert_eq!(tick_decimals(0.25, 5), 2);
        assert_eq!(tick_decimals(100.0, 5), 0);
    }

    #[test]
    fn task_counts_never_overlap_on_the_axis() {
        let scale = Scale::new((1.0, 64.0), (0.0, 320.0));
        assert_eq!(
            count_ticks(&[1, 2, 4, 8, 16, 32, 48, 64], &scale, 22.0),
            [1, 8, 16, 32, 48, 64]
        );
    }

    #[test]
    fn an_axis_of_many_task_counts_has_the_round_ones() {
        let scale = Scale::new((1.0, 256.0), (0.0, 256.0));
        let counts: Vec<u32> = (1..=256).collect();
        assert_eq!(count_ticks(&counts, &scale, 24.0), [1, 32, 64, 96, 128, 160, 192, 224, 256]);
    }

    #[test]
    fn equal_factors_have_equal_lengths_on_a_logarithmic_scale() {
        let scale = Scale::logarithmic((1.0, 64.0), (0.0, 6.0));
        assert!(
            [1.0, 8.0, 64.0]
                .map(|n| scale.at(n))
                .iter()
                .zip([0.0, 3.0, 6.0])
                .all(|(a, b)| { (a - b).abs() < 1e-9 })
        );
        assert!(!Scale::logarithmic((4.0, 4.0), (0.0, 6.0)).is_logarithmic());
    }

    #[test]
    fn a_single_number_lies_in_the_middle() {
        assert_eq!(Scale::new((4.0, 4.0), (0.0, 10.0)).at(4.0), 5.0);
    }
}
