//! The result of `knee load`.

use std::fmt::Write;

use knee_host::number::{percent, plural, si, time};
use knee_host::text::{Cell, Column, Screen, Table};
use knee_load::{Failures, Load, Outcome, Pace, quantiles};
use knee_stats::Quantiles;
use serde_json::{Value, json};

use super::style::{BAD, BOLD};

/// A generator that waits for its CPUs for a larger share of the time sends requests late. `knee run` marks a point
/// at the same loss.
const WAITING: f64 = 0.05;

/// The result for people.
pub(crate) fn text(load: &Load, outcome: &Outcome, screen: &Screen) -> String {
    let pace = match load.pace {
        Pace::Closed => "closed loop".to_owned(),
        Pace::Open { rate } => format!("open loop at {}/s", si(rate)),
    };
    let mut text = format!(
        "{BOLD}{} replies/s{BOLD:#} ({} in {}), {}, {pace}\n\n",
        si(outcome.rate()),
        outcome.replies,
        time(outcome.seconds),
        plural(load.connections, "connection"),
    );
    let mut columns = vec![Column::left("")];
    columns.extend(Quantiles::NAMES.map(Column::right));
    let mut table = Table::new(columns);
    table.titles();
    for (name, times) in [("latency", &outcome.latency), ("sent late", &outcome.lateness)] {
        let Some(quantiles) = quantiles(times) else { continue };
        let mut row = vec![Cell::from(name)];
        row.extend(quantiles.values().map(|seconds| Cell::from(time(seconds))));
        table.row(row);
    }
    if !outcome.latency.is_empty() {
        text += &table.render(screen);
    }
    let _ = writeln!(
        text,
        "\nServer: {}. Generator: {}, {} busy.",
        load.target,
        plural(outcome.workers, "CPU"),
        percent(outcome.busy())
    );
    if outcome.is_full() {
        let meaning = match load.pace {
            Pace::Closed => "the server may be faster than this rate",
            Pace::Open { .. } if outcome.failures.unanswered > 0 => {
                "it did not keep up with the rate"
            }
            Pace::Open { .. } => "a part of the latency may be its own",
        };
        let note =
            format!("note  the generator's CPUs are full, so {meaning}; use more CPUs: --cpus\n");
        text += &screen.wrap(&note, "      ");
    }
    if outcome.waiting() >= WAITING {
        let note = format!(
            "note  other programs, possibly the server, kept the generator waiting for its CPUs for {} of the \
             time, which lowers the rate and adds to the latency; reduce other load, or use other CPUs: --cpus\n",
            percent(outcome.waiting())
        );
        text += &screen.wrap(&note, "      ");
    }
    if outcome.failures.count() > 0 {
        let failed = format!("{BAD}failed{BAD:#}  {}\n", failures(&outcome.failures));
        text += &screen.wrap(&failed, "        ");
    }
    text
}

/// Failures in words: `2 wrong replies, 1 request without a reply; first: …`.
fn failures(failures: &Failures) -> String {
    let counts = [
        (failures.errors, "broken connection", "broken connections"),
        (failures.wrong, "wrong reply", "wrong replies"),
        (failures.unanswered, "request without a reply", "requests without a reply"),
    ];
    let counts = counts.into_iter().filter(|(n, ..)| *n > 0);
    let counts: Vec<String> =
        counts.map(|(n, one, many)| format!("{n} {}", if n == 1 { one } else { many })).collect();
    let first = failures.first.as_ref().map_or(String::new(), |first| format!("; first: {first}"));
    counts.join(", ") + &first
}

/// The result as JSON. Times are in seconds.
pub(crate) fn json(load: &Load, outcome: &Outcome) -> Value {
    let (name, rate) = match load.pace {
        Pace::Closed => ("closed", None),
        Pace::Open { rate } => ("open", Some(rate)),
    };
    json!({
        "target": load.target.to_string(),
        "connections": load.connections,
        "loop": name,
        "requested_rate": rate,
        "rate": outcome.rate(),
        "replies": outcome.replies,
        "seconds": outcome.seconds,
        "failures": outcome.failures,
        "latency": quantiles(&outcome.latency),
        "lateness": quantiles(&outcome.lateness),
        "cpus": outcome.workers,
        "busy": outcome.busy(),
        "waiting": outcome.waiting(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed() -> Load {
        Load {
            target: "127.0.0.1:1".parse().unwrap(),
            requests: Vec::new(),
            connections: 1,
            pace: Pace::Closed,
            reconnect: false,
            warmup: 0.0,
            seconds: 1.0,
            patience: 1.0,
            cpus: vec![0],
        }
    }

    #[test]
    fn a_generator_that_waited_for_its_cpus_is_reported() {
        let load = closed();
        let mut outcome = Outcome::default();
        (outcome.seconds, outcome.workers, outcome.cpu) = (1.0, 1, 0.3);
        let waits = |outcome: &Outcome| {
            text(&load, outcome, &Screen::UNLIMITED).contains("waiting for its CPUs for 20% of")
        };
        assert!(!waits(&outcome));
        outcome.waited = 0.2;
        assert!(waits(&outcome));
    }

    #[test]
    fn a_generator_that_did_not_keep_up_with_its_rate_is_reported() {
        let load = Load { pace: Pace::Open { rate: 1e6 }, ..closed() };
        let mut outcome = Outcome::default();
        (outcome.seconds, outcome.workers, outcome.cpu) = (1.0, 1, 1.0);
        let said = |outcome: &Outcome| text(&load, outcome, &Screen::UNLIMITED);
        assert!(said(&outcome).contains("a part of the latency may be its own"));
        outcome.failures.unanswered = 1;
        assert!(said(&outcome).contains("it did not keep up with the rate; use more CPUs"));
    }

    #[test]
    fn failures_are_counted_in_words() {
        let all = Failures { errors: 2, wrong: 1, unanswered: 0, first: Some("refused".into()) };
        assert_eq!(failures(&all), "2 broken connections, 1 wrong reply; first: refused");
    }
}
