//! JSON for programs, with all computed values.

use knee_results::{Compared, ComparedLatency, ComparedPoint, MachineChange, Results};
use knee_stats::Comparison;
use serde_json::{Value, json};

use super::{Comparisons, test_name};

/// Version of this document.
const SCHEMA: u32 = 1;

/// One document.
pub(crate) fn render(comparisons: &Comparisons<'_>) -> String {
    let compared: Vec<Value> =
        comparisons.compared.iter().map(|(after, compared)| comparison(after, compared)).collect();
    let document = json!({
        "schema": SCHEMA,
        "confidence": comparisons.options.confidence,
        "threshold": comparisons.options.threshold,
        "correction": match comparisons.options.looks {
            Some(_) => "alpha spending over points and looks",
            None => "Benjamini-Hochberg",
        },
        "looks": comparisons.options.looks.map(|looks| looks.count()),
        "before": side(comparisons.before),
        "comparisons": compared,
    });
    format!("{document:#}\n")
}

fn side(results: &Results) -> Value {
    json!({
        "source": results.source.display().to_string(),
        "environment": results.origin.as_ref().map(|run| &run.environment),
    })
}

fn comparison(after: &Results, compared: &Compared) -> Value {
    json!({
        "after": side(after),
        "verdicts": compared.verdicts(),
        "latency_verdicts": compared.latency_verdicts(),
        "differences": compared.differences,
        "machine": compared.machine.iter().map(machine).collect::<Vec<Value>>(),
        "in_turns": compared.in_turns,
        "variants": compared.variants,
        "families": compared.families,
        "points": compared.points.iter().map(point).collect::<Vec<Value>>(),
        "gaps": compared.gaps,
        "latency_gaps": compared.latency_gaps,
        "latencies": compared.latencies.iter().map(latency).collect::<Vec<Value>>(),
    })
}

/// How the machine itself changed, at a task count.
fn machine((tasks, change): (&u32, &MachineChange)) -> Value {
    json!({ "tasks": tasks, "cpu": change.cpu, "memory": change.memory })
}

/// One side of a point: 0 before, 1 after.
fn side_of_point(point: &ComparedPoint, side: usize) -> Value {
    let medians = [point.comparison.before_median, point.comparison.after_median];
    json!({
        "median": medians[side],
        "rounds": point.rounds[side],
        "measured": point.measured[side],
        "server": point.server[side],
        "counters": point.counters[side],
        "lower_bound": point.server[side].map(|_| point.lower_bounds()[side]),
    })
}

fn point(point: &ComparedPoint) -> Value {
    let c = &point.comparison;
    let fields = json!({
        "testcase": point.key.case,
        "mode": point.key.mode,
        "tasks": point.key.tasks,
        "family": point.family,
        "unit": point.unit,
        "before": side_of_point(point, 0),
        "after": side_of_point(point, 1),
        "rounds_needed": c.rounds_needed,
        "disturbed": point.disturbed,
        "oversubscribed": point.oversubscribed,
        "unfinished": point.gap,
        "seconds": point.timed.then(|| json!({
            "before": 1.0 / c.before_median,
            "after": 1.0 / c.after_median,
        })),
    });
    with_comparison(fields, c)
}

/// Times are in seconds.
fn latency(latency: &ComparedLatency) -> Value {
    let c = &latency.comparison;
    let side =
        |median: f64, side: usize| json!({ "median": median, "rounds": latency.rounds[side] });
    let fields = json!({
        "testcase": latency.key.case,
        "mode": latency.key.mode,
        "tasks": latency.key.tasks,
        "quantile": latency.quantile,
        "before": side(c.before_median, 0),
        "after": side(c.after_median, 1),
        "doubt": latency.doubt,
    });
    with_comparison(fields, c)
}

/// Adds the ratio, the test and the verdict to the fields of an object.
fn with_comparison(mut fields: Value, c: &Comparison) -> Value {
    fields["ratio"] = json!(c.ratio.map(|i| i.ratio));
    fields["low"] = json!(c.test.and(c.ratio).map(|i| i.low));
    fields["high"] = json!(c.test.and(c.ratio).map(|i| i.high));
    fields["test"] = json!(c.test.map(test_name));
    fields["p"] = json!(c.test.map(|_| c.p));
    fields["adjusted_p"] = json!(c.test.map(|_| c.adjusted_p));
    fields["verdict"] = json!(c.verdict.as_str());
    fields
}
