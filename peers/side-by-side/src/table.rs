//! Tables for people, and everything for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::Figure;

/// Rows of a Markdown table: medians, and the least and the greatest round.
pub fn figures_table(figures: &[Figure]) -> String {
    let mut table = "| ns for each operation | 1 thread | 2 threads | spread |\n\
        | --- | ---: | ---: | --- |\n"
        .to_owned();
    let mut rest = figures;
    while let [first, ..] = rest {
        let same = |of: &&Figure| of.name == first.name && of.idle == first.idle;
        let (row, others) = rest.split_at(rest.iter().take_while(same).count());
        rest = others;
        let with = |threads| row.iter().find(move |of| of.threads == threads);
        let median = |threads| with(threads).map_or(String::new(), |of| nanos(of.median()));
        let spread = |of: &Figure| format!("{} to {}", nanos(of.least()), nanos(of.most()));
        let spreads: Vec<String> = row.iter().map(spread).collect();
        let idle = match first.idle {
            0 => String::new(),
            idle => format!(", {idle} threads idle"),
        };
        let (name, one, two) = (&first.name, median(1), median(2));
        let _ = writeln!(table, "| {name}{idle} | {one} | {two} | {} |", spreads.join("; "));
    }
    table
}

/// Three digits.
fn nanos(nanos: f64) -> String {
    let digits = if nanos < 10.0 { 2 } else { usize::from(nanos < 100.0) };
    format!("{nanos:.digits$}")
}

/// The same for programs.
pub fn figures_json(group: &str, figures: &[Figure]) -> Vec<Value> {
    let figure = |of: &Figure| {
        json!({
            "group": group,
            "name": of.name.replace(['*', '`'], ""),
            "threads": of.threads,
            "idle_threads": of.idle,
            "median_ns": of.median(),
            "samples_ns": of.samples,
            "disturbed_samples": of.disturbed,
        })
    };
    figures.iter().map(figure).collect()
}

/// Says how many samples other programs have disturbed.
pub fn tell_disturbed(group: &str, figures: &[Figure]) {
    let disturbed: usize = figures.iter().map(|of| of.disturbed).sum();
    let all: usize = figures.iter().map(|of| of.samples.len()).sum();
    eprintln!("{group}: {disturbed} of {all} samples were disturbed by other programs");
}
