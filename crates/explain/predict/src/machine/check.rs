//! Parsing and checking a machine.

use std::ops::RangeInclusive;

use knee_host::text::one_line;
use knee_host::toml_text::{TomlError, from_toml};

use super::fields::{Figure, Machine, Matrix};

/// Version of the format.
pub(crate) const SCHEMA: u32 = 1;
/// The most sockets, L3 caches, cores or hardware threads of a level.
const MOST_PARTS: u32 = 4_096;
/// The most CPUs.
const MOST_CPUS: u64 = 65_536;
/// The most bytes of a title or a source. A page repeats the source at each figure.
const LONGEST_TEXT: usize = 1_000;
/// The most points of a line. knee measures at most 20.
const MOST_POINTS: usize = 1_000;

/// The values that a figure can have.
struct Plausible {
    values: RangeInclusive<f64>,
    /// The range in words.
    words: &'static str,
}

/// Times in ns, but not of a transfer between a CPU and itself. A cycle at 6 GHz takes 0.17 ns.
const TIME: Plausible = Plausible { values: 0.1..=1e9, words: "from 0.1 ns to 1 second" };
/// Times of work relative to other times of the same work, and speeds.
const RATIO: Plausible = Plausible { values: 0.01..=100.0, words: "from 0.01 to 100" };

/// What is wrong with the file of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// It is not TOML, or has a key or value of another type.
    #[error(transparent)]
    Syntax(#[from] TomlError),
    /// Another version of knee wrote it.
    #[error("it has schema {0}, but this version of knee reads {SCHEMA}")]
    Schema(u32),
    /// A value that no machine has.
    #[error("{key}: {reason}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong, and what to write.
        reason: String,
    },
}

fn wrong(key: impl Into<String>, reason: impl Into<String>) -> MachineError {
    MachineError::Value { key: key.into(), reason: reason.into() }
}

/// Checks the name of a machine.
///
/// # Errors
/// What to write.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    match !name.is_empty() && name.chars().all(is_valid) {
        true => Ok(()),
        false => Err("use lower-case letters, digits, -, _ and .".to_owned()),
    }
}

impl Machine {
    /// Parses the text of a file. Newlines and tabs in the title and the sources are marked by
    /// [`one_line`](knee_host::text::one_line).
    ///
    /// # Errors
    /// The error names the line or the key.
    pub fn parse(text: &str) -> Result<Self, MachineError> {
        let mut machine: Self = from_toml(text)?;
        machine.check()?;
        for text in machine.sources.values_mut().chain([&mut machine.title]) {
            *text = one_line(text).into_owned();
        }
        Ok(machine)
    }

    /// Checks what the types of the fields do not say.
    fn check(&self) -> Result<(), MachineError> {
        if self.schema != SCHEMA {
            return Err(MachineError::Schema(self.schema));
        }
        check_name(&self.name).map_err(|reason| wrong("name", reason))?;
        let texts = [("name", &self.name), ("title", &self.title)].into_iter();
        let sources = self.sources.iter().flat_map(|(name, text)| [name, text]);
        for (key, text) in texts.chain(sources.map(|text| ("sources", text))) {
            if text.len() > LONGEST_TEXT {
                return Err(wrong(key, format!("a text has more than {LONGEST_TEXT} bytes")));
            }
        }
        self.check_shape()?;
        for (key, figure) in self.figures() {
            let plausible = if key == "smt_slowdown" { RATIO } else { TIME };
            figure.check(&key, &plausible)?;
            self.check_source(&key, &figure.source)?;
        }
        if let Some(contended) = &self.contended_ns {
            check_points("contended_ns.points", &contended.points, self.cpus(), &TIME)?;
            self.check_source("contended_ns.source", &contended.source)?;
        }
        if let Some(clock) = &self.clock {
            check_points("clock.points", &clock.points, self.cores_per_socket(), &RATIO)?;
            self.check_source("clock.source", &clock.source)?;
        }
        self.matrix.as_ref().map_or(Ok(()), Matrix::check)
    }

    fn check_shape(&self) -> Result<(), MachineError> {
        let parts = [
            ("sockets", self.sockets),
            ("l3s_per_socket", self.l3s_per_socket),
            ("cores_per_l3", self.cores_per_l3),
            ("threads_per_core", self.threads_per_core),
        ];
        let mut cpus = 1;
        for (key, count) in parts {
            if !(1..=MOST_PARTS).contains(&count) {
                return Err(wrong(key, format!("must be a number from 1 to {MOST_PARTS}")));
            }
            cpus *= u64::from(count);
            if cpus > MOST_CPUS {
                return Err(wrong(key, format!("the machine has more than {MOST_CPUS} CPUs")));
            }
        }
        Ok(())
    }

    fn check_source(&self, key: &str, source: &str) -> Result<(), MachineError> {
        match self.sources.contains_key(source) {
            true => Ok(()),
            false => Err(wrong(key, format!("[sources] does not contain the source {source:?}"))),
        }
    }
}

impl Figure {
    fn check(&self, key: &str, plausible: &Plausible) -> Result<(), MachineError> {
        let all = [self.low, Some(self.value), self.high];
        if !all.into_iter().flatten().all(|value| plausible.values.contains(&value)) {
            return Err(wrong(key, format!("must be {}", plausible.words)));
        }
        if !all.into_iter().flatten().is_sorted() {
            return Err(wrong(key, "value must be between low and high"));
        }
        Ok(())
    }
}

/// Checks that counts ascend from 1 to at most `most`.
fn check_points(
    key: &str,
    points: &[(u32, f64)],
    most: u32,
    plausible: &Plausible,
) -> Result<(), MachineError> {
    if points.len() > MOST_POINTS {
        return Err(wrong(key, format!("there are more than {MOST_POINTS} points")));
    }
    let ascends = points.is_sorted_by(|(a, _), (b, _)| a < b);
    let counts = 1..=most;
    if points.is_empty() || !ascends || !points.iter().all(|(count, _)| counts.contains(count)) {
        return Err(wrong(
            key,
            format!("must be points whose counts ascend from 1 to at most {most}"),
        ));
    }
    match points.iter().all(|(_, value)| plausible.values.contains(value)) {
        true => Ok(()),
        false => Err(wrong(key, format!("must be {}", plausible.words))),
    }
}

impl Matrix {
    fn check(&self) -> Result<(), MachineError> {
        let cpus = self.cpus.len();
        if self.ns.len() != cpus || self.ns.iter().any(|row| row.len() != cpus) {
            return Err(wrong("matrix.ns", "must have a row and a column for each of matrix.cpus"));
        }
        let is_time = |ns: &f64| (0.0..=*TIME.values.end()).contains(ns);
        match self.ns.iter().flatten().all(is_time) {
            true => Ok(()),
            false => Err(wrong("matrix.ns", "must be times from 0 ns to 1 second")),
        }
    }
}
