//! Reading the document: what a file must fulfil to be drawn and printed.

use knee_host::json::{Head, fault_in_file, with_one_line_strings};

use super::{Class, Curve, KIND, Next, Point, Prediction, Predictions, Ratio, SCHEMA, Station};
use crate::{MAX_RATE, MAX_TASKS};

/// How to write a document.
const MAKE: &str = "`knee predict -o FILE` writes a prediction";

/// Why a text is not a document of predictions.
#[derive(Debug, thiserror::Error)]
pub enum PredictionError {
    /// It is not JSON, or is truncated.
    #[error("{}; {MAKE}", fault_in_file(.0))]
    NotJson(serde_json::Error),
    /// It is another document.
    #[error("it is JSON, but not a prediction: {MAKE}")]
    OtherKind,
    /// It has the schema of another version of knee.
    #[error(
        "it has schema {found}, but this version of knee reads {SCHEMA}; predict again with this \
         version, or read it with the version that wrote it"
    )]
    Schema {
        /// The schema of the document.
        found: u64,
    },
    /// A field is missing or has the wrong type.
    #[error("{}; {MAKE}", fault_in_file(.0))]
    Malformed(serde_json::Error),
    /// It contradicts itself.
    #[error("{0}; {MAKE}")]
    Impossible(String),
}

impl Predictions {
    /// Reads a document. Newlines and tabs in its texts are marked.
    ///
    /// # Errors
    /// It is not such a document, has another schema, or contradicts itself.
    pub fn parse(text: &[u8]) -> Result<Self, PredictionError> {
        match Head::of(text).map_err(PredictionError::NotJson)?.schema_of(KIND) {
            Some(SCHEMA) => {}
            Some(found) => return Err(PredictionError::Schema { found }),
            None => return Err(PredictionError::OtherKind),
        }
        let text = with_one_line_strings(text);
        let all: Self = serde_json::from_slice(&text).map_err(PredictionError::Malformed)?;
        all.check().map_err(PredictionError::Impossible)?;
        Ok(all)
    }

    /// Returns the first contradiction as an error.
    fn check(&self) -> Result<(), String> {
        share("confidence", self.confidence)?;
        self.predictions.iter().try_for_each(Prediction::check)
    }
}

impl Prediction {
    fn check(&self) -> Result<(), String> {
        rate("alone.rate", self.alone.rate)?;
        let Some(first) = self.curves.first() else {
            return Err(format!("the prediction of {} has no curve", self.testcase));
        };
        for curve in &self.curves {
            curve.check()?;
            if !curve.tasks().eq(first.tasks()) {
                return Err(format!("the curves of {} have different task counts", self.testcase));
            }
        }
        Ok(())
    }
}

impl Curve {
    fn tasks(&self) -> impl Iterator<Item = u32> {
        self.points.iter().map(|point| point.tasks)
    }

    fn check(&self) -> Result<(), String> {
        rate("time_ratio", self.time_ratio)?;
        if self.points.is_empty() {
            return Err(format!("the curve of {} has no points", self.kernel));
        }
        if let Some(pair) = self.points.windows(2).find(|pair| pair[0].tasks >= pair[1].tasks) {
            let (one, next) = (pair[0].tasks, pair[1].tasks);
            return Err(format!("the point of {next} tasks comes after that of {one}"));
        }
        let next = self.next.iter().map(|Next { point, .. }| point);
        self.points.iter().chain(next).try_for_each(Point::check)
    }
}

impl Point {
    fn check(&self) -> Result<(), String> {
        let tasks = self.tasks;
        if !(1..=MAX_TASKS).contains(&tasks) {
            return Err(format!("a point has {tasks} tasks, not 1 to {MAX_TASKS}"));
        }
        for (name, value) in [
            ("simulated", self.simulated),
            ("free", self.free),
            ("bound", self.bound),
            ("analysis", self.analysis.unwrap_or_default()),
        ] {
            rate(name, value)?;
        }
        match self.band() {
            Some((value, low, high)) => ordered("rate", value, low, high)?,
            None if self.class == Class::D => {}
            None => return Err(format!("the point of {tasks} tasks has no rate")),
        }
        if let Some(Ratio { value, low, high }) = self.ratio {
            ordered("ratio", value, low, high)?;
        }
        self.stations.iter().try_for_each(Station::check)?;
        match &self.limit {
            Some(limit) if self.binding().is_none() => Err(format!(
                "{limit} limits the point of {tasks} tasks, but is not among its stations"
            )),
            _ => Ok(()),
        }
    }
}

impl Station {
    fn check(&self) -> Result<(), String> {
        share("utilisation", self.utilisation)?;
        share("far", self.far)?;
        for (name, value) in [
            ("waiting", self.waiting),
            ("visits", self.visits),
            ("service_ns", self.service_ns),
            ("plateau", self.plateau),
        ] {
            rate(name, value)?;
        }
        Ok(())
    }
}

fn rate(name: &str, value: f64) -> Result<(), String> {
    within(name, value, MAX_RATE)
}

fn share(name: &str, value: f64) -> Result<(), String> {
    within(name, value, 1.0)
}

fn within(name: &str, value: f64, most: f64) -> Result<(), String> {
    match (0.0..=most).contains(&value) {
        true => Ok(()),
        false => Err(format!("{name} is {value}, not 0 to {most}")),
    }
}

/// Three rates, of which the band does not end below its beginning.
fn ordered(name: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    rate(name, value)?;
    rate(name, low)?;
    rate(name, high)?;
    match low <= high {
        true => Ok(()),
        false => Err(format!("the band of {name} begins at {low}, above its end at {high}")),
    }
}
