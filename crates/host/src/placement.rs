//! The order in which tasks take the CPUs, and the task counts to measure.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

use super::topology::{Cpu, Topology};

/// The order in which tasks are placed on CPUs: task n runs on the nth CPU of the order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, Display, EnumString, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[strum(parse_err_ty = UnknownPlacement, parse_err_fn = unknown)]
pub enum Placement {
    /// One task on each core first, depth first by package and L3, then the second SMT siblings.
    /// will-it-scale uses this order.
    #[default]
    Cores,
    /// All siblings of a core before the next core. Shows the benefit and the cost of SMT.
    Smt,
    /// All of an L3 domain (its cores, then their siblings) before the next one. Keeps sharing
    /// cheap.
    Compact,
    /// Round robin over packages and, within them, over L3 domains; siblings last. Makes sharing
    /// expensive and gives each task the most cache and memory bandwidth.
    Scatter,
    /// No pinning: the scheduler decides.
    None,
}

/// A text that is not the name of a placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no placement is named `{0}`; choose cores, smt, compact, scatter or none")]
pub struct UnknownPlacement(pub String);

fn unknown(text: &str) -> UnknownPlacement {
    UnknownPlacement(text.to_owned())
}

impl Placement {
    /// All placements, the default first.
    pub const ALL: &[Placement] = Placement::VARIANTS;

    /// Whether tasks are bound to the CPUs of the order.
    pub fn pins(self) -> bool {
        self != Placement::None
    }

    /// The CPUs (the operating system's numbers) in the order in which tasks take them: a
    /// permutation of the topology's CPUs. With [`Placement::None`] it only says how many
    /// there are, in the order of [`Placement::Cores`].
    pub fn order(self, topology: &Topology) -> Vec<u32> {
        self.arranged(topology.cpus().to_vec()).iter().map(|cpu| cpu.id).collect()
    }

    /// These CPUs in the order in which tasks take them, as in [`Placement::order`]: for a machine
    /// that is not there.
    pub fn arranged(self, mut cpus: Vec<Cpu>) -> Vec<Cpu> {
        match self {
            Placement::Cores | Placement::None => cpus.sort_by_key(|cpu| (cpu.thread, cpu.core)),
            Placement::Smt => cpus.sort_by_key(|cpu| (cpu.core, cpu.thread)),
            Placement::Compact => {
                cpus.sort_by_key(|cpu| (cpu.package, cpu.l3, cpu.thread, cpu.core));
            }
            Placement::Scatter => {
                cpus = dealt(dealt(cpus, |cpu| (cpu.package, cpu.l3)), |cpu| cpu.package);
            }
        }
        cpus
    }
}

/// The first CPU of each group, then the second of each, and so on; SMT siblings after all first
/// threads. Shorter groups end earlier.
fn dealt<G: Ord + Copy>(cpus: Vec<Cpu>, group: fn(&Cpu) -> G) -> Vec<Cpu> {
    let mut counts: BTreeMap<(u32, G), usize> = BTreeMap::new();
    let mut dealt: BTreeMap<(u32, usize, G), Cpu> = BTreeMap::new();
    for cpu in cpus {
        let group = group(&cpu);
        let round = counts.entry((cpu.thread, group)).or_default();
        *round += 1;
        dealt.insert((cpu.thread, *round, group), cpu);
    }
    dealt.into_values().collect()
}

/// The task counts at which a curve of this machine can bend: 1, the powers of two, the cores
/// of the first L3, node and package, all cores, all CPUs. Ascending, without duplicates.
///
/// A cgroup's CPU `quota` ends the list at the first whole number that can use it up: more
/// tasks would measure the throttling.
pub fn auto_tasks(topology: &Topology, quota: Option<f64>) -> Vec<u32> {
    let limit = quota.map_or(u32::MAX, |quota| quota.ceil().max(1.0) as u32);
    let mut tasks = auto_tasks_on(topology.cpus());
    tasks.iter_mut().for_each(|tasks| *tasks = (*tasks).min(limit));
    tasks.dedup();
    tasks
}

