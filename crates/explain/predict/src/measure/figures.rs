//! Figures from measured values.

use knee_stats::median;

use crate::machine::{Figure, Interrupts};

/// The name of the source of measured figures.
pub(super) const SOURCE: &str = "measured";

/// 1, 2, 4 … and the number itself.
pub(super) fn powers_of_two(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|&n| n < most).collect();
    counts.push(most);
    counts
}

/// The median of measured values, and the middle 80 % of them. `None` without values.
pub(super) fn figure(mut values: Vec<f64>) -> Option<Figure> {
    let value = tenths(median(&values)?);
    values.sort_by(f64::total_cmp);
    let at = |share: f64| tenths(values[(share * (values.len() - 1) as f64).round() as usize]);
    let range = (values.len() > 1).then(|| (at(0.1).min(value), at(0.9).max(value)));
    Some(Figure {
        value,
        low: range.map(|(low, _)| low),
        high: range.map(|(_, high)| high),
        source: SOURCE.to_owned(),
    })
}

/// Rounded to a tenth, which is finer than any of the measurements.
pub(super) fn tenths(value: f64) -> f64 {
    (value * 10.0).round().max(1.0) / 10.0
}

/// `first + each × (CPUs − 1)`, from times by number of CPUs.
pub(super) fn line(points: &[(usize, Vec<f64>)]) -> Option<Interrupts> {
    let first = figure(points.first()?.1.clone())?;
    let further = points[1..].iter().filter_map(|(count, times)| {
        Some((median(times)? - first.value).max(0.1) / (*count - 1) as f64)
    });
    let each = figure(further.collect());
    Some(Interrupts { first, each })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_powers_of_two_and_the_number_itself() {
        assert_eq!(powers_of_two(1), [1]);
        assert_eq!(powers_of_two(2), [1, 2]);
        assert_eq!(powers_of_two(6), [1, 2, 4, 6]);
    }

    #[test]
    fn a_figure_is_the_median_with_the_middle_80_percent() {
        let values: Vec<f64> = (0..=10).map(|nr| 50.0 + f64::from(nr)).collect();
        let found = figure(values).unwrap();
        assert_eq!((found.value, found.low, found.high), (55.0, Some(51.0), Some(59.0)));
        let one = figure(vec![2.52]).unwrap();
        assert_eq!((one.value, one.low, one.high), (2.5, None, None));
        assert_eq!(figure(Vec::new()), None);
    }

    #[test]
    fn interrupts_have_a_cost_for_the_first_cpu_and_for_each_further_one() {
        let times = |count: usize| vec![2_000.0 + 300.0 * (count - 1) as f64; 3];
        let found = line(&[1, 2, 4, 7].map(|count| (count, times(count)))).unwrap();
        assert_eq!((found.first.value, found.each.unwrap().value), (2_000.0, 300.0));
        assert_eq!(line(&[(1, times(1))]).unwrap().each, None);
        assert_eq!(line(&[]), None);
    }
}
