//! speedscope's JSON, for <https://www.speedscope.app> or a copy of it on your machine.
//!
//! The format is that of <https://www.speedscope.app/file-format-schema.json>, type *sampled*: a list
//! of frames, and for each stack the indices of its frames from the outermost to the innermost, with a weight.
//! The outermost frame is the program. A capture has no order in time, so *Time Order* shows an arbitrary
//! order; use *Left Heavy* and *Sandwich*.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

use super::first_of_name;
use crate::capture::{Capture, Unit};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
}

/// Stacks, each as a list of numbers of frames.
struct Stacks<'a> {
    capture: &'a Capture,
    /// See [`first_of_name`].
    first: Vec<u32>,
}

impl Serialize for Stacks<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Stacks { capture, first } = self;
        serializer.collect_seq(capture.counts.iter().map(|count| {
            let functions = capture.functions_of(count.stack);
            let mut stack: Vec<usize> =
                functions.map(|place| first[place as usize] as usize).collect();
            stack.push(capture.functions.len() + count.program as usize);
            stack.reverse();
            stack
        }))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'a> {
    r#type: &'static str,
    name: &'a str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Stacks<'a>,
    weights: Vec<u64>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: &'static str,
    active_profile_index: u32,
    shared: Shared<'a>,
    profiles: [Profile<'a>; 1],
}

/// Ends a line after each list, so that a writer of lines has no more than one stack in memory.
struct LineOfList;

impl Formatter for LineOfList {
    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b"]\n")
    }
}

/// Writes a capture in the format of speedscope. Weights are nanoseconds if the capture's clock ticks in CPU
/// time, otherwise samples.
///
/// # Errors
/// Those of `out`.
pub fn speedscope(capture: &Capture, out: &mut dyn Write) -> io::Result<()> {
    let of_functions = capture.functions.iter();
    let functions = of_functions.map(|one| Frame { name: &one.name, file: one.module.as_deref() });
    let programs = capture.programs.iter().map(|name| Frame { name, file: None });
    let is_time = capture.clock.unit == Unit::Nanoseconds;
    let of_counts = capture.counts.iter();
    let weights: Vec<u64> =
        of_counts.map(|count| if is_time { count.weight } else { count.samples }).collect();
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
            samples: Stacks { capture, first: first_of_name(capture) },
            weights,
        }],
    };
    file.serialize(&mut serde_json::Serializer::with_formatter(out, LineOfList))?;
    Ok(())
}

#[cfg(test)]
mod tests;
