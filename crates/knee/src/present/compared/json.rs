//! For programs: all that was computed.

use knee_results::{Compared, ComparedPoint, Results, Verdicts};
use knee_stats::Test;
use serde_json::{Value, json};

use super::Comparisons;

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
        "correction": "Benjamini-Hochberg",
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
    let differences: Vec<Value> = compared
        .differences
        .iter()
        .map(|d| json!({ "what": d.what, "before": d.before, "after": d.after }))
        .collect();
    let families: Vec<Value> = compared
        .families
        .iter()
        .map(|f| {
            json!({
                "family": f.family,
                "verdicts": verdicts(&f.verdicts),
                "geometric_mean_ratio": f.ratio,
            })
        })
        .collect();
    let variants: Vec<Value> = compared
        .variants
        .iter()
        .map(|pair| json!({ "before": pair.before, "after": pair.after }))
        .collect();
    let gaps: Vec<Value> = compared
        .gaps
        .iter()
        .map(|gap| {
            json!({
                "testcase": gap.key.case,
                "mode": gap.key.mode,
                "tasks": gap.key.tasks,
                "missing_before": gap.before,
                "missing_after": gap.after,
            })
        })
        .collect();
    json!({
        "after": side(after),
        "verdicts": verdicts(&compared.verdicts()),
        "differences": differences,
        "drift": compared.drift,
        "in_turns": compared.in_turns,
        "variants": variants,
        "families": families,
        "points": compared.points.iter().map(point).collect::<Vec<Value>>(),
        "gaps": gaps,
    })
}

fn verdicts(verdicts: &Verdicts) -> Value {
    json!({
        "faster": verdicts.faster,
        "slower": verdicts.slower,
        "same": verdicts.same,
        "inconclusive": verdicts.inconclusive,
    })
}

fn point(point: &ComparedPoint) -> Value {
    let c = &point.comparison;
    let test = c.test.map(|test| match test {
        Test::Welch => "Welch",
        Test::MannWhitneyExact => "Mann-Whitney, exact",
        Test::MannWhitneyNormal => "Mann-Whitney, normal approximation",
        Test::SignedRankExact => "Wilcoxon signed-rank, exact",
        Test::SignedRankNormal => "Wilcoxon signed-rank, normal approximation",
    });
    json!({
        "testcase": point.key.case,
        "mode": point.key.mode,
        "tasks": point.key.tasks,
        "family": point.family,
        "unit": point.unit,
        "before": { "median": c.before_median, "rounds": point.rounds[0] },
        "after": { "median": c.after_median, "rounds": point.rounds[1] },
        "ratio": c.ratio.map(|i| i.ratio),
        "low": c.test.and(c.ratio).map(|i| i.low),
        "high": c.test.and(c.ratio).map(|i| i.high),
        "test": test,
        "p": c.test.map(|_| c.p),
        "adjusted_p": c.test.map(|_| c.adjusted_p),
        "verdict": c.verdict.as_str(),
        "rounds_needed": c.rounds_needed,
        "disturbed": point.disturbed,
        "unfinished": point.gap,
        "seconds": point.timed.then(|| json!({
            "before": 1.0 / c.before_median,
            "after": 1.0 / c.after_median,
        })),
    })
}
