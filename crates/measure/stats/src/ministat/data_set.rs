//! One set of values and its summary.

/// Minimum number of values of a data set.
pub const MIN_VALUES: usize = 3;

/// Values in ascending order, with the sums for the summary.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    sorted: Vec<f64>,
    sum: f64,
    sum_of_squares: f64,
}

impl DataSet {
    /// A set of `values`; `None` if there are fewer than [`MIN_VALUES`].
    pub fn new(values: &[f64]) -> Option<Self> {
        if values.len() < MIN_VALUES {
            return None;
        }
        // Before sorting: rounding depends on the order.
        let (mut sum, mut sum_of_squares) = (0.0, 0.0);
        for value in values {
            sum += value;
            sum_of_squares += value * value;
        }
        Some(Self { sorted: merge_sorted(values), sum, sum_of_squares })
    }

    /// The values, ascending.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// The number of values.
    pub fn n(&self) -> usize {
        self.sorted.len()
    }

    /// The smallest value.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// The greatest value.
    pub fn max(&self) -> f64 {
        self.sorted[self.n() - 1]
    }

    /// The median: for an even number of values, the upper one of the two middle values.
    pub fn upper_median(&self) -> f64 {
        self.sorted[self.n() / 2]
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        self.sum / self.n() as f64
    }

    /// The sample variance. Cancellation can make it NaN, zero or negative if the spread is tiny
    /// compared to the mean.
    pub fn variance(&self) -> f64 {
        let n = self.n() as f64;
        (self.sum_of_squares - self.sum * self.sum / n) / (n - 1.0)
    }

    /// The sample standard deviation; NaN for a negative [`variance`](Self::variance).
    pub fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }
}

/// A stable merge sort in which NaN compares equal to every value. That is not an order, so the
/// result depends on the algorithm, which is that of glibc's `qsort`; `slice::sort_by` may panic.
fn merge_sorted(values: &[f64]) -> Vec<f64> {
    if values.len() < 2 {
        return values.to_vec();
    }
    let (left, right) = values.split_at(values.len() / 2);
    let (left, right) = (merge_sorted(left), merge_sorted(right));
    let (mut left, mut right) = (left.as_slice(), right.as_slice());
    let mut merged = Vec::with_capacity(values.len());
    while let ([l, left_rest @ ..], [r, right_rest @ ..]) = (left, right) {
        if l > r {
            merged.push(*r);
            right = right_rest;
        } else {
            merged.push(*l);
            left = left_rest;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_summary_of_a_few_values() {
        let set = DataSet::new(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((set.n(), set.min(), set.max()), (4, 1.0, 4.0));
        assert_eq!((set.upper_median(), set.mean()), (3.0, 2.5));
        assert!((set.deviation() - 1.290_994_448_7).abs() < 1e-9);
    }

    #[test]
    fn two_values_are_not_a_data_set() {
        assert_eq!(DataSet::new(&[1.0, 2.0]), None);
    }

    /// The true deviation is 0.019; ministat prints this one.
    #[test]
    fn a_spread_that_is_tiny_compared_to_the_mean_is_lost() {
        let values: Vec<f64> = (1..=6).map(|i| 1e9 + f64::from(i) / 100.0).collect();
        let deviation = DataSet::new(&values).unwrap().deviation();
        assert!((deviation - 14.310_835).abs() < 1e-6, "{deviation}");
    }

    #[test]
    fn a_nan_stays_where_the_merge_puts_it() {
        let set = DataSet::new(&[f64::NAN, 1.0, 2.0]).unwrap();
        assert!(set.min().is_nan() && set.mean().is_nan());
        assert_eq!((set.upper_median(), set.max()), (1.0, 2.0));
    }

    proptest! {
        #[test]
        fn values_come_out_in_order(values in prop::collection::vec(-1e9..1e9, 3..200)) {
            let mut expected = values.clone();
            expected.sort_by(f64::total_cmp);
            let set = DataSet::new(&values).unwrap();
            prop_assert_eq!(set.sorted(), expected);
        }
    }
}
