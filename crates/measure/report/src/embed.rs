//! The numbers of a page as JSON in the page: for its script, for downloads, and for later analysis
//! of the file. Each testcase is separate, so that the script parses only what it shows.

use knee_results::{PerTask, Point, PointLatency, Scaling};
use knee_stats::usl::{Estimate, Fit};
use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use crate::model::Change;
use crate::page::{change_note, fit_note};
use crate::reading::{CaseReading, CurveReading, Reading};
use crate::verdict::ChangeVerdict;

/// Version of the embedded JSON.
const SCHEMA: u32 = 3;
/// Significant digits of a rate: more than the precision of any measurement, with few bytes on the
/// page.
const DIGITS: usize = 6;
/// The unit of shares and of relative differences to a rate. A hundredth of a per cent is far below
/// the noise of any machine, and integers take half the bytes.
const PART: f64 = 1e-4;

/// A point to write as a row of numbers.
struct Row<'p> {
    point: &'p Point,
    /// Unknown if the point or the one at one task is not sound.
    scaling: Option<Scaling>,
    /// The rate as the script reads it, so that rounding errors do not accumulate.
    rate: f64,
    change: Option<&'p Change>,
}

/// The name of a number, and the function that reads it from a row.
type Column = (&'static str, fn(&Row) -> Value);

/// The numbers of a row. Their names are written once, not with each number.
///
/// `low`, `high` and the rounds are differences to the rate, in parts of it; `min` and `max` are
/// differences to the rate per task. If the rate is 0, the differences are relative to 1. Latencies are quantiles in
/// seconds, in the order of [`Quantiles::NAMES`](knee_stats::Quantiles::NAMES).
const COLUMNS: [Column; 21] = [
    ("tasks", |row| json!(row.point.tasks)),
    ("rate", |row| json!(row.rate)),
    ("low", |row| json!(beside(row.rate, row.point.low))),
    ("high", |row| json!(beside(row.rate, row.point.high))),
    ("confidence", |row| json!(parts(row.point.confidence))),
    ("min", |row| row.per_task(|task| beside(row.rate_per_task(), task.min))),
    ("max", |row| row.per_task(|task| beside(row.rate_per_task(), task.max))),
    ("fairness", |row| row.per_task(|task| parts(task.fairness))),
    ("user", |row| json!(row.point.cpu.map(|cpu| parts(cpu.user)))),
    ("system", |row| json!(row.point.cpu.map(|cpu| parts(cpu.system)))),
    ("idle", |row| json!(row.point.cpu.map(|cpu| parts(cpu.idle)))),
    ("samples", |row| json!(row.point.samples)),
    ("marked", |row| json!(row.point.marked)),
    ("efficiency", |row| json!(row.scaling.map(|scaling| parts(scaling.efficiency)))),
    ("measured", |row| json!(row.point.measured)),
    ("disturbed", |row| json!(row.point.disturbed)),
    ("oversubscribed", |row| json!(row.point.oversubscribed)),
    ("implausible", |row| json!(row.scaling.is_some_and(|scaling| scaling.is_implausible()))),
    ("rounds", |row| row.point.rounds.iter().map(|&round| beside(row.rate, round)).collect()),
    ("change", |row| json!(row.change.map(change))),
    ("latency", |row| {
        let quantiles = |latency: &PointLatency| latency.quantiles.values().map(to_digits);
        json!(row.point.latency.as_ref().map(quantiles))
    }),
];

impl Row<'_> {
    fn rate_per_task(&self) -> f64 {
        self.rate / f64::from(self.point.tasks)
    }

    fn per_task(&self, number: impl Fn(PerTask) -> i64) -> Value {
        json!(self.point.per_task.map(number))
    }
}

/// Converts a share to parts.
fn parts(share: f64) -> i64 {
    (share / PART).round() as i64
}

/// The difference of `value` to `rate`, in parts of `rate`.
fn beside(rate: f64, value: f64) -> i64 {
    parts((value - rate) / if rate == 0.0 { 1.0 } else { rate })
}

fn to_digits(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

fn curve(reading: &CurveReading) -> Value {
    let curve = reading.curve;
    let row = |point: &Point| -> Value {
        let rate = to_digits(point.rate);
        let scaling = reading.scaling(point);
        let row = Row { point, scaling, rate, change: curve.changes.get(&point.tasks) };
        COLUMNS.iter().map(|(_, number)| number(&row)).collect()
    };
    json!({
        "run": curve.run,
        "mode": curve.measured.mode,
        "axis": curve.measured.axis.as_str(),
        "knee": reading.knee,
        "scaling": reading.verdict.as_str(),
        "peak": reading.measured.peak().map(|peak| peak.tasks),
        "fit": curve.fit.as_ref().ok().map(fit),
        "no_fit": curve.fit.as_ref().err(),
        "missing": curve.missing,
        "points": curve.measured.points().iter().map(row).collect::<Value>(),
    })
}

fn fit(fit: &Fit) -> Value {
    let estimate = |e: &Estimate| json!({ "value": e.value, "interval": e.interval });
    json!({
        "lambda": estimate(&fit.lambda),
        "sigma": estimate(&fit.sigma),
        "kappa": estimate(&fit.kappa),
        "r2": fit.r_squared,
        "peak": fit.peak.as_ref().map(estimate),
        "is_prediction": fit.is_prediction,
        "note": fit_note(fit),
    })
}

fn change(change: &Change) -> Value {
    let by = &change.comparison;
    let ratio = by.ratio.map(|r| json!({ "value": r.ratio, "low": r.low, "high": r.high }));
    let verdict = ChangeVerdict::of(change).as_str();
    let mut json = json!({ "ratio": ratio, "p": by.adjusted_p, "verdict": verdict });
    let note = change_note(change);
    if !note.is_empty() {
        json["note"] = json!(note);
    }
    json
}

/// The data that all testcases share.
pub(crate) fn page(reading: &Reading) -> Markup {
    let page = reading.page;
    let json = json!({
        "schema": SCHEMA,
        "runs": page.runs,
        "knee_efficiency": page.knee_efficiency,
        "threshold": page.threshold,
    });
    script("page-data", &json)
}

/// One testcase.
pub(crate) fn case(case: &CaseReading) -> Markup {
    script("case-data", &case_json(case))
}

/// The data of one testcase.
pub(crate) fn case_json(case: &CaseReading) -> Value {
    json!({
        "case": {
            "name": case.name,
            "family": case.family(),
            "description": case.info.description,
            "unit": case.info.unit,
            "bytes_per_unit": case.info.bytes,
        },
        "columns": COLUMNS.map(|(name, _)| name),
        "part": PART,
        "curves": case.curves.iter().map(curve).collect::<Value>(),
    })
}

fn script(class: &str, json: &Value) -> Markup {
    html! {
        script class=(class) type="application/json" { (PreEscaped(inert(&json.to_string()))) }
    }
}

/// Escapes `<`, so that no HTML parser finds a tag in the JSON. It occurs only in strings.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_embedded_with_six_digits() {
        assert_eq!(to_digits(1234567.89), 1234570.0);
        assert_eq!(to_digits(0.1 + 0.2), 0.3);
        assert_eq!(to_digits(0.0), 0.0);
    }

    #[test]
    fn no_text_ends_the_script_element_that_contains_it() {
        let json = inert(&serde_json::to_string("</script><!--<script>").unwrap());
        assert!(!json.contains('<'), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "</script><!--<script>");
    }
}
