//! The noise floor of the machine, from an A/A run.

use anyhow::Context;
use knee_host::number::spread;
use knee_results::PointId;
use knee_run::noise::{AA_ROUNDS_AT_LEAST, NoiseFloors};
use knee_run::record::{Machine, Record, RoundSummary, RunRecord};

use crate::present::enumeration::and_more;
use crate::stderr::tell;

/// Returns an error if the noise floor of `run` could not be saved, before it is measured.
pub(super) fn require_place(run: &RunRecord) -> anyhow::Result<()> {
    NoiseFloors::check_place(&Machine::from(&run.environment))
        .context("--aa cannot save the noise floor")
}

/// A measured noise floor that is not saved yet.
pub(super) struct MeasuredFloor {
    /// `None` if no point has a floor.
    pub(super) floors: Option<NoiseFloors>,
    /// The points without a floor.
    lacking: Vec<PointId>,
    /// Sample count of the finished rounds.
    samples: u64,
    /// How many of these samples are marked as disturbed.
    marked: u64,
}

impl MeasuredFloor {
    /// The noise floor of `record`.
    pub(super) fn of(record: &Record) -> anyhow::Result<Self> {
        let rounds = record.finished_rounds()?;
        let points = record.run.points();
        let all = || points.iter().flat_map(|point| rounds.of(point));
        let floors = NoiseFloors::of_run(&record.run, &rounds);
        let has_floor =
            |point: &PointId| floors.as_ref().is_some_and(|all| all.measured(point).is_some());
        Ok(Self {
            lacking: points.iter().filter(|point| !has_floor(point)).cloned().collect(),
            samples: all().map(|round| round.samples).sum(),
            marked: all().map(RoundSummary::marked).sum(),
            floors,
        })
    }

    /// Prints the noise floor and saves it for later runs.
    pub(super) fn keep(self) -> anyhow::Result<()> {
        let Self { floors, lacking, samples, marked } = self;
        if let Some((first, others)) = lacking.split_first() {
            tell!(
                "knee: no noise floor for {first}{}: failed, or fewer than {AA_ROUNDS_AT_LEAST} undisturbed \
                 rounds ({marked} of {samples} samples were disturbed); reduce other load, and measure \
                 again",
                and_more(others.len())
            );
        }
        let Some(floors) = floors else { return Ok(()) };
        let worst = floors.points.iter().max_by(|a, b| a.relative.total_cmp(&b.relative));
        let worst = worst.map_or(String::new(), |noise| {
            format!(", at worst {} ({})", spread(noise.relative), noise.point)
        });
        tell!("knee: noise floor of this machine: typically {}{worst}", spread(floors.typical));
        let file = floors
            .save()
            .context("cannot save the noise floor; fix the cause, then repeat with --resume")?;
        tell!("knee: saved the noise floor in {}", file.display());
        Ok(())
    }
}
