//! Predictions as tables and sentences.

use std::fmt::Write;

use knee_host::environment::kernel;
use knee_host::number::si;
use knee_host::text::{Cell, Column, Table};
use knee_predict::simulate::{Class, Point, Station, Usage};

use super::{Curve, Prediction, Ratio};
use crate::present::machine::nanoseconds;
use crate::present::style::{BOLD, DIM, PLAIN};
use crate::stdout;

/// Share of transfers from other sockets that is worth a remark.
const FAR: f64 = 0.05;

/// Prints predictions. `changes` says what the user changed, and each of `assumed` what the machine lacks.
pub(crate) fn text(
    predictions: &[Prediction<'_>],
    changes: &str,
    assumed: &[String],
) -> anyhow::Result<()> {
    for (nr, prediction) in predictions.iter().enumerate() {
        if nr > 0 {
            stdout::show("\n")?;
        }
        stdout::show(&head(prediction, changes))?;
        if let [first, others @ ..] = &prediction.curves[..] {
            for other in others {
                stdout::show("\n")?;
                stdout::show_table(&ratios(first, other))?;
            }
        }
        for curve in &prediction.curves {
            stdout::show("\n")?;
            stdout::show_table(&table(curve))?;
            stdout::show(&explanation(curve))?;
        }
    }
    stdout::show(&notes(predictions, assumed))
}

fn head(prediction: &Prediction<'_>, changes: &str) -> String {
    let Prediction { testcase, mode, machine, alone, curves } = prediction;
    let mut text = format!("{BOLD}{testcase}{BOLD:#}, {mode}, on {}\n", machine.title);
    if !changes.is_empty() {
        let _ = writeln!(text, "{changes}");
    }
    let whose = match curves.first() {
        Some(first) if curves.len() > 1 => format!(" with {}", first.kernel),
        _ => String::new(),
    };
    let source = match alone.is_measured {
        true => format!("measured on this machine with {}, not scaled", kernel()),
        false => "given by --at".to_owned(),
    };
    let _ = writeln!(text, "one task{whose}: {}/s ({source})", si(alone.rate));
    for curve in curves.iter().skip(1) {
        let slower = curve.slower;
        let _ = writeln!(
            text,
            "one task with {}: {}/s (× {slower:.2} instructions)",
            curve.kernel,
            si(alone.rate / slower)
        );
    }
    text
}

/// The ratios of a kernel to the first one.
fn ratios(first: &Curve, other: &Curve) -> Table {
    let titles = ["tasks", "ratio", "90% band"];
    let mut table = Table::new(titles.map(Column::right).into());
    table.text(format!("{BOLD}{} relative to {}{BOLD:#}", other.kernel, first.kernel));
    table.titles();
    for (before, after) in first.points.iter().zip(&other.points) {
        let [ratio, band] = match Ratio::of(before, after) {
            Some(Ratio { is_unknown: true, .. }) | None => ["?".to_owned(), String::new()],
            Some(Ratio { value, low, high, .. }) => {
                [format!("× {value:.2}"), format!("{low:.2} to {high:.2}")]
            }
        };
        table.row(vec![before.tasks.to_string().into(), ratio.into(), band.into()]);
    }
    table
}

fn table(curve: &Curve) -> Table {
    let columns = vec![
        Column::right("tasks"),
        Column::right("per second"),
        Column::right("90% band"),
        Column::left("class"),
        Column::left("limited by"),
    ];
    let mut table = Table::new(columns);
    table.text(format!("{BOLD}{}{BOLD:#}", curve.kernel));
    table.titles();
    for point in &curve.points {
        let (band, style) = match point.class {
            Class::D => (String::new(), DIM),
            _ => (format!("{} to {}", si(point.low), si(point.high)), PLAIN),
        };
        let limit = point.binding().map_or_else(String::new, |usage| usage.name.clone());
        table.row(vec![
            point.tasks.to_string().into(),
            Cell::new(rate(point), style),
            Cell::new(band, style),
            point.class.to_string().into(),
            limit.into(),
        ]);
    }
    table
}

/// The rate of a point, or its bound.
fn rate(point: &Point) -> String {
    match point.class {
        Class::D => format!("at most about {}", si(point.bound)),
        _ => si(point.rate),
    }
}

/// What limits the curve, and what would come next.
fn explanation(curve: &Curve) -> String {
    let mut text = String::new();
    let mut named: Vec<&str> = Vec::new();
    for point in curve.points.iter().rev() {
        let Some(usage) = point.binding().filter(|usage| !named.contains(&usage.name.as_str()))
        else {
            continue;
        };
        named.push(&usage.name);
        let _ = writeln!(text, "{}", limit(usage, point));
    }
    if let Some(next) = &curve.next {
        let point = &next.point;
        let by = match point.binding() {
            Some(usage) => format!("limited by {}", usage.name),
            None => "limited by nothing that tasks share".to_owned(),
        };
        let _ = writeln!(
            text,
            "without {}: {}/s at {} tasks, {by}",
            next.without,
            rate(point),
            point.tasks
        );
    }
    text
}

/// `aa_profile.label.count: 2.00 transfers per iteration, 55 ns each, which saturates at 9.1 M/s (24 tasks)`
fn limit(usage: &Usage, point: &Point) -> String {
    let what = match usage.station {
        Station::Line(_) => "transfers",
        Station::Lock(_) => "lock sections",
        Station::LockWord(_) => "transfers of the lock word",
    };
    let far = match usage.far {
        far if far >= FAR => format!(", {:.0}% from another socket", 100.0 * far),
        _ => String::new(),
    };
    format!(
        "{}: {:.2} {what} per iteration, {} each{far}, which saturates at {}/s ({} tasks)",
        usage.name,
        usage.visits,
        nanoseconds(usage.service_ns),
        si(usage.plateau),
        point.tasks
    )
}

fn notes(predictions: &[Prediction<'_>], assumed: &[String]) -> String {
    let mut text = String::new();
    let points = || predictions.iter().flat_map(|p| &p.curves).flat_map(|curve| &curve.points);
    for (class, meaning) in [
        (Class::A, "A  nothing that the tasks share slows them down"),
        (Class::B, "B  a cache line or a lock slows them down, within a socket"),
        (Class::C, "C  a cache line or a lock slows them down, between sockets"),
        (Class::D, "D  tasks sleep, retry, or interrupt each other, so only a bound is known"),
    ] {
        if points().any(|point| point.class == class) {
            let _ = writeln!(text, "{}{meaning}", if text.is_empty() { "\n" } else { "" });
        }
    }
    for assumption in assumed {
        let _ = writeln!(text, "note  {assumption}");
    }
    text
}
