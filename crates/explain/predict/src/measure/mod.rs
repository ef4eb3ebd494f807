//! Measuring the machine at hand.
//!
//! | figure | how |
//! | --- | --- |
//! | transfer | two threads pass a cache line to and fro by compare-and-swap |
//! | contended addition | threads on 1, 2, 4 … CPUs add to one cache line |
//! | clock | the reference loop of knee runs on 1, 2, 4 … cores |
//! | pause | a thread executes 10,000 of them in a row (x86 only) |
//! | hardware threads | the reference loop runs on both threads of a core |
//! | interrupts | membarrier(2) interrupts the CPUs of 1, 2, 4 … other threads |
//! | wake-up | two threads, on different cores if there are several, wake each other by turns |
//!
//! Each figure is the median of many short measurements, so that an interrupt or another program
//! affects few of them. The range contains the middle 80 % of them, or of the pairs of CPUs.

mod adding;
mod exchange;
mod figures;
mod interrupts;
mod pausing;
mod plan;
mod shape;
mod speed;
mod together;
mod waking;

use std::collections::BTreeMap;
use std::io;

use knee_host::{Placement, Topology};
use knee_stats::median;

pub use self::plan::Plan;

use self::figures::{SOURCE, figure, powers_of_two, tenths};
use crate::machine::{Clock, Contended, Distance, Machine, Matrix};

/// Measurements of the speed of each number of busy cores, by turns.
const CLOCK_ROUNDS: usize = 3;

/// A machine, and what could not be measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The machine.
    pub machine: Machine,
    /// Each figure that is missing, and why, as a clause.
    pub missing: Vec<String>,
}

/// How far the measurement is.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Finished steps.
    pub done: u64,
    /// All steps.
    pub of: u64,
    /// What is measured next.
    pub about: &'static str,
}

/// Measures the machine. Calls `show` before each step.
///
/// # Errors
/// A thread cannot be started, or cannot be bound to a CPU.
pub fn measure(plan: &Plan<'_>, show: &mut dyn FnMut(Step)) -> io::Result<Measured> {
    let order = Placement::Cores.order(plan.topology);
    let counts = powers_of_two(order.len());
    let cores = first_threads(plan.topology);
    let core_counts = powers_of_two(cores.len());
    let pairs = pairs(&order);
    let of = (pairs.len() + counts.len() + CLOCK_ROUNDS * core_counts.len() + 4) as u64;
    let mut done = 0;
    let mut step = |about| {
        show(Step { done, of, about });
        done += 1;
    };

    let mut machine = shape::of(plan);
    let mut missing = Vec::new();

    let each = (plan.seconds / pairs.len().max(1) as f64).clamp(exchange::LEAST, exchange::MOST);
    let mut medians: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    // The times of the first pair, and the medians of all pairs.
    let mut found: BTreeMap<Distance, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for &(a, b) in &pairs {
        step("transfers of a cache line");
        let times = exchange::times(a, b, each)?;
        let (Some(middle), Some(distance)) =
            (median(&times), shape::distance(plan.topology, (a, b)))
        else {
            continue;
        };
        medians.insert((a, b), middle);
        found.entry(distance).or_insert_with(|| (times, Vec::new())).1.push(middle);
    }
    for (distance, (of_first, of_pairs)) in found {
        let values = if of_pairs.len() == 1 { of_first } else { of_pairs };
        *machine.transfer_ns.at_mut(distance) = figure(values);
    }
    missing.extend(shape::missing(&machine));
    if !pairs.is_empty() {
        let time = |a: u32, b: u32| medians.get(&(a.min(b), a.max(b))).copied();
        let mut cpus = order.clone();
        cpus.sort_unstable();
        let row = |&a: &u32| cpus.iter().map(|&b| time(a, b).map_or(0.0, tenths)).collect();
        machine.matrix = Some(Matrix { ns: cpus.iter().map(row).collect(), cpus });
    }

    let mut points = Vec::new();
    for &count in &counts {
        step("atomic additions to one cache line");
        points
            .extend(median(&adding::times(&order[..count])?).map(|ns| (count as u32, tenths(ns))));
    }
    machine.contended_ns = Some(Contended { points, source: SOURCE.to_owned() });

    let mut shares = vec![Vec::new(); core_counts.len()];
    for _ in 0..CLOCK_ROUNDS {
        let mut alone = None;
        for (nr, &count) in core_counts.iter().enumerate() {
            step("speed of busy cores");
            let Some(speed) = speed::of(&cores[..count])? else { continue };
            shares[nr].push(speed / *alone.get_or_insert(speed));
        }
    }
    let points = core_counts.iter().zip(&shares);
    let points: Vec<(u32, f64)> = points
        .filter_map(|(&count, shares)| Some((count as u32, (median(shares)? * 1e3).round() / 1e3)))
        .collect();
    machine.clock = (!points.is_empty()).then(|| Clock { points, source: SOURCE.to_owned() });
    if core_counts.len() == 1 {
        missing.push("the clock by busy cores: the CPUs are on a single core".to_owned());
    }
    step("hardware threads of a core");
    machine.smt_slowdown = match siblings(plan.topology) {
        Some((a, b)) => figure(speed::slowdowns(a, b)?),
        None => None,
    };

    step("pause of a waiting loop");
    if let Some(&first) = order.first() {
        machine.pause_ns = figure(pausing::times(first)?);
    }
    if machine.pause_ns.is_none() {
        missing.push("the pause of a waiting loop: knee measures it only on x86".to_owned());
    }

    step("interrupts");
    match order[..] {
        [] | [_] => missing.push("interrupts and wake-ups: there is only one CPU".to_owned()),
        [first, ref others @ ..] => {
            machine.interrupt_ns = interrupts::cost(first, others)?;
            if machine.interrupt_ns.is_none() {
                let reason =
                    "this kernel does not permit membarrier(2), or other work kept CPUs busy";
                missing.push(format!("interrupts: {reason}"));
            } else if others.len() == 1 {
                missing.push(
                    "the time for each further interrupted CPU: there are two CPUs".to_owned(),
                );
            }
            step("wake-ups");
            machine.wake_ns = figure(waking::times(first, others[0])?);
        }
    }
    Ok(Measured { machine, missing })
}

/// All pairs, each with the lower CPU first.
fn pairs(cpus: &[u32]) -> Vec<(u32, u32)> {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    let others = |nr: usize| cpus[nr + 1..].iter().map(move |&b| (nr, b));
    (0..cpus.len()).flat_map(others).map(|(nr, b)| (cpus[nr], b)).collect()
}

/// A CPU of each core of the first socket.
fn first_threads(topology: &Topology) -> Vec<u32> {
    let of_socket = topology.cpus().iter().filter(|cpu| cpu.package == 0 && cpu.thread == 0);
    of_socket.map(|cpu| cpu.id).collect()
}

/// Two hardware threads of a core.
fn siblings(topology: &Topology) -> Option<(u32, u32)> {
    let second = topology.cpus().iter().find(|cpu| cpu.thread == 1)?;
    let first = topology.cpus().iter().find(|cpu| cpu.core == second.core && cpu.thread == 0)?;
    Some((first.id, second.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_cpus_occurs_once() {
        assert_eq!(pairs(&[7, 1, 3]), [(1, 3), (1, 7), (3, 7)]);
        assert!(pairs(&[7]).is_empty());
    }
}
