//! The results exactly as ministat prints them, byte for byte, except for control characters in
//! file names.

use std::fmt::Write;

use knee_stats::ministat::{Comparison, DataSet, Quantiles, SYMBOLS, general, plot};

use crate::exit::usage;

use super::numbers::Numbers;
use super::view::View;

/// Significant digits of `%.8g`, in the table.
const IN_TABLE: u8 = 8;
/// Significant digits of `%g`, in comparisons.
const IN_TEXT: u8 = 6;

/// Legend, plot, and the table with the comparisons between its lines.
pub(super) fn render(sets: &[Numbers], view: &View) -> anyhow::Result<String> {
    let mut out = String::new();
    let symbols = &SYMBOLS[1..];
    if view.head {
        for (numbers, symbol) in sets.iter().zip(symbols) {
            writeln!(out, "{symbol} {}", numbers.name.display())?;
        }
    }
    let data: Vec<&DataSet> = sets.iter().map(|numbers| &numbers.set).collect();
    if let Some(shape) = &view.plot {
        let text = plot(&data, shape.width, shape.separate).map_err(|error| {
            let cause = sets.iter().find_map(|numbers| numbers.require_finite().err());
            cause.unwrap_or_else(|| usage(error.to_string()))
        })?;
        out.push_str(&text);
    }
    if view.head {
        let [min, max, median, mean, deviation] = ["Min", "Max", "Median", "Avg", "Stddev"];
        writeln!(out, "    N {min:>13} {max:>13} {median:>13} {mean:>13} {deviation:>13}")?;
    }
    let mut reference = None;
    for (set, symbol) in data.into_iter().zip(symbols) {
        write!(out, "{symbol} {:3}", set.n())?;
        for number in [set.min(), set.max(), set.upper_median(), set.mean(), set.deviation()] {
            write!(out, " {:>13}", general(number, IN_TABLE))?;
        }
        out.push('\n');
        match reference {
            None => reference = Some(set),
            Some(first) if view.comparisons => {
                let comparison = Comparison::new(set, first, view.confidence, Quantiles::Ministat);
                out.push_str(&compared(&comparison, view));
            }
            Some(_) => {}
        }
    }
    Ok(out)
}

fn compared(comparison: &Comparison, view: &View) -> String {
    let confidence = view.confidence.percent();
    if !comparison.is_proven() {
        return format!("No difference proven at {confidence:.1}% confidence\n");
    }
    let [difference, half_width, pooled] =
        [comparison.difference, comparison.half_width, comparison.pooled]
            .map(|number| general(number, IN_TEXT));
    let (percent, percent_half_width) = comparison.percent();
    let [percent, percent_half_width] =
        [percent, percent_half_width].map(|number| general(number, IN_TEXT));
    format!(
        "Difference at {confidence:.1}% confidence\n\
         \t{difference} +/- {half_width}\n\
         \t{percent}% +/- {percent_half_width}%\n\
         \t(Student's t, pooled s = {pooled})\n"
    )
}
