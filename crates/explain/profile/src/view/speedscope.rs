//! speedscope's JSON, for <https://www.speedscope.app> or a copy of it on your machine.
//!
//! The format is that of <https://www.speedscope.app/file-format-schema.json>, type *sampled*: a list
//! of frames, and for each stack the indices of its frames from the outermost to the innermost, with a weight.
//! The outermost frame is the program. A capture has no order in time, so *Time Order* shows an arbitrary
//! order; use *Left Heavy* and *Sandwich*.

use serde::Serialize;
use serde_json::json;

use super::first_of_name;
use crate::capture::{Capture, Unit};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
}

/// A capture in the format of speedscope. Weights are nanoseconds if the capture's clock ticks in CPU time,
/// otherwise samples.
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
    let frames: Vec<Frame<'_>> = functions.chain(programs).collect();
    let file = json!({
        "$schema": SCHEMA,
        "name": capture.title,
        "exporter": "knee",
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": [{
            "type": "sampled",
            "name": capture.title,
            "unit": if is_time { "nanoseconds" } else { "none" },
            "startValue": 0,
            "endValue": weights.iter().sum::<u64>(),
            "samples": samples,
            "weights": weights,
        }],
    });
    file.to_string()
}

#[cfg(test)]
mod tests;
