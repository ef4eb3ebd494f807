//! For people: a line per point, most important first.

use std::fmt::Write;

use knee_host::number::plural;
use knee_results::Family;
use knee_results::{Compared, ComparedPoint, Results};
use knee_stats::Verdict;

use super::{
    Comparisons, change, changes, gaps, medians, method, name, notes, p_value, quantity, tally,
    verdict,
};

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const DIM: anstyle::Style = anstyle::Style::new().dimmed();
const GOOD: anstyle::Style =
    anstyle::Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Green)));
const BAD: anstyle::Style =
    anstyle::Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)));
const PLAIN: anstyle::Style = anstyle::Style::new();

/// Everything, a block for each run that is compared.
pub(crate) fn render(comparisons: &Comparisons<'_>) -> String {
    let mut text = String::new();
    for (nr, (after, compared)) in comparisons.compared.iter().enumerate() {
        if nr > 0 {
            text.push('\n');
        }
        let _ = write!(
            text,
            "{BOLD}before{BOLD:#}  {}\n{BOLD}after{BOLD:#}   {}\n\n",
            side(comparisons.before, compared),
            side(after, compared)
        );
        if let (true, Some(run)) = (compared.in_turns, &comparisons.before.origin) {
            text.pop();
            let _ = writeln!(text, "{BOLD}on{BOLD:#}      {}\n", run.environment.summary());
        }
        text += &points(compared);
        text += &families(compared);
        for absent in gaps(&compared.gaps) {
            let _ = writeln!(text, "{BAD}not compared{BAD:#}  {absent}");
        }
        for note in notes(comparisons.before, compared, &comparisons.options) {
            let _ = writeln!(text, "{DIM}note{DIM:#}  {note}");
        }
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
        let _ = write!(
            text,
            "{BOLD}{}: {}.{BOLD:#}\n{DIM}{}{DIM:#}\n",
            plural(compared.points.len(), "point"),
            tally(&compared.verdicts()),
            method(compared, &comparisons.options)
        );
    }
    text
}

fn side(results: &Results, compared: &Compared) -> String {
    let source = results.source.display();
    match &results.origin {
        _ if compared.in_turns => source.to_string(),
        Some(run) => {
            format!("{source}  {}, {}", run.environment.summary(), run.environment.started_at)
        }
        None => format!("{source}  from will-it-scale"),
    }
}

fn points(compared: &Compared) -> String {
    if compared.points.is_empty() {
        return String::new();
    }
    let names: Vec<String> = compared.points.iter().map(|point| name(&point.key)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(20);
    let mut text = format!(
        "{BOLD}{:width$} {:>9} {:>9} {:>9} {:>20} {:>8}  verdict{BOLD:#}\n",
        quantity(compared),
        "before",
        "after",
        "change",
        "interval",
        "p"
    );
    for (point, name) in compared.points.iter().zip(names) {
        let c = &point.comparison;
        let [ratio, interval] = changes(point).unwrap_or(["new", "-"].map(str::to_owned));
        let colour = colour(point);
        let [before, after] = medians(point);
        let p = if c.test.is_some() { p_value(c.adjusted_p) } else { "-".to_owned() };
        let _ = writeln!(
            text,
            "{name:width$} {before:>9} {after:>9} {colour}{ratio:>9}{colour:#} {interval:>20} \
             {p:>8}  {colour}{}{colour:#}",
            verdict(point)
        );
    }
    text + "\n"
}

fn colour(point: &ComparedPoint) -> anstyle::Style {
    match point.comparison.verdict {
        Verdict::Faster => GOOD,
        Verdict::Slower => BAD,
        Verdict::Same => PLAIN,
        Verdict::Inconclusive { .. } => DIM,
    }
}

/// A line per family; of one family it would only repeat the closing line.
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
