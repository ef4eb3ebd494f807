//! The results in words: a table, a plot, and what differs from the first file.

use std::fmt::Write;

use knee_stats::median;
use knee_stats::ministat::{Comparison, DataSet, Quantiles, SYMBOLS, general, plot};

use super::View;
use super::numbers::Numbers;

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const DIM: anstyle::Style = anstyle::Style::new().dimmed();

/// Significant digits; more than measurements are worth.
const DIGITS: usize = 6;
/// What stands for a number whose computation leaves the range of a float.
const UNKNOWN: &str = "-";

/// The table, the plot and a verdict for every file but the first.
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
            text += &verdict(first, other, view);
        }
    }
    Ok(text)
}

/// A data set measured from near its middle, because sums of squares lose the digits of a spread
/// that is small beside the mean.
struct Summary {
    name: String,
    origin: f64,
    from_origin: DataSet,
}

impl Summary {
    fn new(numbers: &Numbers, origin: f64) -> Self {
        let values: Vec<f64> = numbers.set.sorted().iter().map(|value| value - origin).collect();
        Self {
            name: numbers.name.display().to_string(),
            origin,
            from_origin: DataSet::new(&values).expect("as many values as before"),
        }
    }

    fn median(&self) -> f64 {
        self.origin + median(self.from_origin.sorted()).expect("a data set is not empty")
    }

    fn mean(&self) -> f64 {
        self.origin + self.from_origin.mean()
    }

    fn compare(&self, first: &Self, view: &View) -> Comparison {
        Comparison {
            reference: first.mean(),
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
        let deviation = summary.from_origin.deviation();
        let [median, mean, deviation] = [summary.median(), summary.mean(), deviation].map(number);
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
            "{BOLD}{}: no comparison with {}{BOLD:#}, the numbers are too large for their squares\n",
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
        false => "no difference found from",
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
