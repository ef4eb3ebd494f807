//! The numbers of a page as JSON inside it: for its script, for downloads, and for whoever finds
//! the file in ten years. A testcase each, so that a script parses only what it shows.

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use crate::model::{
    Case, Change, CpuShares, Curve, Fit, Missing, Mode, Point, Run, each_rounded, rounded,
};
use crate::reading::{CaseReading, Reading};

/// Version of the embedded JSON.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct EmbeddedPage<'p> {
    schema: u32,
    runs: &'p [Run],
    knee_efficiency: f64,
    threshold: Option<f64>,
}

#[derive(Serialize)]
struct EmbeddedCase<'p> {
    case: &'p Case,
    /// What the numbers of a row of points are: names once, instead of at each number.
    columns: [&'static str; 15],
    curves: Vec<EmbeddedCurve<'p>>,
}

#[derive(Serialize)]
struct EmbeddedCurve<'p> {
    run: usize,
    mode: Mode,
    knee: Option<u32>,
    peak: u32,
    fit: Option<&'p Fit>,
    missing: &'p [Missing],
    points: Vec<Row<'p>>,
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

#[derive(Serialize)]
struct Row<'p>(
    u32,
    Rounded,
    Rounded,
    Rounded,
    Rounded,
    Rounded,
    Rounded,
    Rounded,
    Option<Rounded>,
    Option<Rounded>,
    Option<Rounded>,
    u64,
    u64,
    #[serde(serialize_with = "each_rounded")] &'p [f64],
    Option<&'p Change>,
);

#[derive(Serialize)]
struct Rounded(#[serde(serialize_with = "rounded")] f64);

impl<'p> EmbeddedCurve<'p> {
    fn of(curve: &'p Curve) -> Self {
        let row = |p: &'p Point| {
            let cpu = |share: fn(CpuShares) -> f64| p.cpu.map(|cpu| Rounded(share(cpu)));
            Row(
                p.tasks,
                Rounded(p.rate),
                Rounded(p.low),
                Rounded(p.high),
                Rounded(p.confidence),
                Rounded(p.min),
                Rounded(p.max),
                Rounded(p.fairness),
                cpu(|cpu| cpu.user),
                cpu(|cpu| cpu.system),
                cpu(|cpu| cpu.idle),
                p.samples,
                p.marked,
                &p.rounds,
                p.change.as_ref(),
            )
        };
        Self {
            run: curve.run,
            mode: curve.mode,
            knee: curve.knee,
            peak: curve.peak,
            fit: curve.fit.as_ref(),
            missing: &curve.missing,
            points: curve.points.iter().map(row).collect(),
        }
    }
}

/// What all testcases share.
pub(crate) fn page(reading: &Reading) -> Markup {
    let page = reading.page;
    script(
        "page-data",
        None,
        &EmbeddedPage {
            schema: SCHEMA,
            runs: &page.runs,
            knee_efficiency: page.knee_efficiency,
            threshold: page.threshold,
        },
    )
}

/// One testcase.
pub(crate) fn case(case: &CaseReading) -> Markup {
    let curves = case.curves.iter().map(|reading| EmbeddedCurve::of(reading.curve)).collect();
    let embedded = EmbeddedCase { case: case.case, columns: COLUMNS, curves };
    script("case-data", Some(&case.case.name), &embedded)
}

fn script(class: &str, case: Option<&str>, value: &impl Serialize) -> Markup {
    let json = serde_json::to_string(value).expect("plain data has no keys that are not text");
    html! {
        script type="application/json" class=(class) data-case=[case] {
            (PreEscaped(inert(&json)))
        }
    }
}

/// JSON that no HTML parser takes for a tag: `<` stands only in strings, where it may be escaped.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_script_that_holds_it() {
        let json = inert(&serde_json::to_string("</script><!--<script>").unwrap());
        assert!(!json.contains('<'), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "</script><!--<script>");
    }
}
