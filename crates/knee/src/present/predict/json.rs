//! Predictions as JSON.

use knee_predict::simulate::{Class, Point, Station, Usage};
use serde_json::{Value, json as object};

use super::{CONFIDENCE, Curve, Prediction, Ratio};

/// Version of the document.
const SCHEMA: u32 = 1;

/// JSON for programs. `predictions` has an element for each testcase, with a curve for each kernel. Rates are
/// iterations per second, `free` without contention, and `bound` the rate at which the busiest station is always busy. `rate`, `low` and `high` are null where only the `bound` is known (class D);
/// `simulated` is what the simulation gives there. `ratio`
/// compares a point with that of the first kernel. `analysis` is the rate by mean
/// value analysis, where it applies. `next` is the last point without what limits it.
pub(crate) fn json(predictions: &[Prediction<'_>], changes: &str, assumed: &[String]) -> Value {
    let all: Vec<Value> = predictions.iter().map(prediction).collect();
    object!({
        "schema": SCHEMA,
        "confidence": CONFIDENCE,
        "changes": changes,
        "assumptions": assumed,
        "predictions": all,
    })
}

fn prediction(prediction: &Prediction<'_>) -> Value {
    let first = prediction.curves.first();
    let curve = |(nr, curve): (usize, &Curve)| {
        let before = first.filter(|_| nr > 0);
        let points: Vec<Value> = curve
            .points
            .iter()
            .enumerate()
            .map(|(at, after)| {
                let ratio = before.and_then(|first| Ratio::of(&first.points[at], after));
                let mut value = point(after);
                value["ratio"] = ratio.filter(|ratio| !ratio.is_unknown).map(ratio_json).into();
                value
            })
            .collect();
        let next = curve.next.as_ref().map(|next| {
            let mut value = point(&next.point);
            value["without"] = next.without.as_str().into();
            value
        });
        object!({
            "kernel": curve.kernel,
            "instruction_ratio": curve.slower,
            "points": points,
            "next": next,
        })
    };
    let curves: Vec<Value> = prediction.curves.iter().enumerate().map(curve).collect();
    object!({
        "testcase": prediction.testcase,
        "mode": prediction.mode,
        "machine": prediction.machine.name,
        "alone": { "rate": prediction.alone.rate, "measured": prediction.alone.is_measured },
        "curves": curves,
    })
}

fn point(point: &Point) -> Value {
    let known = |rate: f64| (point.class != Class::D).then_some(rate);
    object!({
        "tasks": point.tasks,
        "rate": known(point.rate),
        "low": known(point.low),
        "high": known(point.high),
        "simulated": point.rate,
        "free": point.free,
        "bound": point.bound,
        "analysis": point.analysis,
        "class": point.class.to_string(),
        "stations": point.usages.iter().take(MOST_STATIONS).map(station).collect::<Vec<_>>(),
    })
}

/// Stations of a point, the busiest first.
const MOST_STATIONS: usize = 10;

fn station(usage: &Usage) -> Value {
    let kind = match usage.station {
        Station::Line(_) => "line",
        Station::Lock(_) => "lock",
        Station::LockWord(_) => "lock word",
    };
    object!({
        "name": usage.name,
        "kind": kind,
        "instances": usage.instances,
        "utilisation": usage.utilisation,
        "waiting": usage.waiting,
        "visits": usage.visits,
        "service_ns": usage.service_ns,
        "far": usage.far,
        "plateau": usage.plateau,
    })
}

fn ratio_json(ratio: Ratio) -> Value {
    object!({ "value": ratio.value, "low": ratio.low, "high": ratio.high })
}
