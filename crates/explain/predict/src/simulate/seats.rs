//! On which CPUs tasks run, and what they replay there.

use std::collections::HashMap;

use knee_host::Placement;
use knee_host::topology::Cpu;

use super::inputs::Inputs;
use super::workload::{Scope, Workload};
use crate::machine::{Distance, Machine};

/// The fewest cores of a socket that crowd each other as [`Inputs::crowding`] says. A machine with
/// fewer is part of a socket, such as a virtual machine, or has more power for each.
const CORES_OF_A_SOCKET: u32 = 16;

/// The CPUs of the tasks.
#[derive(Debug)]
pub(super) struct Seats {
    seats: Vec<Seat>,
    several_l3s: bool,
    /// Number of sockets up to the last one with a task.
    sockets: usize,
    /// Number of groups.
    groups: usize,
    /// The smallest distance between two tasks, beyond which no nearer one need be looked for.
    pub(super) nearest: Distance,
    /// The largest distance between two tasks.
    pub(super) farthest: Distance,
}

/// The place of a task.
#[derive(Debug)]
pub(super) struct Seat {
    cpu: Cpu,
    /// Index of the traced CPU whose iterations the task replays.
    pub(super) recorded: usize,
    /// How many earlier tasks replay the same.
    pub(super) group: usize,
    /// Busy cores of its socket.
    busy_cores: u32,
    /// Busy hardware threads of its core.
    busy_threads: u32,
    /// The share of the other cores of its socket that are busy.
    crowd: f64,
}

impl Seats {
    /// The places of so many tasks, at most as many as the machine has CPUs.
    pub(super) fn new(
        machine: &Machine,
        placement: Placement,
        workload: &Workload,
        tasks: u32,
    ) -> Self {
        let mut cpus = placement.arranged(machine.all_cpus());
        cpus.truncate(tasks as usize);
        let traced = 1 + workload.recorded.iter().map(|recorded| recorded.node).max().unwrap_or(0);
        // With fewer sockets than traced nodes, several nodes are in one socket.
        let nodes = traced.min(machine.sockets as usize);
        let mut threads_of_core: HashMap<u32, u32> = HashMap::new();
        let mut cores_of_socket: HashMap<u32, u32> = HashMap::new();
        for cpu in &cpus {
            let threads = threads_of_core.entry(cpu.core).or_default();
            *threads += 1;
            if *threads == 1 {
                *cores_of_socket.entry(cpu.package).or_default() += 1;
            }
        }
        let other_cores = f64::from(machine.cores_per_socket().max(CORES_OF_A_SOCKET) - 1);
        let mut tasks_of_node: HashMap<usize, usize> = HashMap::new();
        let seat = |cpu: &Cpu| {
            let node = cpu.node as usize % nodes;
            let mut of_node: Vec<usize> = workload
                .recorded
                .iter()
                .enumerate()
                .filter(|(_, recorded)| recorded.node % nodes == node)
                .map(|(index, _)| index)
                .collect();
            if of_node.is_empty() {
                of_node.extend(0..workload.recorded.len());
            }
            let nr = tasks_of_node.entry(node).or_default();
            let (recorded, group) = (of_node[*nr % of_node.len()], *nr / of_node.len());
            *nr += 1;
            Seat {
                cpu: *cpu,
                recorded,
                group,
                busy_cores: cores_of_socket[&cpu.package],
                busy_threads: threads_of_core[&cpu.core],
                crowd: f64::from(cores_of_socket[&cpu.package] - 1) / other_cores,
            }
        };
        let seats: Vec<Seat> = cpus.iter().map(seat).collect();
        let count =
            |instance: fn(&Seat) -> usize| seats.iter().map(|seat| instance(seat) + 1).max();
        let mut seats = Self {
            sockets: count(|seat| seat.instance(Scope::Node)).unwrap_or(0),
            groups: count(|seat| seat.group).unwrap_or(0),
            seats,
            several_l3s: machine.l3s_per_socket > 1,
            nearest: Distance::Machine,
            farthest: Distance::Core,
        };
        let distances = || (1..seats.seats.len()).map(|b| seats.distance(0, b));
        let nearest = match seats.seats.iter().any(|seat| seat.busy_threads > 1) {
            true => Some(Distance::Core),
            false => distances().min(),
        };
        let farthest = distances().max();
        seats.nearest = nearest.unwrap_or(Distance::Core);
        seats.farthest = farthest.unwrap_or(Distance::Core);
        seats
    }

    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter()
    }

    pub(super) fn distance(&self, a: usize, b: usize) -> Distance {
        Distance::between(&self.seats[a].cpu, &self.seats[b].cpu, self.several_l3s)
    }

    /// The distance within the smallest part of the machine that contains several cores.
    pub(super) fn smallest_part(&self) -> Distance {
        if self.several_l3s { Distance::L3 } else { Distance::Socket }
    }

    /// How many lines or locks of this scope there are.
    pub(super) fn instances(&self, scope: Scope) -> usize {
        match scope {
            Scope::Global | Scope::Task => 1,
            Scope::Node => self.sockets,
            Scope::Group => self.groups,
        }
    }
}

impl Seat {
    /// Which of the lines or locks of this scope the task uses. Nothing of [`Scope::Task`] is
    /// simulated.
    pub(super) fn instance(&self, scope: Scope) -> usize {
        match scope {
            Scope::Global | Scope::Task => 0,
            Scope::Node => self.cpu.package as usize,
            Scope::Group => self.group,
        }
    }

    /// How many times as long the task's instructions take as alone on the machine.
    pub(super) fn slowdown(&self, inputs: &Inputs) -> f64 {
        let others = f64::from(self.busy_threads - 1);
        let crowding = 1.0 + self.crowd * (inputs.crowding - 1.0);
        (1.0 + others * (inputs.smt_slowdown - 1.0)) * crowding / inputs.speed(self.busy_cores)
    }
}
