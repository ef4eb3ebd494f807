//! The file of traces.

use knee_host::json::{Head, at_most, fault_in_file, with_one_line_strings};
use knee_host::text::escape_json;
use serde::{Deserialize, Serialize};

use super::{Trace, Traces};
use crate::simulate::WorkloadError;

/// Version of the format.
const SCHEMA: u64 = 1;
/// What the file contains.
const KIND: &str = "prediction trace";
/// The most traces in a file.
const MOST_TRACES: usize = 1_000;
/// The most traced CPUs of a trace, and the most memory nodes.
const MOST_CPUS: usize = 1_024;
/// The most lines and locks of a trace. The simulation has a table of lines for each instance of a scope.
const MOST_STATIONS: usize = 1 << 16;
/// The most iterations of all traced CPUs together. Empty ones take three bytes of a file, and many times that of memory.
const MOST_ITERATIONS: usize = 1 << 18;
/// The most iterations that [`Trace::iterations`] can be.
const MOST_REPETITIONS: u32 = 1_000_000;
/// The most instructions of an iteration, and the highest rate per second. Sums of them are finite.
const LARGEST: f64 = 1e12;
/// The lowest rate per second: an iteration takes less than two weeks.
const LOWEST: f64 = 1e-6;

/// What is wrong with a file of traces.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It is not JSON, or is cut off, or has values of another type.
    #[error("{0}")]
    Syntax(String),
    /// It contains something else.
    #[error("it is not a trace of knee predict --save-trace")]
    Kind,
    /// Another version of knee wrote it.
    #[error("it has schema {0}, but this version of knee reads {SCHEMA}; trace again")]
    Schema(u64),
    /// A value that no trace has.
    #[error("{testcase}: {what}; the file is damaged, so trace again")]
    Value {
        /// The testcase of the trace.
        testcase: String,
        /// What is wrong.
        what: String,
    },
    /// A workload that tasks cannot replay.
    #[error("{testcase}: {error}; the file is damaged, so trace again")]
    Workload {
        /// The testcase of the trace.
        testcase: String,
        /// What is wrong.
        error: WorkloadError,
    },
    /// There is nothing to predict.
    #[error("it contains no traces")]
    Empty,
}

#[derive(Serialize)]
struct Written<'a> {
    schema: u64,
    kind: &'static str,
    knee: &'static str,
    traces: &'a [Trace],
}

#[derive(Deserialize)]
struct Document {
    #[serde(deserialize_with = "at_most::<MOST_TRACES, _, _>")]
    traces: Vec<Trace>,
}

impl Traces {
    /// The largest file that knee reads, in bytes. A step has at least two bytes, and takes 24 in memory.
    pub const LARGEST: u64 = 32 << 20;

    /// The content of the file.
    pub fn to_json(&self) -> Vec<u8> {
        let knee = env!("CARGO_PKG_VERSION");
        let document = Written { schema: SCHEMA, kind: KIND, knee, traces: &self.0 };
        let json = serde_json::to_string_pretty(&document).expect("traces are plain data");
        format!("{}\n", escape_json(&json)).into_bytes()
    }

    /// Reads the content of a file, and checks that tasks can replay each trace.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn parse(text: &[u8]) -> Result<Self, TraceError> {
        let syntax = |error: serde_json::Error| TraceError::Syntax(fault_in_file(&error));
        match Head::of(text).map_err(syntax)?.schema_of(KIND) {
            Some(SCHEMA) => {}
            Some(found) => return Err(TraceError::Schema(found)),
            None => return Err(TraceError::Kind),
        }
        let read = serde_json::from_slice::<Document>(&with_one_line_strings(text));
        let Document { traces } = read.map_err(syntax)?;
        if traces.is_empty() {
            return Err(TraceError::Empty);
        }
        traces.iter().try_for_each(Trace::check)?;
        Ok(Self(traces))
    }
}

impl Trace {
    /// Checks what the types of the fields do not say.
    fn check(&self) -> Result<(), TraceError> {
        let wrong = |what: String| Err(TraceError::Value { testcase: self.testcase.clone(), what });
        let workload = &self.workload;
        let iterations = workload.recorded.iter().map(|recorded| recorded.iterations.len()).sum();
        let sizes = [
            ("iterations", iterations, MOST_ITERATIONS),
            ("CPUs", workload.recorded.len(), MOST_CPUS),
            ("lines", workload.lines.len(), MOST_STATIONS),
            ("locks", workload.locks.len(), MOST_STATIONS),
        ];
        for (what, found, most) in sizes {
            if found > most {
                return wrong(format!("it has {found} {what}, and knee reads at most {most}"));
            }
        }
        if !(1..=MOST_REPETITIONS).contains(&self.iterations) {
            return wrong(format!("its iterations must be from 1 to {MOST_REPETITIONS}"));
        }
        if let Some(alone) = &self.alone
            && !(LOWEST..=LARGEST).contains(&alone.rate)
        {
            return wrong("the rate of one task is impossible".to_owned());
        }
        for recorded in &workload.recorded {
            if recorded.node >= MOST_CPUS {
                return wrong(format!("a memory node must be below {MOST_CPUS}"));
            }
            if recorded.iterations.iter().any(|one| one.instructions() > LARGEST) {
                return wrong(format!("an iteration has more than {LARGEST} instructions"));
            }
        }
        workload
            .check()
            .map_err(|error| TraceError::Workload { testcase: self.testcase.clone(), error })
    }
}
