//! What a simulation needs of a machine and of one CPU, and how uncertain it is.

use oorandom::Rand64;

use crate::machine::{Distance, Machine};

/// Time in ns to pass a line between the hardware threads of a core, if the machine has no figure.
/// The figures of the built-in machines are from 8 to 13.
const CORE_NS: f64 = 10.0;
/// The same within an L3 cache that is one of several. The built-in figures are from 25 to 33.
const L3_NS: f64 = 27.0;
/// A transfer between sockets takes this many times as long as within one, if the machine has no
/// figure. The built-in figures are 1.9 to 3.2 times as long.
const MACHINE_FACTOR: f64 = 2.5;

/// A range of equally likely values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Range {
    /// From `low` to `high`.
    pub const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// Only this value.
    pub const fn exactly(value: f64) -> Self {
        Self::new(value, value)
    }

    /// The middle.
    pub fn middle(self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    fn at(self, share: f64) -> f64 {
        self.low + share * (self.high - self.low)
    }
}

/// How uncertain the inputs are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uncertainty {
    /// Factor of the time of each distance. A processor of the same family differs by this much.
    pub transfer: Range,
    /// Factor of the time of an iteration on one CPU.
    pub iteration: Range,
    /// Factor of the time inside locks, at the same time of the iteration. Instructions inside and
    /// outside of locks differ in speed.
    pub section: Range,
    /// Probability with which the nearest core gets a line next, rather than the one that has waited
    /// longest. `None` is 0.65 to 1 for processors with one L3 cache per socket. The published
    /// plateaus of atomic operations on two sockets require 0.95 on Cascade Lake (a loop of two
    /// transfers takes 95 ns, and 91 ns in one socket), 0.9 on Sapphire Rapids (59 ns, and 55 ns in
    /// one socket) and 0.7 on Skylake (59 to 63 ns, and 47 ns between cores), because a transfer
    /// between sockets takes 80 ns longer. For processors with several L3 caches per socket, no
    /// such figure is known: 0 to 1.
    pub near_first: Option<Range>,
    /// Transfers that it takes to pass a queued lock on, by kernel/locking/qspinlock.c. The store
    /// that releases the word waits for the copy of the waiter that polls it, and this waiter then
    /// loads the word: 2. One CPU joins the queue in each section, and changes the word. If it does
    /// so during the section, the holder has to take the word back for its next access, and if it
    /// does so during the release, the release waits: up to 2 more.
    pub handover: Range,
    /// How much slower a thread is if the other thread of its core is busy too, if the machine has
    /// no figure.
    pub smt_slowdown: Range,
    /// Speed with all cores of a socket busy, relative to one, if the machine has no figure.
    /// Sapphire Rapids has 0.74; processors with a fixed clock have 1.
    pub clock: Range,
}

impl Default for Uncertainty {
    fn default() -> Self {
        Self {
            transfer: Range::new(0.8, 1.2),
            iteration: Range::new(0.95, 1.05),
            section: Range::new(0.7, 1.3),
            near_first: None,
            handover: Range::new(2.0, 4.0),
            smt_slowdown: Range::new(1.3, 2.0),
            clock: Range::new(0.74, 1.0),
        }
    }
}

/// A figure that a prediction needs is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the machine {machine} has no transfer_ns.socket; add it to its file")]
pub struct MissingFigure {
    /// Name of the machine.
    pub machine: String,
}

/// The inputs of one simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// Time of an iteration on one CPU of the idle machine.
    pub iteration_ns: f64,
    /// Time of a transfer by [`Distance`], from close to far.
    pub transfer_ns: [f64; 4],
    /// Number of busy cores of a socket, and the speed of each.
    pub clock: Vec<(u32, f64)>,
    /// How much slower a thread is if the other thread of its core is busy too.
    pub smt_slowdown: f64,
    /// Probability with which the nearest CPU gets a line next.
    pub near_first: f64,
    /// Transfers that pass a lock on.
    pub handover: f64,
    /// Factor of the time inside locks.
    pub section: f64,
}

impl Inputs {
    /// The middle of all ranges.
    ///
    /// # Errors
    /// The machine has no figure for transfers within a socket.
    pub fn middle(
        machine: &Machine,
        iteration_ns: f64,
        uncertainty: &Uncertainty,
    ) -> Result<Self, MissingFigure> {
        Self::from(machine, iteration_ns, uncertainty, &mut Range::middle)
    }

