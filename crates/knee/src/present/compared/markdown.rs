//! Markdown for a pull request or a mailing list: a table that is also readable as plain text.

use std::fmt::Write;

use knee_host::number::plural;

use super::{Comparisons, changes, gaps, medians, method, notes, p_value, tally, verdict};

const COLUMNS: usize = 7;
const RATES: [&str; COLUMNS] =
    ["point", "before /s", "after /s", "change", "interval", "p", "verdict"];
const TIMES: [&str; COLUMNS] = ["point", "before", "after", "change", "interval", "p", "verdict"];

/// A heading, a table and notes, for each compared run.
pub(crate) fn render(comparisons: &Comparisons<'_>) -> String {
    let mut text = String::new();
    let before = comparisons.before;
    for (nr, (after, compared)) in comparisons.compared.iter().enumerate() {
        if nr > 0 {
            text.push('\n');
        }
        let _ = write!(
            text,
            "### {} against {}\n\n{}: {}.\n\n",
            after.source.display(),
            before.source.display(),
            plural(compared.points.len(), "point"),
            tally(&compared.verdicts())
        );
        for (side, results) in [("Before", before), ("After", after)] {
            if let Some(run) = &results.origin {
                let machine = run.environment.summary();
                let _ = match compared.in_turns {
                    true => {
                        writeln!(text, "- {side}: `{}`, on {machine}", results.source.display())
                    }
                    false => writeln!(text, "- {side}: {machine}"),
                };
            }
        }
        for note in notes(before, compared, &comparisons.options) {
            let _ = writeln!(text, "- Note: {note}");
        }
        for absent in gaps(&compared.gaps) {
            let _ = writeln!(text, "- Not compared: {absent}");
        }
        if text.ends_with("\n\n") {
            text.pop();
        }
        text.push('\n');
        let rows: Vec<[String; COLUMNS]> = compared
            .points
            .iter()
            .map(|point| {
                let c = &point.comparison;
                let [ratio, interval] = changes(point).unwrap_or(["new", ""].map(str::to_owned));
                let p = if c.test.is_some() { p_value(c.adjusted_p) } else { String::new() };
                let [before, after] = medians(point);
                [escape(&point.key.to_string()), before, after, ratio, interval, p, verdict(point)]
            })
            .collect();
        let timed = compared.points.first().is_some_and(|point| point.timed);
        text += &table(if timed { &TIMES } else { &RATES }, &rows);
        let _ = writeln!(text, "\n{}.", method(compared, &comparisons.options));
    }
    text
}

/// A pipe table with aligned columns, which is readable as source.
fn table(head: &[&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    // Left-aligns words and right-aligns numbers.
    let left = |column: usize| column == 0 || column == 6;
    let line = |cells: [&str; COLUMNS]| {
        let cells: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(column, cell)| match (left(column), widths[column]) {
                (true, width) => format!("{cell:width$}"),
                (false, width) => format!("{cell:>width$}"),
            })
            .collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rules: [String; COLUMNS] =
        std::array::from_fn(|column| match (left(column), widths[column]) {
            (true, width) => "-".repeat(width),
            (false, width) => "-".repeat(width - 1) + ":",
        });
    let mut text = line(*head) + &line(std::array::from_fn(|column| rules[column].as_str()));
    for row in rows {
        text += &line(std::array::from_fn(|column| row[column].as_str()));
    }
    text
}

/// Escapes descriptions from will-it-scale, which may contain any character.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|")
}
