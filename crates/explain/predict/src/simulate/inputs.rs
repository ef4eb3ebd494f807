//! What a simulation needs of a machine and of one CPU, and how uncertain it is.

use oorandom::Rand64;

use super::workload::Workload;
use crate::machine::{Distance, Figure, Machine};

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
    /// Factor of the time of each distance. A processor of the same family differs by up to 18 %, and
    /// a contended transfer from that between two CPUs: Sapphire Rapids has 52 ns instead of 55 ns,
    /// Cascade Lake 46 ns instead of 47 ns, and Skylake 55 to 60 ns instead of 47 ns.
    pub transfer: Range,
    /// Factor of the time of an iteration on one CPU. The layout of a kernel's memory changes the rate
    /// of one task from boot to boot, and the traced kernel is seldom exactly the measured one.
    pub iteration: Range,
    /// Factor of the time of an iteration that another workload does not share, which the time was
    /// computed for.
    pub relative: Range,
    /// Factor of the time inside locks, at the same time of the iteration. The lower end is faster
    /// code than the mean, which also enters and leaves the kernel. The upper end is slower code:
    /// sections are short, and next to atomic instructions and to data that other CPUs have taken,
    /// which keep a processor from executing several instructions at the same time.
    pub section: Range,
    /// Probability with which the nearest core gets a line next, rather than the one that has waited
    /// longest. `None` is 0.65 to 1 for processors with one L3 cache per socket. The published
    /// plateaus of atomic operations on two sockets require 0.95 on Cascade Lake (a loop of two
    /// transfers takes 95 ns, and 91 ns in one socket), 0.9 on Sapphire Rapids (59 ns, and 55 ns in
    /// one socket) and 0.7 on Skylake (59 to 63 ns, and 47 ns between cores), because a transfer
    /// between sockets takes 80 ns longer. For processors with several L3 caches per socket, no
    /// such figure is known: 0 to 1.
    pub near_first: Option<Range>,
    /// Share of a transfer's time during which the CPU that had the line can still use it: the
    /// request travels to this CPU first, and then the line back. Half of the time, if both parts
    /// take as long; the line may wait in either part.
    pub kept: Range,
    /// Transfers of a load and a compare-and-swap that follows. On Cascade Lake, such a loop takes
    /// 91 ns with 47 ns per transfer: 2. Loads that copy the line at the same time save up to a
    /// half, and attempts that fail after they have lost the line cost as much.
    pub compare: Range,
    /// Factor of the instructions of a lock's slow path. They are counted in the source, without
    /// knowing which way a processor takes, and how many of them it executes at the same time.
    pub slow_path: Range,
    /// Time in ns of a pause between two loads of a waiting CPU, if the machine has no figure: from
    /// arm64, which waits for an event instead, to Skylake.
    pub pause_ns: Range,
    /// Time in ns to interrupt one CPU and wait for its answer, if the machine has no figure.
    pub interrupt_ns: Range,
    /// The same for each further CPU. With [`handler_ns`](Self::handler_ns), it is calibrated on
    /// Skylake, where N threads that flush each other's TLBs take 1.45 µs longer for each further
    /// thread (N. Amit, "x86/mm/tlb: avoid reading mm_tlb_gen when possible", aa44284960d5). An
    /// iteration of that testcase, tlb_flush1, makes two shootdowns: two more CPUs to interrupt, and
    /// two more interrupts to handle. How the sum is divided is unknown.
    pub interrupt_each_ns: Range,
    /// Time in ns that an interrupt takes from the interrupted CPU.
    pub handler_ns: Range,
    /// How much slower a thread is if the other thread of its core is busy too, if the machine has
    /// no figure.
    pub smt_slowdown: Range,
    /// Factor of the time of instructions with all cores of a socket busy, besides that of the
    /// clock: misses of the L2 cache take longer, and the clock is that of a small loop. Intel
    /// guarantees 2.0 GHz for heavy work on all cores of the Gold 5418Y, which runs the loop at 2.8
    /// GHz; work in a kernel is between. Below that number of cores, it is proportional.
    pub crowding: Range,
    /// Speed with all cores of a socket busy, relative to one, if the machine has no figure.
    /// Sapphire Rapids has 0.74; processors with a fixed clock have 1.
    pub clock: Range,
}

