//! Percentiles of latency before and after.

use knee_host::number::{plural, time};
use knee_host::text::{Cell, Column, Table};
use knee_results::{Compared, ComparedLatency, Doubt};
use knee_stats::{CompareOptions, Verdict};

use super::{change, colour, p_value, tally};

/// The table; `None` without latencies. `none` stands for unknown values.
pub(super) fn table(compared: &Compared, none: &str) -> Option<Table> {
    if compared.latencies.is_empty() {
        return None;
    }
    let mut table = Table::new(vec![
        Column::left("latency"),
        Column::left("percentile"),
        Column::right("before").drops(3),
        Column::right("after").drops(3),
        Column::right("change"),
        Column::right("interval").drops(2),
        Column::right("p").drops(1),
        Column::left("verdict"),
    ]);
    table.titles();
    for latency in &compared.latencies {
        let c = &latency.comparison;
        let colour = colour(c.verdict);
        let is_tested = c.test.is_some();
        let ratio = c.ratio.map_or(none.to_owned(), |ratio| change(ratio.ratio));
        let interval = c.ratio.filter(|_| is_tested).map_or(none.to_owned(), |ratio| {
            format!("{} to {}", change(ratio.low), change(ratio.high))
        });
        let p = if is_tested { p_value(c.adjusted_p) } else { none.to_owned() };
        table.row(vec![
            latency.key.to_string().into(),
            latency.quantile.into(),
            time(c.before_median).into(),
            time(c.after_median).into(),
            Cell::new(ratio, colour),
            interval.into(),
            p.into(),
            Cell::new(verdict(latency), colour),
        ]);
    }
    Some(table)
}

/// The verdict in words.
fn verdict(latency: &ComparedLatency) -> &'static str {
    match latency.comparison.verdict {
        Verdict::Faster => "▲ faster",
        Verdict::Slower => "▼ slower",
        Verdict::Same => "= same",
        Verdict::Inconclusive if latency.doubt == Some(Doubt::Disturbed) => "~ too disturbed",
        Verdict::Inconclusive if latency.doubt == Some(Doubt::Incomplete) => "~ incomplete",
        Verdict::Inconclusive if latency.doubt == Some(Doubt::Late) => "~ sent late",
        Verdict::Inconclusive if latency.doubt == Some(Doubt::OtherRate) => "~ other rate",
        Verdict::Inconclusive if latency.comparison.test.is_none() => "~ too few rounds",
        Verdict::Inconclusive => "~ inconclusive",
    }
}

/// `8 latency percentiles: 1 slower, 7 the same`
pub(super) fn summary(compared: &Compared) -> String {
    let percentiles = plural(compared.latencies.len(), "latency percentile");
    format!("{percentiles}: {}", tally(&compared.latency_verdicts()))
}

/// The statistical method in one sentence.
pub(super) fn method(compared: &Compared, options: &CompareOptions) -> String {
    let tested = compared.latencies.iter().filter(|latency| latency.doubt.is_none()).count();
    let corrected = match tested {
        0 => String::new(),
        _ => format!("; p corrected for {} (union bound)", plural(tested, "percentile")),
    };
    format!(
        "medians over rounds of each round's percentile; {:.1}% bootstrap intervals of the ratio{corrected}",
        options.confidence * 100.0,
    )
}