/// The same for these CPUs, without a quota: for a machine that is not there.
pub fn auto_tasks_on(cpus: &[Cpu]) -> Vec<u32> {
    let cores_where = |inside: fn(&Cpu) -> bool| {
        let first_threads = cpus.iter().filter(|cpu| cpu.thread == 0);
        first_threads.filter(|cpu| inside(cpu)).count() as u32
    };
    let all = cpus.len() as u32;
    let powers = (0..u32::BITS).map(|bit| 1 << bit).take_while(|tasks| *tasks <= all);

    let mut tasks: Vec<u32> = powers
        .chain([
            cores_where(|cpu| cpu.l3 == 0),
            cores_where(|cpu| cpu.node == 0),
            cores_where(|cpu| cpu.package == 0),
            cores_where(|_| true),
            all,
        ])
        .collect();
    tasks.sort_unstable();
    tasks.dedup();
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Machine, Shape, TWO_PACKAGES};
    use proptest::prelude::*;

    fn order(placement: Placement) -> Vec<u32> {
        placement.order(&Machine::new(TWO_PACKAGES).topology())
    }

    #[test]
    fn cores_takes_every_core_before_any_sibling() {
        let expected: Vec<u32> = (0..16).collect();
        assert_eq!(order(Placement::Cores), expected);
    }

    #[test]
    fn smt_fills_a_core_before_the_next() {
        assert_eq!(order(Placement::Smt), [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]);
    }

    #[test]
    fn compact_fills_an_l3_before_the_next() {
        assert_eq!(
            order(Placement::Compact),
            [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15]
        );
    }

    #[test]
    fn scatter_goes_round_packages_then_l3s_and_takes_siblings_last() {
        assert_eq!(
            order(Placement::Scatter),
            [0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15]
        );
    }

    #[test]
    fn none_lists_the_cpus_as_cores_does_but_does_not_pin() {
        assert_eq!(order(Placement::None), order(Placement::Cores));
        assert!(!Placement::None.pins() && Placement::Cores.pins());
    }

    #[test]
    fn scatter_continues_with_the_larger_package_when_the_smaller_is_full() {
        let topology = Machine::new(TWO_PACKAGES).topology_of(&[0, 1, 2, 4]);
        assert_eq!(Placement::Scatter.order(&topology), [0, 4, 2, 1]);
    }

    #[test]
    fn names_read_back_and_unknown_ones_are_answered_with_the_choice() {
        for &placement in Placement::ALL {
            assert_eq!(placement.to_string().parse(), Ok(placement));
            let json = serde_json::to_string(&placement).unwrap();
            assert_eq!(json, format!("\"{placement}\""));
        }
        let error = "dense".parse::<Placement>().unwrap_err().to_string();
        assert!(error.starts_with("no placement is named `dense`; choose cores"));
    }

    #[test]
    fn auto_stops_at_every_boundary_of_the_machine() {
        let topology = Machine::new(TWO_PACKAGES).topology();
        assert_eq!(auto_tasks(&topology, None), [1, 2, 4, 8, 16]);
        let uneven = Shape { packages: 2, l3s: 2, cores: 6, threads: 2 };
        let topology = Machine::new(uneven).topology();
        assert_eq!(auto_tasks(&topology, None), [1, 2, 4, 6, 8, 12, 16, 24, 32, 48]);
    }

    #[test]
    fn a_cpu_quota_caps_auto_at_the_next_whole_cpu() {
        let topology = Machine::new(TWO_PACKAGES).topology();
        assert_eq!(auto_tasks(&topology, Some(2.5)), [1, 2, 3]);
        assert_eq!(auto_tasks(&topology, Some(0.2)), [1]);
        assert_eq!(auto_tasks(&topology, Some(64.0)), [1, 2, 4, 8, 16]);
    }

    proptest! {
        // Each case writes a sysfs tree.
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_placement_is_a_permutation_of_the_usable_cpus(
            packages in 1u32..3, l3s in 1u32..3, cores in 1u32..4, threads in 1u32..4,
            keep in prop::collection::vec(any::<bool>(), 36),
        ) {
            let machine = Machine::new(Shape { packages, l3s, cores, threads });
            let cpus = 0..packages * l3s * cores * threads;
            let allowed: Vec<u32> = cpus.filter(|cpu| *cpu == 0 || keep[*cpu as usize % 36]).collect();
            let topology = machine.topology_of(&allowed);
            for &placement in Placement::ALL {
                let mut order = placement.order(&topology);
                order.sort_unstable();
                prop_assert_eq!(&order, &allowed);
            }
            let tasks = auto_tasks(&topology, None);
            prop_assert_eq!(tasks.first(), Some(&1));
            prop_assert_eq!(tasks.last().copied(), Some(allowed.len() as u32));
        }
    }
}
