//! The curve: simulations for each number of tasks.

use knee_host::Placement;
use knee_results::prediction::Class;
use knee_stats::{median, usl::percentiles};

use super::class::{class, is_contention};
use super::engine::{Engine, Length};
use super::inputs::{Inputs, MissingFigure, Uncertainty};
use super::network::network;
use super::program::Programs;
use super::seats::Seats;
use super::unfair::without_handover;
use super::usage::Usage;
use super::workload::{Workload, WorkloadError};
use crate::machine::Machine;

/// The measurement in the middle of all ranges, which finds the stations.
const MIDDLE: Length = Length { warm_up: 10, rounds: 40, least: 4_000, most_events: 500_000 };
/// The measurement of a draw. It starts with the queues of the previous one, and contributes only
/// to a band.
const DRAW: Length = Length { warm_up: 1, rounds: 2, least: 200, most_events: 200_000 };
/// After so many events, no further draws are simulated if there are [`FEWEST_DRAWS`].
const EVENTS_OF_DRAWS: u64 = 2_000_000;
/// The fewest draws, unless the plan has fewer.
const FEWEST_DRAWS: usize = 50;

/// Share of the draws inside the bands of [`Plan::new`].
pub const CONFIDENCE: f64 = 0.9;

/// What to predict.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// What tasks do.
    pub workload: &'a Workload,
    /// Where.
    pub machine: &'a Machine,
    /// Time in ns of an iteration on one CPU of this machine.
    pub iteration_ns: f64,
    /// The order in which tasks take the CPUs. [`Placement::None`] is like [`Placement::Cores`].
    pub placement: Placement,
    /// How uncertain the inputs are.
    pub uncertainty: Uncertainty,
    /// Number of draws from the uncertain inputs. Points whose simulation takes long have fewer.
    pub draws: u32,
    /// Share of the draws inside the band.
    pub confidence: f64,
    /// Equal seeds give equal predictions.
    pub seed: u64,
}

impl<'a> Plan<'a> {
    /// A plan with will-it-scale's placement and a band of 90 % of 200 draws.
    pub fn new(workload: &'a Workload, machine: &'a Machine, iteration_ns: f64) -> Self {
        Self {
            workload,
            machine,
            iteration_ns,
            placement: Placement::default(),
            uncertainty: Uncertainty::default(),
            draws: 200,
            confidence: CONFIDENCE,
            seed: 1,
        }
    }
}

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// The workload cannot be replayed.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The machine lacks a figure.
    #[error(transparent)]
    Machine(#[from] MissingFigure),
    /// The time of an iteration is impossible.
    #[error("the time of an iteration must be above 0 ns, but is {0} ns")]
    Time(f64),
    /// The machine has fewer CPUs than there would be tasks.
    #[error(
        "the task count must be from 1 to {cpus}, the number of CPUs of {machine}, but is {tasks}"
    )]
    Tasks {
        /// Number of tasks.
        tasks: u32,
        /// Name of the machine.
        machine: String,
        /// Its CPUs.
        cpus: u32,
    },
    /// Each task of so many would have too many lines and locks of its own.
    #[error(
        "{tasks} tasks would use more than {MOST_INSTANCES} lines and locks; predict fewer tasks"
    )]
    Instances {
        /// Number of tasks.
        tasks: u32,
    },
}

/// The most lines and locks of a simulation. Each takes some hundred bytes.
const MOST_INSTANCES: usize = 1 << 20;

/// The prediction for a number of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Number of tasks.
    pub tasks: u32,
    /// Iterations per second of all tasks: the median of the draws, or that in the middle of all
    /// ranges if there are none.
    pub rate: f64,
    /// Lower end of the band.
    pub low: f64,
    /// Upper end of the band.
    pub high: f64,
    /// The rate of each draw. Draws with the same number have the same inputs for every workload
    /// and number of tasks, so that the ratio of two workloads is to be computed for each draw.
    /// Long iterations of many tasks have fewer draws than planned, but at least 50.
    pub rates: Vec<f64>,
    /// The rate without contention, in the middle of all ranges.
    pub free: f64,
    /// The rate that the simulation does not exceed, in the middle of all ranges: that without
    /// contention, or that at which the binding station is always busy.
    pub bound: f64,
    /// What limits it.
    pub class: Class,
    /// The lines and locks for which tasks wait, the busiest first, in the middle of all
    /// ranges. The first is the *binding station*. Empty for one task, which does not wait.
    pub usages: Vec<Usage>,
    /// The rate by [mean value analysis](super::mva) of these stations, as a check of the
    /// simulation in the middle of all ranges. It is from 75 % to 101 % of that rate, because
    /// services are more regular than the analysis assumes. `None` if it does not apply: lines that
    /// are only loaded or stored to, or are one of several of their kind; readers that share a
    /// lock; lines that are visited both under a lock and without it.
    pub analysis: Option<f64>,
    /// The simulated rate in the middle of all ranges.
    pub middle: f64,
}

impl Point {
    /// The same point, if each recorded iteration counts as `count` iterations.
    #[must_use]
    pub fn counted(mut self, count: f64) -> Self {
        let Self { rate, low, high, rates, free, bound, usages, analysis, middle, .. } = &mut self;
        for rate in [rate, low, high, free, bound, middle].into_iter().chain(rates).chain(analysis)
        {
            *rate *= count;
        }
        for usage in usages {
            usage.plateau *= count;
            usage.visits /= count;
        }
        self
    }