impl Default for Uncertainty {
    fn default() -> Self {
        Self {
            transfer: Range::new(0.75, 1.25),
            iteration: Range::new(0.9, 1.1),
            relative: Range::new(1.0, 1.0),
            section: Range::new(0.8, 1.6),
            near_first: None,
            kept: Range::new(0.3, 0.9),
            compare: Range::new(1.5, 2.5),
            slow_path: Range::new(0.5, 1.5),
            pause_ns: Range::new(0.0, 56.0),
            interrupt_ns: Range::new(1_000.0, 3_000.0),
            interrupt_each_ns: Range::new(150.0, 450.0),
            handler_ns: Range::new(275.0, 575.0),
            smt_slowdown: Range::new(1.3, 2.0),
            crowding: Range::new(1.0, 1.2),
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
    /// Factor of the time of instructions with all cores of a socket busy.
    pub crowding: f64,
    /// Probability with which the nearest CPU gets a line next.
    pub near_first: f64,
    /// Factor of the time inside locks.
    pub section: f64,
    /// Share of a transfer's time during which the previous CPU keeps the line.
    pub kept: f64,
    /// Transfers of a load and a compare-and-swap.
    pub compare: f64,
    /// Factor of the instructions of a lock's slow path.
    pub slow_path: f64,
    /// Time in ns of a pause of a waiting CPU.
    pub pause_ns: f64,
    /// Time in ns to interrupt a CPU and wait for its answer.
    pub interrupt_ns: f64,
    /// The same for each further CPU.
    pub interrupt_each_ns: f64,
    /// Time in ns that an interrupt takes from the interrupted CPU.
    pub handler_ns: f64,
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
        let smt_slowdown = choose(known(machine.smt_slowdown.as_ref(), uncertainty.smt_slowdown));
        let of_all_cores = choose(uncertainty.clock);
        let clock = match &machine.clock {
            Some(clock) => clock.points.clone(),
            None => vec![(1, 1.0), (machine.cores_per_socket().max(2), of_all_cores)],
        };
        let interrupts = machine.interrupt_ns.as_ref();
        let first = interrupts.map(|found| &found.first);
        let each = interrupts.and_then(|found| found.each.as_ref());
        let mut inputs = Self {
            iteration_ns,
            transfer_ns,
            clock,
            smt_slowdown,
            near_first,
            section,
            crowding: choose(uncertainty.crowding),
            kept: choose(uncertainty.kept),
            compare: choose(uncertainty.compare),
            slow_path: choose(uncertainty.slow_path),
            pause_ns: choose(known(machine.pause_ns.as_ref(), uncertainty.pause_ns)),
            interrupt_ns: choose(known(first, uncertainty.interrupt_ns)),
            interrupt_each_ns: choose(known(each, uncertainty.interrupt_each_ns)),
            handler_ns: choose(uncertainty.handler_ns),
        };
        inputs.iteration_ns *= choose(uncertainty.relative);
        Ok(inputs)
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

/// The range of a machine's figure, or otherwise this one.
fn known(figure: Option<&Figure>, otherwise: Range) -> Range {
    figure.map_or(otherwise, |Figure { value, low, high, .. }| {
        Range::new(low.unwrap_or(*value), high.unwrap_or(*value))
    })
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

/// What is assumed because the machine has no figure that the workloads need, each as a sentence.
pub fn assumptions<'w>(
    machine: &Machine,
    uncertainty: &Uncertainty,
    workloads: impl Iterator<Item = &'w Workload> + Clone,
) -> Vec<String> {
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
    if machine.pause_ns.is_none() && workloads.clone().any(|workload| !workload.locks.is_empty()) {
        let assumed = range(uncertainty.pause_ns);
        assumptions.push(format!("pause_ns is missing; knee assumes {assumed} ns."));
    }
    if machine.interrupt_ns.is_none() && workloads.clone().any(Workload::has_shootdowns) {
        let Range { low, high } = uncertainty.interrupt_ns;
        assumptions.push(format!(
            "interrupt_ns is missing; knee assumes {} to {} µs for one CPU, as on x86.",
            low / 1e3,
            high / 1e3
        ));
    }
    assumptions
}
