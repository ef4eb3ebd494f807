//! speedscope's JSON, for <https://www.speedscope.app> or a copy of it on your machine.
//!
//! The format is that of <https://www.speedscope.app/file-format-schema.json>, type *sampled*: a list
//! of frames, and for each stack the places of its frames from the outermost inwards, with a weight.
//! The outermost frame is the program. Captures hold no order in time, so that *Time Order* there
//! shows stacks one after the other; *Left Heavy* and *Sandwich* are the views to use.

use serde::Serialize;

use super::first_of_name;
use crate::capture::{Capture, Unit};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    name: &'a str,
    exporter: &'a str,
    active_profile_index: usize,
    shared: Shared<'a>,
    profiles: [Profile<'a>; 1],
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'a> {
    r#type: &'a str,
    name: &'a str,
    unit: &'a str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// A capture as speedscope reads it. Weights are nanoseconds where the capture's clock ticks in CPU
/// time, and samples elsewhere.
pub fn speedscope(capture: &Capture) -> String {
    let first = first_of_name(capture);
    let of_functions = capture.functions.iter();
    let functions = of_functions.map(|one| Frame { name: &one.name, file: one.module.as_deref() });
    let programs = capture.programs.iter().map(|name| Frame { name, file: None });
    let is_time = capture.clock.unit == Unit::Nanoseconds;
    let stacks = capture.counts.iter().map(|count| {
        let mut stack: Vec<usize> =
            capture.functions_of(count.stack).map(|place| first[place as usize] as usize).collect();
        stack.push(capture.functions.len() + count.program as usize);
        stack.reverse();
        (stack, if is_time { count.weight } else { count.samples })
    });
    let (samples, weights): (Vec<_>, Vec<_>) = stacks.unzip();
    let file = File {
        schema: SCHEMA,
        name: &capture.title,
        exporter: "knee",
        active_profile_index: 0,
        shared: Shared { frames: functions.chain(programs).collect() },
        profiles: [Profile {
            r#type: "sampled",
            name: &capture.title,
            unit: if is_time { "nanoseconds" } else { "none" },
            start_value: 0,
            end_value: weights.iter().sum(),
            samples,
            weights,
        }],
    };
    serde_json::to_string(&file).expect("names and numbers are JSON")
}

#[cfg(test)]
mod tests;
