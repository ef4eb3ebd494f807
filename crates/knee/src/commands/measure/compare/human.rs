//! The human-readable results: a table, a plot, and how each file differs from the first.

use std::fmt::Write;

use knee_host::text::Screen;
use knee_stats::median;
use knee_stats::ministat::{Comparison, DataSet, Quantiles, SYMBOLS, general, plot};

use super::numbers::Numbers;
use super::view::View;
use crate::present::style::{BOLD, DIM, UNKNOWN};

/// Significant digits: more than measurements justify.
const DIGITS: u8 = 6;

/// The table, the plot and a verdict for every file except the first.
///
/// # Errors
/// If a number is infinite or NaN.
pub(super) fn render(sets: &[Numbers], view: &View) -> anyhow::Result<String> {
    for numbers in sets {
        numbers.require_finite()?;
    }
    let origin = sets.first().and_then(|first| median(first.set.sorted())).unwrap_or(0.0);
    let summaries: Vec<Summary> =
        sets.iter().map(|numbers| Summary::new(numbers, origin)).collect();
    let mut text = table(&summaries, view.head);
    if let Some(shape) = &view.plot {
        let data: Vec<&DataSet> = summaries.iter().map(|summary| &summary.from_origin).collect();
        match plot(&data, shape.width, shape.separate) {
            Ok(plot) => text = text + "\n" + &plot,
            Err(error) => {
                let _ = writeln!(text, "\n{DIM}no plot: {error}{DIM:#}");
            }
        }
    }
    if view.comparisons
        && let [first, others @ ..] = summaries.as_slice()
        && !others.is_empty()
    {
        text.push('\n');
        for other in others {
            text += &view.screen.wrap(&verdict(first, other, view), "  ");
        }
    }
    // The table and the plot have their own widths.
    Ok(Screen { width: None, ..view.screen }.wrap(&text, ""))
}

/// The statistics of one file.
///
/// Sums of squares lose precision if the spread is small compared with the mean. The statistics of
/// a file are therefore computed relative to its own median, and differences between files relative
/// to the median of the first file.
struct Summary {
    name: String,
    median: f64,
    mean: f64,
    deviation: f64,
    /// The numbers, relative to the median of the first file.
    from_origin: DataSet,
}

impl Summary {
    fn new(numbers: &Numbers, origin: f64) -> Self {
        let values = numbers.set.sorted();
        let from = |origin: f64| {
            let shifted: Vec<f64> = values.iter().map(|value| value - origin).collect();
            DataSet::new(&shifted).expect("as many values as before")
        };
        let median = median(values).expect("a data set is not empty");
        let own = from(median);
        Self {
            name: numbers.name.display().to_string(),
            median,
            mean: median + own.mean(),
            deviation: own.deviation(),
            from_origin: from(origin),
        }
    }

    fn compare(&self, first: &Self, view: &View) -> Comparison {
        Comparison {
            reference: first.mean,
            ..Comparison::new(
                &self.from_origin,
                &first.from_origin,
                view.confidence,
                Quantiles::Exact,
            )
        }
    }
}

fn table(summaries: &[Summary], head: bool) -> String {
    let mut text = String::new();
    if head {
        let [n, median, mean, deviation, file] = ["n", "median", "mean", "stddev", "file"];
        let _ = writeln!(
            text,
            "{BOLD}  {n:>7} {median:>12} {mean:>12} {deviation:>12}  {file}{BOLD:#}"
        );
    }
    for (summary, symbol) in summaries.iter().zip(&SYMBOLS[1..]) {
        let n = summary.from_origin.n();
        let [median, mean, deviation] =
            [summary.median, summary.mean, summary.deviation].map(number);
        let name = if head { format!("  {}", summary.name) } else { String::new() };
        let _ = writeln!(text, "{symbol} {n:>7} {median:>12} {mean:>12} {deviation:>12}{name}");
    }
    text
}

fn number(value: f64) -> String {
    if value.is_finite() { general(value, DIGITS) } else { UNKNOWN.to_owned() }
}

fn verdict(first: &Summary, other: &Summary, view: &View) -> String {
    let comparison = other.compare(first, view);
    if !(comparison.difference.is_finite() && comparison.half_width.is_finite()) {
        return format!(
            "{BOLD}{}: not compared with {}{BOLD:#}: the numbers are so large that their squares \
             overflow\n",
            other.name, first.name
        );
    }
    let absolute = format!("{} ± {}", number(comparison.difference), number(comparison.half_width));
    let interval = if comparison.reference == 0.0 {
        absolute
    } else {
        let (percent, half_width) = comparison.percent();
        format!("{percent:+.2}% ± {:.2}% ({absolute})", half_width.abs())
    };
    let says = match comparison.is_proven() {
        false => "no proven difference from",
        true if comparison.difference > 0.0 => "higher than",
        true => "lower than",
    };
    let confidence = number(view.confidence.percent());
    format!(
        "{BOLD}{}: {says} {}{BOLD:#}, {interval} at {confidence}% confidence \
         {DIM}(Student's t){DIM:#}\n",
        other.name, first.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_stay_exact_if_the_first_file_has_much_larger_numbers() {
        let summary = |values: &[f64], origin| {
            let set = DataSet::new(values).unwrap();
            Summary::new(&Numbers { name: "x".into(), set, not_finite: None }, origin)
        };
        for origin in [1.1e13, 1e17] {
            let small = summary(&[0.1, 0.2, 0.3], origin);
            assert_eq!(small.median, 0.2);
            assert!((small.mean - 0.2).abs() < 1e-15);
            assert!((small.deviation - 0.1).abs() < 1e-15);
        }
        // A spread in the last digits of large numbers.
        let close = summary(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0], 5.0);
        assert_eq!((close.median, close.mean, close.deviation), (1e9 + 2.0, 1e9 + 2.0, 1.0));
    }
}
