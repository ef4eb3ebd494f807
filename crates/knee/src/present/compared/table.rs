//! Text: a line per point, most important first.

use std::fmt::Write;

use knee_host::number::plural;
use knee_host::text::{Cell, Column, Screen, Table};
use knee_results::{Compared, Family, Results};
use knee_stats::CompareOptions;

use super::{
    Comparisons, change, changes, colour, counters, gaps, latency, medians, method, notes, p_value,
    quantity, tally, verdict,
};
use crate::present::notes::lines;
use crate::present::style::{BAD, BOLD, DIM};

/// The complete text, with a block for each compared run; `detail` includes all notes.
pub(crate) fn render(comparisons: &Comparisons<'_>, detail: bool, screen: &Screen) -> String {
    let mut text = String::new();
    for (nr, (after, compared)) in comparisons.compared.iter().enumerate() {
        if nr > 0 {
            text.push('\n');
        }
        let machines = [machine(comparisons.before), machine(after)];
        let same = machines[0].clone().filter(|_| compared.in_turns || machines[0] == machines[1]);
        let mut sides = format!(
            "{BOLD}before{BOLD:#}  {}\n{BOLD}after{BOLD:#}   {}\n",
            side(comparisons.before, compared, same.is_some()),
            side(after, compared, same.is_some())
        );
        if let Some(machine) = same {
            let _ = writeln!(sides, "{BOLD}on{BOLD:#}      {machine}");
        }
        text += &screen.wrap(&(sides + "\n"), "        ");
        if !compared.points.is_empty() {
            let titles = [quantity(compared), "before", "after"];
            text += &points(compared, &comparisons.options, titles, "-").render(screen);
            text.push('\n');
        }
        text += &families(compared);
        for absent in gaps(compared) {
            let line = format!("{BAD}not compared{BAD:#}  {absent}");
            let _ = writeln!(text, "{}", screen.wrap(&line, "              "));
        }
        if let Some(latencies) = latency::table(compared, "-") {
            text += &latencies.render(screen);
            text.push('\n');
        }
        if let Some(events) = counters::table(compared, detail, "-") {
            text += &events.render(screen);
            text.push('\n');
        }
        if let Some(note) = counters::hidden(compared).filter(|_| !detail) {
            text += &screen.wrap(&format!("{DIM}{note}{DIM:#}\n\n"), "");
        }
        let mut notes = notes(comparisons.before, compared, &comparisons.options);
        notes.extend(counters::notes(compared, [comparisons.before, after]));
        text += &lines(notes, (!detail).then_some("--detail prints them"), screen);
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
        let closing = format!(
            "{BOLD}{}: {}.{BOLD:#}\n{DIM}{}{DIM:#}\n{}",
            plural(compared.points.len(), "point"),
            tally(&compared.verdicts()),
            method(compared, &comparisons.options),
            match compared.latencies.is_empty() {
                true => String::new(),
                false => format!(
                    "{BOLD}{}.{BOLD:#}\n{DIM}{}{DIM:#}\n",
                    latency::summary(compared),
                    latency::method(compared, &comparisons.options)
                ),
            }
        );
        text += &screen.wrap(&closing, "");
    }
    text
}

/// The machine and kernel of results, if they are known.
fn machine(results: &Results) -> Option<String> {
    Some(results.origin.as_ref()?.environment.summary())
}

/// What distinguishes a side from the other one. `on_same` tells that both ran on the same machine.
fn side(results: &Results, compared: &Compared, on_same: bool) -> String {
    let source = results.source.display();
    match &results.origin {
        _ if compared.in_turns => source.to_string(),
        Some(run) if on_same => format!("{source}  {}", run.environment.started_at),
        Some(run) => {
            format!("{source}  {}, {}", run.environment.summary(), run.environment.started_at)
        }
        None => format!("{source}  from will-it-scale"),
    }
}

/// The points of a comparison. `what`, `before` and `after` are titles, and `none` stands for unknown
/// values.
pub(super) fn points(
    compared: &Compared,
    options: &CompareOptions,
    [what, before, after]: [&str; 3],
    none: &str,
) -> Table {
    let mut table = Table::new(vec![
        Column::left(what),
        Column::right(before).drops(3),
        Column::right(after).drops(3),
        Column::right("change"),
        Column::right("interval").drops(2),
        Column::right("p").drops(1),
        Column::left("verdict"),
    ]);
    table.titles();
    for point in &compared.points {
        let c = &point.comparison;
        // There is no ratio to nothing, or of too few rounds.
        let unknown = if c.before_median == 0.0 { "new" } else { none };
        let [ratio, interval] = changes(point).unwrap_or([unknown, none].map(str::to_owned));
        let colour = colour(c.verdict);
        let [before, after] = medians(point);
        let p = if c.test.is_some() { p_value(c.adjusted_p) } else { none.to_owned() };
        table.row(vec![
            point.key.to_string().into(),
            before.into(),
            after.into(),
            Cell::new(ratio, colour),
            interval.into(),
            p.into(),
            Cell::new(verdict(point, options), colour),
        ]);
    }
    table
}

/// A line per family. Empty for a single family, because the closing line says the same.
fn families(compared: &Compared) -> String {
    if compared.families.len() < 2 {
        return String::new();
    }
    let mut text = String::new();
    for family in &compared.families {
        let name = family.family.map_or("others", Family::as_str);
        let mean =
            family.ratio.map_or(String::new(), |ratio| format!("  on average {}", change(ratio)));
        let _ = writeln!(text, "{BOLD}{name:12}{BOLD:#} {}{mean}", tally(&family.verdicts));
    }
    text + "\n"
}
