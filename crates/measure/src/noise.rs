//! The noise floor of a machine: what A/A comparisons show here, kept for later runs.
//!
//! An A/A test of will-it-scale called 16 of 45 identical pairs different. `knee run --aa`
//! measures how different two groups of rounds of the same thing look on this machine, per point,
//! and keeps the answer in the user's state directory.

use std::fs;
use std::io;
use std::path::PathBuf;

use knee_stats::{median, noise_floor};
use serde::{Deserialize, Serialize};

use crate::machine::Environment;
use crate::plan::Point;
use crate::record::{RunRecord, SCHEMA, write_atomically};
use crate::summary::CurveSummary;

/// Rounds of an A/A run unless asked otherwise: two groups as large as an ordinary run.
pub const AA_ROUNDS: u32 = 10;

/// The noise of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointNoise {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// The relative difference of medians that 95 % of A/A comparisons stay below.
    pub relative: f64,
    /// From how many rounds.
    pub rounds: usize,
}

/// The noise floors of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloors {
    /// Version of this format: 1.
    pub schema: u32,
    /// When they were measured.
    pub measured_at: String,
    /// The machine they hold for.
    pub hostname: String,
    /// The kernel they hold for.
    pub kernel: String,
    /// The CPU they hold for.
    pub cpu_model: Option<String>,
    /// Median over the points: for points that were not measured.
    pub typical: f64,
    /// Each point.
    pub points: Vec<PointNoise>,
}

impl NoiseFloors {
    /// From the curves of an A/A run; `None` where there were too few rounds.
    pub fn of_run(run: &RunRecord, curves: &[CurveSummary]) -> Option<Self> {
        let points: Vec<PointNoise> = curves
            .iter()
            .flat_map(|curve| &curve.points)
            .filter_map(|entry| {
                let floor = noise_floor(&entry.point.rounds)?;
                Some(PointNoise {
                    point: entry.point.point.clone(),
                    relative: floor.relative,
                    rounds: floor.rounds,
                })
            })
            .collect();
        let typical = median(&points.iter().map(|p| p.relative).collect::<Vec<_>>())?;
        let environment = &run.environment;
        Some(Self {
            schema: SCHEMA,
            measured_at: environment.started_at.clone(),
            hostname: environment.hostname.clone(),
            kernel: environment.kernel.clone(),
            cpu_model: environment.cpu_model.clone(),
            typical,
            points,
        })
    }

    /// The floor of `point`, or the typical one.
    pub fn of(&self, point: &Point) -> f64 {
        self.points.iter().find(|p| p.point == *point).map_or(self.typical, |p| p.relative)
    }

    /// The floors kept for the machine that `environment` describes.
    pub fn load(environment: &Environment) -> Option<Self> {
        let floors: Self = serde_json::from_slice(&fs::read(file()?).ok()?).ok()?;
        let same_machine = floors.hostname == environment.hostname
            && floors.kernel == environment.kernel
            && floors.cpu_model == environment.cpu_model;
        (floors.schema == SCHEMA && same_machine).then_some(floors)
    }

    /// Keeps them for later runs; returns the file.
    pub fn save(&self) -> io::Result<PathBuf> {
        let file = file().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "neither XDG_STATE_HOME nor HOME is set")
        })?;
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        write_atomically(&file, &text)?;
        Ok(file)
    }
}

/// Where the XDG base directory specification puts state.
fn file() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("knee/noise.json"))
}
