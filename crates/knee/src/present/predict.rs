//! Predictions as tables and sentences.

use std::collections::BTreeSet;
use std::fmt::Write;

use knee_host::number::{percent, si};
use knee_host::text::{Cell, Column, Table};
use knee_results::prediction::{Class, Curve, Prediction, Predictions};

use crate::present::style::{BOLD, DIM, PLAIN};
use crate::stdout;

/// Columns for what limits a point, so that the table takes at most 80. The sentences below the
/// table have the whole name.
const LIMIT: usize = 26;

/// Prints predictions.
pub(crate) fn show(all: &Predictions) -> anyhow::Result<()> {
    let band = format!("{} band", percent(all.confidence));
    for (nr, prediction) in all.predictions.iter().enumerate() {
        if nr > 0 {
            stdout::show("\n")?;
        }
        stdout::show(&head(prediction, &all.changes))?;
        if let [first, others @ ..] = &prediction.curves[..] {
            for other in others {
                stdout::show("\n")?;
                stdout::show_table(&ratios(first, other, &band))?;
            }
        }
        for curve in &prediction.curves {
            stdout::show("\n")?;
            stdout::show_table(&table(curve, &band))?;
            stdout::show(&explanation(curve))?;
        }
    }
    stdout::show(&notes(all))
}

fn head(prediction: &Prediction, changes: &str) -> String {
    let Prediction { testcase, mode, machine, alone, curves } = prediction;
    let mut text = format!("{BOLD}{testcase}{BOLD:#}, {mode}, on {}\n", machine.title);
    if !changes.is_empty() {
        let _ = writeln!(text, "{changes}");
    }
    let whose = match curves.first() {
        Some(first) if curves.len() > 1 => format!(" with {}", first.kernel),
        _ => String::new(),
    };
    let _ = writeln!(text, "one task{whose}: {}/s ({})", si(alone.rate), alone.source());
    for curve @ Curve { kernel, time_ratio, .. } in curves.iter().skip(1) {
        let rate = si(alone.rate / time_ratio);
        let _ = writeln!(text, "one task with {kernel}: {rate}/s ({})", curve.source());
    }
    text
}

/// The ratios of a kernel to the first one.
fn ratios(first: &Curve, other: &Curve, band: &str) -> Table {
    let mut table = Table::new(["tasks", "ratio", band].map(Column::right).into());
    table.text(format!("{BOLD}{} relative to {}{BOLD:#}", other.kernel, first.kernel));
    table.titles();
    for point in &other.points {
        let [ratio, band] = match point.ratio {
            Some(ratio) => {
                [format!("× {:.2}", ratio.value), format!("{:.2} to {:.2}", ratio.low, ratio.high)]
            }
            None => ["?".to_owned(), String::new()],
        };
        table.row(vec![point.tasks.to_string().into(), ratio.into(), band.into()]);
    }
    table
}

fn table(curve: &Curve, band: &str) -> Table {
    let columns = vec![
        Column::right("tasks"),
        Column::right("per second"),
        Column::right(band),
        Column::left("class"),
        Column::left("limited by"),
    ];
    let mut table = Table::new(columns);
    table.text(format!("{BOLD}{}{BOLD:#}", curve.kernel));
    table.titles();
    for point in &curve.points {
        let (band, style) = match point.band() {
            Some((_, low, high)) => (format!("{} to {}", si(low), si(high)), PLAIN),
            None => (String::new(), DIM),
        };
        let limit = point.limit.as_deref().map(cut);
        table.row(vec![
            point.tasks.to_string().into(),
            Cell::new(point.rate_in_words(), style),
            Cell::new(band, style),
            point.class.to_string().into(),
            limit.unwrap_or_default().into(),
        ]);
    }
    table
}

/// The beginning of a long name.
fn cut(name: &str) -> String {
    match name.chars().count() {
        ..=LIMIT => name.to_owned(),
        _ => name.chars().take(LIMIT - 1).chain(['…']).collect(),
    }
}

/// What limits the curve, each line or lock once, and what would come next.
fn explanation(curve: &Curve) -> String {
    let mut text = String::new();
    let mut named = BTreeSet::new();
    for limit in curve.limits().iter().rev() {
        if let (Some(station), Some(how)) = (limit.station, limit.sentence())
            && named.insert(&station.name)
        {
            let _ = writeln!(text, "{}: {how}", station.name);
        }
    }
    if let Some(next) = &curve.next {
        let _ = writeln!(text, "{}", next.sentence());
    }
    text
}

fn notes(all: &Predictions) -> String {
    let classes: BTreeSet<Class> = all.predictions.iter().flat_map(Prediction::classes).collect();
    let classes = classes.iter().map(|class| format!("{class}  {}\n", class.meaning()));
    let assumed = all.assumptions.iter().map(|assumption| format!("note  {assumption}\n"));
    format!("\n{}", classes.chain(assumed).collect::<String>())
}
