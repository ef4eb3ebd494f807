//! pprof's protobuf, for `go tool pprof` and for services that collect profiles.
//!
//! The format is `profile.proto` of <https://github.com/google/pprof>, compressed with gzip. A sample
//! has two values: the count of its stack, and its weight (`cpu` in nanoseconds, `cycles`, or `events`). Its
//! program is the label `comm`, which `pprof -tagroot=comm` makes the outermost frame. Inlined functions share
//! a location with the function that contains them, as the format requires.
//!
//! A capture has no addresses, so `pprof -list` and `-disasm` show nothing.

mod message;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use indexmap::IndexSet;
use knee_host::text::plain;
use message::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use prost::Message;

use crate::capture::{Capture, Unit};

/// A capture in the format of pprof.
pub fn pprof(capture: &Capture) -> Vec<u8> {
    let mut zipped = GzEncoder::new(Vec::new(), Compression::default());
    let bytes = profile(capture).encode_to_vec();
    zipped.write_all(&bytes).and_then(|()| zipped.finish()).expect("memory takes what is written")
}

fn profile(capture: &Capture) -> Profile {
    // String 0 must be empty. All other IDs begin at 1, because 0 means none.
    let mut strings = IndexSet::new();
    let mut string = |text: &str| strings.insert_full(plain(text).into_owned()).0 as i64;
    string("");
    let (kind, unit) = match capture.clock.unit {
        Unit::Nanoseconds => ("cpu", "nanoseconds"),
        Unit::Cycles => ("cycles", "count"),
        Unit::Events => ("events", "count"),
    };
    let mut value_type =
        |kind: &str, unit: &str| ValueType { kind: string(kind), unit: string(unit) };
    let sample_type = vec![value_type("samples", "count"), value_type(kind, unit)];
    let period_type = Some(value_type(kind, unit));
    let mut modules = IndexSet::new();
    let mut places = IndexSet::new();
    let mut sample = Vec::new();
    let comm = string("comm");
    for count in &capture.counts {
        let program = string(&capture.programs[count.program as usize]);
        sample.push(Sample {
            location_id: locations(capture, count.stack)
                .into_iter()
                .map(|location| places.insert_full(location).0 as u64 + 1)
                .collect(),
            value: vec![signed(count.samples), signed(count.weight)],
            label: vec![Label { key: comm, str: program }],
        });
    }
    let function = (1..).zip(&capture.functions).map(|(id, function)| {
        let name = string(&function.name);
        let filename = string(function.module.as_deref().unwrap_or_default());
        Function { id, name, system_name: name, filename }
    });
    let function = function.collect();
    let location = (1..).zip(&places).map(|(id, functions): (u64, &Vec<u32>)| Location {
        id,
        mapping_id: functions
            .last()
            .and_then(|function| capture.functions[*function as usize].module.clone())
            .map_or(0, |module| modules.insert_full(module).0 as u64 + 1),
        line: functions.iter().map(|place| Line { function_id: u64::from(*place) + 1 }).collect(),
    });
    let location = location.collect();
    let mapping = (1..).zip(&modules).map(|(id, module)| {
        let filename = string(module);
        Mapping { id, filename, has_functions: true }
    });
    let mapping = mapping.collect();
    let comment = vec![string(&capture.title)];
    let samples = capture.samples().max(1);
    Profile {
        sample_type,
        sample,
        mapping,
        location,
        function,
        string_table: strings.into_iter().collect(),
        duration_nanos: capture.seconds.map_or(0, |seconds| (seconds * 1e9) as i64),
        period_type,
        period: signed(capture.weight() / samples),
        comment,
    }
}

/// The locations of a stack, from the innermost outward. Each contains a function, after the functions that
/// are inlined into it.
fn locations(capture: &Capture, stack: Option<u32>) -> Vec<Vec<u32>> {
    let mut locations = Vec::new();
    let mut inlined = Vec::new();
    for function in capture.functions_of(stack) {
        inlined.push(function);
        if !capture.functions[function as usize].inlined {
            locations.push(std::mem::take(&mut inlined));
        }
    }
    if !inlined.is_empty() {
        locations.push(inlined);
    }
    locations
}

/// A count for pprof, which saturates at its largest number.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