    /// Draws from all ranges. Equal seeds have equal draws for each workload, so that the errors of
    /// two workloads on one machine cancel in their ratio.
    ///
    /// # Errors
    /// The machine has no figure for transfers within a socket.
    pub fn draw(
        machine: &Machine,
        iteration_ns: f64,
        uncertainty: &Uncertainty,
        seed: u64,
    ) -> Result<Self, MissingFigure> {
        let mut random = Rand64::new(seed.into());
        Self::from(machine, iteration_ns, uncertainty, &mut |range| range.at(random.rand_float()))
    }

    fn from(
        machine: &Machine,
        iteration_ns: f64,
        uncertainty: &Uncertainty,
        choose: &mut dyn FnMut(Range) -> f64,
    ) -> Result<Self, MissingFigure> {
        let figures = transfers(machine)?;
        // Every range has its draw on every machine, so that a missing figure does not change the
        // others.
        let transfer_ns = figures.map(|nanoseconds| nanoseconds * choose(uncertainty.transfer));
        let iteration_ns = iteration_ns * choose(uncertainty.iteration);
        let section = choose(uncertainty.section);
        let near_first = choose(uncertainty.near_first.unwrap_or_else(|| arbitration(machine)));
        let handover = choose(uncertainty.handover);
        let smt_slowdown = choose(match &machine.smt_slowdown {
            Some(figure) => {
                Range::new(figure.low.unwrap_or(figure.value), figure.high.unwrap_or(figure.value))
            }
            None => uncertainty.smt_slowdown,
        });
        let of_all_cores = choose(uncertainty.clock);
        let clock = match &machine.clock {
            Some(clock) => clock.points.clone(),
            None => vec![(1, 1.0), (machine.cores_per_socket().max(2), of_all_cores)],
        };
        Ok(Self { iteration_ns, transfer_ns, clock, smt_slowdown, near_first, handover, section })
    }

    /// Speed of a core with so many busy cores in its socket: interpolated between the known
    /// numbers.
    pub fn speed(&self, busy: u32) -> f64 {
        let after = self.clock.partition_point(|(count, _)| *count < busy);
        match (after.checked_sub(1).map(|before| self.clock[before]), self.clock.get(after)) {
            (Some((low, at_low)), Some(&(high, at_high))) => {
                let share = f64::from(busy - low) / f64::from(high - low);
                at_low + share * (at_high - at_low)
            }
            (None, Some(&(_, speed))) | (Some((_, speed)), None) => speed,
            (None, None) => 1.0,
        }
    }
}

fn arbitration(machine: &Machine) -> Range {
    match machine.l3s_per_socket {
        1 => Range::new(0.65, 1.0),
        _ => Range::new(0.0, 1.0),
    }
}

/// The time of a transfer by distance.
fn transfers(machine: &Machine) -> Result<[f64; 4], MissingFigure> {
    let figure = |distance| machine.transfer_ns.at(distance).map(|figure| figure.value);
    let needs_socket = machine.distances().any(|distance| distance == Distance::Socket);
    let socket = match figure(Distance::Socket) {
        None if needs_socket || figure(Distance::Machine).is_none() && machine.sockets > 1 => {
            return Err(MissingFigure { machine: machine.name.clone() });
        }
        figure => figure.unwrap_or(L3_NS),
    };
    Ok([
        figure(Distance::Core).unwrap_or(CORE_NS),
        figure(Distance::L3).unwrap_or(L3_NS.min(socket)),
        socket,
        figure(Distance::Machine).unwrap_or(MACHINE_FACTOR * socket),
    ])
}

/// What is assumed because the machine has no figure, each as a sentence.
pub fn assumptions(machine: &Machine, uncertainty: &Uncertainty) -> Vec<String> {
    let mut assumptions = Vec::new();
    for distance in machine.distances() {
        if machine.transfer_ns.at(distance).is_some() {
            continue;
        }
        let assumed = match distance {
            Distance::Core => format!("{CORE_NS} ns"),
            Distance::L3 => format!("{L3_NS} ns"),
            Distance::Machine => format!("{MACHINE_FACTOR} times transfer_ns.socket"),
            Distance::Socket => continue,
        };
        let key = distance.key();
        assumptions.push(format!("transfer_ns.{key} is missing; knee assumes {assumed}."));
    }
    let range = |Range { low, high }: Range| format!("{low} to {high}");
    if machine.threads_per_core > 1 && machine.smt_slowdown.is_none() {
        let assumed = range(uncertainty.smt_slowdown);
        assumptions.push(format!("smt_slowdown is missing; knee assumes {assumed}."));
    }
    if machine.clock.is_none() && machine.cores_per_socket() > 1 {
        let assumed = range(uncertainty.clock);
        assumptions.push(format!(
            "clock is missing; knee assumes a speed of {assumed} with all cores busy."
        ));
    }
    assumptions
}