    /// The busiest line or lock, if contention costs more than 5 % of the throughput.
    pub fn binding(&self) -> Option<&Usage> {
        self.usages.first().filter(|_| is_contention(self.middle / self.free))
    }
}

/// Predicts points of a curve.
#[derive(Debug)]
pub struct Simulator<'a> {
    plan: Plan<'a>,
    programs: Programs,
    middle: Inputs,
    draws: Vec<Inputs>,
}

impl<'a> Simulator<'a> {
    /// Prepares the prediction.
    ///
    /// # Errors
    /// The workload is invalid, or the machine lacks a figure.
    pub fn new(plan: Plan<'a>) -> Result<Self, PredictError> {
        let Plan { workload, machine, iteration_ns, uncertainty, seed, .. } = plan;
        workload.check()?;
        if !(iteration_ns.is_finite() && iteration_ns > 0.0) {
            return Err(PredictError::Time(iteration_ns));
        }
        let draw = |nr: u32| Inputs::draw(machine, iteration_ns, &uncertainty, mixed(seed, nr));
        Ok(Self {
            programs: Programs::new(workload),
            middle: Inputs::middle(machine, iteration_ns, &uncertainty)?,
            draws: (0..plan.draws).map(draw).collect::<Result<_, _>>()?,
            plan,
        })
    }

    /// The prediction for a number of tasks.
    ///
    /// # Errors
    /// The machine does not have that many CPUs, or the tasks would use too many lines.
    pub fn point(&self, tasks: u32) -> Result<Point, PredictError> {
        let Plan { workload, machine, .. } = self.plan;
        if !(1..=machine.cpus()).contains(&tasks) {
            let machine_name = machine.name.clone();
            return Err(PredictError::Tasks { tasks, machine: machine_name, cpus: machine.cpus() });
        }
        let seats = Seats::new(machine, self.plan.placement, workload, tasks);
        let locks = workload.locks.iter().map(|lock| lock.scope);
        let scopes = workload.lines.iter().map(|line| line.scope).chain(locks);
        if scopes.map(|scope| seats.instances(scope)).sum::<usize>() > MOST_INSTANCES {
            return Err(PredictError::Instances { tasks });
        }
        let free = free_rate(&seats, &self.middle);
        let (rate, mut usages, rates) = match seats.len() == 1 || !self.programs.is_shared {
            true => {
                let rates = self.draws.iter().map(|inputs| free_rate(&seats, inputs));
                (free, Vec::new(), rates.collect())
            }
            false => self.simulate(&seats),
        };
        let band = percentiles(rates.clone(), self.plan.confidence);
        let (low, high) = band.unwrap_or((rate, rate));
        let analysis = self.analysis(&usages, f64::from(tasks) / free * 1e9, tasks);
        without_handover(&mut usages, workload, self.plan.iteration_ns);
        let plateau = usages.first().map_or(f64::INFINITY, |usage| usage.plateau);
        Ok(Point {
            tasks,
            rate: median(&rates).filter(|_| !usages.is_empty()).unwrap_or(rate),
            low,
            high,
            rates,
            free,
            bound: free.min(plateau),
            class: class(workload, &usages, rate / free),
            analysis,
            middle: rate,
            usages,
        })
    }

    /// The rate of stations with these usages by mean value analysis. An iteration takes so long
    /// without contention.
    fn analysis(&self, usages: &[Usage], iteration_ns: f64, tasks: u32) -> Option<f64> {
        let outside = 1.0 - self.programs.share_inside(self.middle.section);
        let network = network(self.plan.workload, usages, iteration_ns * outside)?;
        Some(network.throughput(tasks))
    }

    /// The rate and usages in the middle of all ranges, and the rate of each draw.
    fn simulate(&self, seats: &Seats) -> (f64, Vec<Usage>, Vec<f64>) {
        let Plan { workload, seed, .. } = self.plan;
        let mut engine = Engine::new(workload, &self.programs, seats, &self.middle, seed);
        // In a short measurement, more than the mean number of short iterations may end.
        let at_most_free = |rate: f64, inputs: &Inputs| (rate * 1e9).min(free_rate(seats, inputs));
        let rate = at_most_free(engine.measure(MIDDLE), &self.middle);
        let usages = Usage::of(workload, &engine.found(), seats.len());
        let most_events = engine.handled() + EVENTS_OF_DRAWS;
        let mut rates = Vec::with_capacity(self.draws.len());
        for inputs in &self.draws {
            if rates.len() >= FEWEST_DRAWS && engine.handled() > most_events {
                break;
            }
            engine.change(inputs);
            rates.push(at_most_free(engine.measure(DRAW), inputs));
        }
        (rate, usages, rates)
    }
}

/// Iterations per second if no task waits.
fn free_rate(seats: &Seats, inputs: &Inputs) -> f64 {
    seats.iter().map(|seat| 1e9 / (inputs.iteration_ns * seat.slowdown(inputs))).sum()
}

/// A seed for a draw. Seeds that differ by 1 have unrelated draws (the increment of SplitMix64).
fn mixed(seed: u64, draw: u32) -> u64 {
    seed.wrapping_add(1 + u64::from(draw)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
