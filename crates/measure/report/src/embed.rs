//! The numbers of a page as JSON inside it: for its script, for downloads, and for whoever finds
//! the file in ten years. A testcase each, so that a script parses only what it shows.

use knee_results::{Mode, Point};
use knee_stats::Comparison;
use knee_stats::usl::{Estimate, Fit};
use maud::{Markup, PreEscaped, html};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::model::{Missing, Run};
use crate::page::{change_note, fit_note};
use crate::reading::{CaseReading, CurveReading, Reading};

/// Version of the embedded JSON.
const SCHEMA: u32 = 2;
/// Significant digits of a rate: more than any measured one has, and fewer bytes on the page.
const DIGITS: usize = 6;
/// What is close to a rate, and what is a share, is counted in parts of this size: a hundredth of
/// a per cent is far below the noise of any machine, and takes half the bytes.
const PART: f64 = 1e-4;

#[derive(Serialize)]
struct EmbeddedPage<'p> {
    schema: u32,
    runs: &'p [Run],
    knee_efficiency: f64,
    threshold: Option<f64>,
}

#[derive(Serialize)]
struct EmbeddedCase<'p> {
    case: Value,
    /// What the numbers of a row of points are: names once, instead of at each number.
    columns: [&'static str; 15],
    /// See [`PART`].
    part: f64,
    curves: Vec<EmbeddedCurve<'p>>,
}

#[derive(Serialize)]
struct EmbeddedCurve<'p> {
    run: usize,
    mode: Mode,
    knee: Option<u32>,
    scaling: &'static str,
    peak: Option<u32>,
    fit: Option<Value>,
    /// Why there is none.
    no_fit: Option<&'p str>,
    missing: &'p [Missing],
    points: Vec<Row>,
}

const COLUMNS: [&str; 15] = [
    "tasks",
    "rate",
    "low",
    "high",
    "confidence",
    "min",
    "max",
    "fairness",
    "user",
    "system",
    "idle",
    "samples",
    "marked",
    "rounds",
    "change",
];

/// Lower and upper end and the rounds are differences to the rate, in parts of it; `min` and `max`
/// are differences to its share per task. What is relative to a rate of 0 is relative to 1.
#[derive(Serialize)]
struct Row(
    u32,
    Rate,
    Parts,
    Parts,
    Parts,
    Option<Parts>,
    Option<Parts>,
    Option<Parts>,
    Option<Parts>,
    Option<Parts>,
    Option<Parts>,
    u64,
    u64,
    Vec<Parts>,
    Option<EmbeddedChange>,
);

#[derive(Serialize)]
struct EmbeddedChange {
    ratio: Option<Value>,
    p: f64,
    verdict: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
}

#[derive(Serialize)]
struct Parts(i64);

impl Parts {
    fn of(share: f64) -> Self {
        Self((share / PART).round() as i64)
    }

    fn beside(rate: f64, value: f64) -> Self {
        Self::of((value - rate) / if rate == 0.0 { 1.0 } else { rate })
    }
}

struct Rate(f64);

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(to_digits(self.0))
    }
}

fn to_digits(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

impl<'p> EmbeddedCurve<'p> {
    fn of(reading: &CurveReading<'p>) -> Self {
        let curve = reading.curve;
        let row = |p: &'p Point| {
            // As the script knows it, so that no error adds up.
            let rate = to_digits(p.rate);
            let of_task = |value| Parts::beside(rate / f64::from(p.tasks), value);
            Row(
                p.tasks,
                Rate(p.rate),
                Parts::beside(rate, p.low),
                Parts::beside(rate, p.high),
                Parts::of(p.confidence),
                p.per_task.map(|t| of_task(t.min)),
                p.per_task.map(|t| of_task(t.max)),
                p.per_task.map(|t| Parts::of(t.fairness)),
                p.cpu.map(|cpu| Parts::of(cpu.user)),
                p.cpu.map(|cpu| Parts::of(cpu.system)),
                p.cpu.map(|cpu| Parts::of(cpu.idle)),
                p.samples,
                p.marked,
                p.rounds.iter().map(|&round| Parts::beside(rate, round)).collect(),
                curve.changes.get(&p.tasks).map(change),
            )
        };
        Self {
            run: curve.run,
            mode: curve.mode(),
            knee: reading.knee,
            scaling: reading.verdict.as_str(),
            peak: reading.peak().map(|peak| peak.tasks),
            fit: curve.fit.as_ref().ok().map(fit),
            no_fit: curve.fit.as_ref().err().map(String::as_str),
            missing: &curve.missing,
            points: curve.points().iter().map(row).collect(),
        }
    }
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

fn change(by: &Comparison) -> EmbeddedChange {
    EmbeddedChange {
        ratio: by.ratio.map(|r| json!({ "value": r.ratio, "low": r.low, "high": r.high })),
        p: by.adjusted_p,
        verdict: by.verdict.as_str(),
        note: change_note(by),
    }
}

/// What all testcases share.
pub(crate) fn page(reading: &Reading) -> Markup {
    let page = reading.page;
    let json = text(&EmbeddedPage {
        schema: SCHEMA,
        runs: &page.runs,
        knee_efficiency: page.knee_efficiency,
        threshold: page.threshold,
    });
    html! { script.page-data type="application/json" { (PreEscaped(inert(&json))) } }
}

/// One testcase.
pub(crate) fn case(case: &CaseReading) -> Markup {
    let json = case_json(case);
    html! { script.case-data type="application/json" { (PreEscaped(inert(&json))) } }
}

/// The data of one testcase.
pub(crate) fn case_json(case: &CaseReading) -> String {
    let curves = case.curves.iter().map(EmbeddedCurve::of).collect();
    let about = json!({
        "name": case.name,
        "family": case.family(),
        "description": case.info.description,
        "unit": case.info.unit,
        "bytes_per_unit": case.info.bytes,
    });
    text(&EmbeddedCase { case: about, columns: COLUMNS, part: PART, curves })
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data has no keys that are not text")
}

/// JSON that no HTML parser takes for a tag: `<` stands only in strings, where it may be escaped.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_embedded_with_six_digits() {
        assert_eq!(to_digits(1234567.89), 1234570.0);
        assert_eq!(to_digits(0.1 + 0.2), 0.3);
        assert_eq!(to_digits(0.0), 0.0);
    }

    #[test]
    fn no_text_ends_the_script_that_holds_it() {
        let json = inert(&serde_json::to_string("</script><!--<script>").unwrap());
        assert!(!json.contains('<'), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "</script><!--<script>");
    }
}
