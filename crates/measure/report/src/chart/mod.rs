//! Charts as SVG text. Every chart has a description in words. Colours identify runs (see
//! `assets/report.css`), and a dash or a marker accompanies every colour.

mod change;
mod cpu;
mod drawing;
mod efficiency;
mod frame;
mod key;
mod latency;
mod per_task;
mod predicted;
mod rounds;
mod scale;
mod spark;
mod throughput;

pub(crate) use change::change;
pub(crate) use efficiency::efficiency;
pub(crate) use key::{markers, run_class, sample, swatch};
pub(crate) use latency::{has_latency, latency};
pub(crate) use per_task::per_task;
pub(crate) use predicted::{Predicted, predicted, predicted_ratios};
pub(crate) use rounds::rounds;
pub(crate) use spark::{SparkScale, spark};
pub(crate) use throughput::{draws_rounds, throughput};

use std::collections::BTreeSet;

use crate::reading::{CaseReading, CurveReading, Reading};
use knee_host::number::Prefix;
use knee_results::Mode;

/// The data and scales that the charts of one testcase in one mode share, so that readers can
/// compare them.
pub(crate) struct Panel<'r, 'p> {
    pub(crate) reading: &'r Reading<'p>,
    pub(crate) case: &'r CaseReading<'p>,
    pub(crate) mode: Mode,
    /// By run.
    pub(crate) curves: &'r [CurveReading<'p>],
    pub(crate) prefix: Prefix,
    /// The end of the axis of throughput.
    pub(crate) max_rate: f64,
    /// The lowest and the highest task count.
    pub(crate) tasks: (u32, u32),
}

impl Panel<'_, '_> {
    fn name(&self) -> String {
        format!("{}, {}", self.case.name, self.mode.as_str())
    }

    /// For each run with more tasks than CPUs, the [highest](CurveReading::highest_with_cpus) task
    /// count without that, and the lowest one with it.
    pub(crate) fn boundaries(&self) -> BTreeSet<(u32, u32)> {
        let boundary = |curve: &CurveReading| {
            let first = curve.first_oversubscribed()?;
            Some((curve.highest_with_cpus(), first))
        };
        self.curves.iter().filter_map(boundary).collect()
    }

    /// The task counts of all runs.
    fn counts(&self) -> Vec<u32> {
        let mut counts: Vec<u32> =
            self.curves.iter().flat_map(|reading| reading.curve.task_counts()).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }
}

/// A description of each curve of a panel, for readers who cannot see the chart; `of` describes its
/// sound points.
fn sentences(panel: &Panel, of: impl Fn(&CurveReading) -> Option<String>) -> String {
    let several = panel.curves.len() > 1;
    let sentences = panel.curves.iter().filter_map(|reading| {
        let doubts = doubts(reading);
        let mut text = match of(reading) {
            Some(text) => text + &doubts,
            None if doubts.is_empty() => return None,
            None => doubts.trim_start().to_owned(),
        };
        if several {
            text = format!("{}: {text}", reading.run.label);
        }
        Some(text)
    });
    sentences.collect::<Vec<String>>().join(" ")
}

/// The points of a curve that do not show how it scales.
fn doubts(reading: &CurveReading) -> String {
    let list =
        |tasks: Vec<u32>| tasks.iter().map(u32::to_string).collect::<Vec<String>>().join(", ");
    let mut text = String::new();
    let unit = reading.measured.axis.as_str();
    let missing = list(reading.curve.missing.iter().map(|gap| gap.tasks).collect());
    if !missing.is_empty() {
        text += &format!(" Not measured: {missing} {unit}.");
    }
    let disturbed = list(reading.disturbed().map(|point| point.tasks).collect());
    if !disturbed.is_empty() {
        text += &format!(" Disturbed: {disturbed} {unit}.");
    }
    if let Some(first) = reading.first_oversubscribed() {
        text += &format!(" More tasks than CPUs from {first} tasks on.");
    }
    text
}
