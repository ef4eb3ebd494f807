//! The noise floor of the machine, from an A/A run.

use anyhow::Context;
use knee_host::number::spread;
use knee_run::noise::NoiseFloors;
use knee_run::record::{Machine, Record, RoundSummary, RunRecord};

use crate::stderr::tell;

/// Returns an error if the noise floor of `run` could not be saved, before it is measured.
pub(super) fn require_place(run: &RunRecord) -> anyhow::Result<()> {
    NoiseFloors::check_place(&Machine::from(&run.environment))
        .context("--aa cannot save the noise floor")
}

/// A measured noise floor that is not saved yet.
pub(super) struct MeasuredFloor {
    pub(super) floors: NoiseFloors,
    /// Sample count of the finished rounds.
    samples: u64,
    /// How many of these samples are marked as disturbed.
    marked: u64,
}

impl MeasuredFloor {
    /// The noise floor of `record`, or `None` if no point was measured completely.
    pub(super) fn of(record: &Record) -> anyhow::Result<Option<Self>> {
        let rounds = record.finished_rounds()?;
        let points = record.run.points();
        let all = || points.iter().flat_map(|point| rounds.of(point));
        Ok(NoiseFloors::of_run(&record.run, &rounds).map(|floors| Self {
            floors,
            samples: all().map(|round| round.samples).sum(),
            marked: all().map(RoundSummary::marked).sum(),
        }))
    }

    /// Prints the noise floor and saves it for later runs.
    pub(super) fn keep(self) -> anyhow::Result<()> {
        let Self { floors, samples, marked } = self;
        let worst = floors.points.iter().max_by(|a, b| a.relative.total_cmp(&b.relative));
        let worst = worst.map_or(String::new(), |noise| {
            format!(", at worst {} ({})", spread(noise.relative), noise.point)
        });
        tell!("knee: noise floor of this machine: typically {}{worst}", spread(floors.typical));
        if marked * 2 > samples {
            tell!(
                "knee: {marked} of {samples} samples were disturbed, so this is the noise floor \
                 of a busy machine; reduce other load and measure again"
            );
        }
        let file = floors
            .save()
            .context("cannot save the noise floor; fix the cause, then repeat with --resume")?;
        tell!("knee: saved the noise floor in {}", file.display());
        Ok(())
    }
}
