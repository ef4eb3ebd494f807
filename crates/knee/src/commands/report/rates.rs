//! What results of will-it-scale have to show: the rates of rounds, and nothing of the machine.

use std::collections::BTreeMap;

use knee_host::number::{plural, si};
use knee_report::{self as model, Missing};
use knee_run::case_id::CaseId;
use knee_run::results::{Key, Measured, Results};
use knee_run::summary::CONFIDENCE;
use knee_stats::{Curve, median, median_interval};
use knee_testcases::CATALOGUE;

use super::page::{Shown, label, shown_mode};

const NO_ENVIRONMENT: &str = "Results of will-it-scale tell rates only: the machine, the kernel, \
     the time, what single tasks did and where the CPUs were are not known.";

pub(super) fn shown(nr: usize, results: &Results, knee: f64) -> Shown {
    let mut cases = BTreeMap::new();
    let mut curves = BTreeMap::new();
    let mut off_chart = Vec::new();
    for (key, measured) in &results.points {
        let (Some(mode), Some(tasks)) = (key.mode, key.tasks) else {
            off_chart.push(placeless(key, measured, results));
            continue;
        };
        let name = key.case.to_string();
        cases.entry(name.clone()).or_insert_with(|| case(&key.case, results));
        let curve = curves
            .entry((name.clone(), mode))
            .or_insert_with(|| model::Curve::new(nr, &name, shown_mode(mode)));
        put(curve, tasks, measured);
    }
    curves.values_mut().for_each(|curve| read_off(curve, knee));
    let plan = "results of will-it-scale: no record of machine and time".to_owned();
    let warnings = vec![NO_ENVIRONMENT.to_owned()];
    let label = label(&results.source);
    Shown {
        run: model::Run { label, plan, warnings, off_chart, ..model::Run::default() },
        cases: cases.into_values().collect(),
        curves: curves.into_values().collect(),
    }
}

fn case(id: &CaseId, results: &Results) -> model::Case {
    let info = results.cases.get(id);
    let family = info.and_then(|info| info.family).map_or("unknown", |family| family.as_str());
    let unit = info.map_or("iterations", |info| &info.unit);
    let description = CATALOGUE.find(&id.testcase).map_or("", |testcase| testcase.description);
    model::Case::new(&id.to_string(), family, description, unit)
}

fn put(curve: &mut model::Curve, tasks: u32, measured: &Measured) {
    let Some(interval) = median_interval(&measured.rounds, CONFIDENCE) else {
        let reason = measured.gap.clone().unwrap_or_else(|| "no rounds".to_owned());
        curve.missing.push(Missing { tasks, reason });
        return;
    };
    curve.points.push(model::Point {
        low: interval.low,
        high: interval.high,
        confidence: interval.confidence,
        samples: measured.samples,
        marked: measured.marked,
        ..model::Point::new(tasks, measured.rounds.clone())
    });
}

fn read_off(curve: &mut model::Curve, knee: f64) {
    let pairs: Vec<(u32, f64)> = curve.points.iter().map(|p| (p.tasks, p.rate)).collect();
    let scaled = Curve::new(&pairs);
    let has_base = pairs.first().is_some_and(|&(tasks, _)| tasks == 1);
    curve.knee = scaled.knee(knee).filter(|_| has_base);
    curve.peak = scaled.peak().map_or(0, |peak| peak.tasks);
}

/// What cannot be on a chart, in words.
fn placeless(key: &Key, measured: &Measured, results: &Results) -> String {
    let unit = results.cases.get(&key.case).map_or("iterations", |info| &info.unit);
    let what = match median(&measured.rounds) {
        Some(rate) => {
            format!("{} {unit}/s in {}", si(rate), plural(measured.rounds.len(), "round"))
        }
        None => measured.gap.clone().unwrap_or_else(|| "no rounds".to_owned()),
    };
    let unknown = match key.mode {
        Some(_) => "not the number of tasks",
        None => "neither mode nor number of tasks",
    };
    format!(
        "{}: {what}. The output tells {unknown}. Name its file like mmap1_threads-4.txt.",
        key.case
    )
}
