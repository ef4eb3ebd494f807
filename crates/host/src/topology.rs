//! Which CPUs share a core, an L3, a NUMA node, a package.
//!
//! Read from sysfs (Documentation/admin-guide/cputopology.rst and
//! Documentation/ABI/testing/sysfs-devices-system-cpu in the kernel tree) for the CPUs that
//! this process may use. Logical numbers are dense and depth first: package 0 has the lowest
//! nodes, those the lowest L3 domains, those the lowest cores. They say how a machine is
//! built, while the operating system's own numbers have holes and repeat per package; those
//! are kept beside them for looking things up.
//!
//! Missing files have defaults. A CPU without siblings is its own core, one without a package id
//! belongs to the first package, one without an L3 shares a domain with the rest of its NUMA node,
//! and one without a node is on node 0.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fmt, io};

use indexmap::IndexSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cgroup::ControlGroups;
use super::cpulist::CpuList;
use super::number::plural;
use super::sysfs::{Place, nodes_by_cpu};
use super::{affinity, read_line};

/// One CPU (a hardware thread) and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// The operating system's number, as in affinity masks and `taskset`.
    pub id: u32,
    /// Logical package (socket), 0 the first.
    pub package: u32,
    /// Logical NUMA node.
    pub node: u32,
    /// Logical L3 domain; without a reported L3 the CPUs of one package and node count as one.
    pub l3: u32,
    /// Logical core, dense over the whole machine.
    pub core: u32,
    /// Rank among the usable SMT siblings of the core; 0 is the first.
    pub thread: u32,
    /// The operating system's package id, if it has one.
    pub os_package: Option<u32>,
    /// The operating system's NUMA node number, as in `numactl`, if it has one.
    pub os_node: Option<u32>,
}

/// The usable CPUs of a machine and how they are connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    cpus: Vec<Cpu>,
    excluded: BTreeMap<u32, Exclusion>,
    l3_reported: bool,
}

/// The counts among the usable CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyCounts {
    /// Packages (sockets).
    pub packages: u32,
    /// NUMA nodes.
    pub nodes: u32,
    /// L3 domains; `None` if the machine reports no L3.
    pub l3s: Option<u32>,
    /// Cores.
    pub cores: u32,
    /// CPUs (hardware threads).
    pub cpus: u32,
}

impl fmt::Display for TopologyCounts {
    /// `8 CPUs (4 cores, 1 L3, 1 package)`, with NUMA nodes if there are several.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: u32, noun| plural(count as usize, noun);
        write!(out, "{} ({}", plural(self.cpus, "CPU"), plural(self.cores, "core"))?;
        if let Some(l3s) = self.l3s {
            write!(out, ", {}", plural(l3s, "L3"))?;
        }
        if self.nodes > 1 {
            write!(out, ", {}", plural(self.nodes, "NUMA node"))?;
        }
        write!(out, ", {})", plural(self.packages, "package"))
    }
}

/// Why this process cannot use a CPU of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[derive(Serialize, Deserialize, JsonSchema, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Exclusion {
    /// Offline.
    #[strum(to_string = "offline")]
    Offline,
    /// Outside the affinity mask that the process was started with.
    #[strum(to_string = "outside the affinity mask that knee was started with")]
    Affinity,
    /// Outside the cpuset of the process's cgroup.
    #[strum(to_string = "outside the cpuset of knee's cgroup")]
    Cgroup,
    /// Isolated with `isolcpus=`, and therefore not in the default affinity.
    #[strum(to_string = "isolated by the kernel command line")]
    Isolated,
    /// Not a CPU of this machine.
    #[strum(to_string = "not in this machine")]
    Absent,
}

impl Exclusion {
    /// What would make `cpus` usable, as the last clause of a sentence.
    pub fn remedy(self, cpus: &CpuList) -> String {
        match self {
            Exclusion::Offline => match cpus.first() {
                Some(cpu) if cpus.len() == 1 => format!(
                    "bring it online with `echo 1 | sudo tee \
                     /sys/devices/system/cpu/cpu{cpu}/online`"
                ),
                _ => format!("bring them online with `sudo chcpu --enable {cpus}`"),
            },
            Exclusion::Affinity | Exclusion::Isolated => {
                format!("start knee with `taskset -c {cpus}` or a larger list of CPUs")
            }
            Exclusion::Cgroup => "extend the cpuset.cpus of the cgroup or container (docker \
                --cpuset-cpus, systemd AllowedCPUs=)"
                .to_owned(),
            Exclusion::Absent => format!("remove {cpus} from the list"),
        }
    }
}

/// Why the topology is not available.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The affinity mask cannot be read.
    #[error(
        "cannot determine which CPUs this process may use: sched_getaffinity failed; check \
         whether a sandbox blocks this system call"
    )]
    Affinity(#[source] io::Error),
    /// The list of CPUs is empty.
    #[error("the list of CPUs is empty; name at least one of {usable}")]
    Empty {
        /// The usable CPUs; empty if the process has none.
        usable: CpuList,
    },
    /// The user requested CPUs that this process may not use.
    #[error("this process may not use {}; it may use {usable}", refusals(.refused))]
    Unusable {
        /// The CPUs by reason.
        refused: BTreeMap<Exclusion, CpuList>,
        /// The CPUs that it may use.
        usable: CpuList,
    },
}

fn refusals(refused: &BTreeMap<Exclusion, CpuList>) -> String {
    let clause = |(why, cpus): (&Exclusion, &CpuList)| {
        let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
        format!("{noun} {cpus} ({why}: {})", why.remedy(cpus))
    };
    refused.iter().map(clause).collect::<Vec<_>>().join(", ")
}

impl Topology {
    /// The CPUs that this process may use: its affinity mask, which cpuset cgroups have
    /// already narrowed, without those that are offline.
    ///
    /// # Errors
    /// [`TopologyError::Affinity`] if the mask cannot be read.
    pub fn read() -> Result<Topology, TopologyError> {
        let allowed = affinity::usable_cpus().map_err(TopologyError::Affinity)?;
        let mut topology = Topology::read_from(Path::new("/sys"), &allowed)?;
        if let Some(cpuset) = ControlGroups::of_this_process().cpuset() {
            for (cpu, why) in &mut topology.excluded {
                if *why != Exclusion::Offline && !cpuset.contains(*cpu) {
                    *why = Exclusion::Cgroup;
                }
            }
        }
        Ok(topology)
    }

    /// The topology of the `allowed` CPUs that `sysfs`, a tree like `/sys`, has online.
    ///
    /// # Errors
    /// [`TopologyError::Empty`] if none of them is.
    pub fn read_from(sysfs: &Path, allowed: &[u32]) -> Result<Topology, TopologyError> {
        let cpu_dir = sysfs.join("devices/system/cpu");
        let list = |name: &str| read_line(cpu_dir.join(name))?.parse::<CpuList>().ok();
        let allowed: CpuList = allowed.iter().copied().collect();
        let present = list("present").unwrap_or_else(|| allowed.clone());
        let online = list("online").unwrap_or_else(|| allowed.clone());
        let isolated = list("isolated").unwrap_or_default();
        let nodes = nodes_by_cpu(&sysfs.join("devices/system/node"));

        let mut places: Vec<Place> = allowed
            .iter()
            .filter(|cpu| online.contains(*cpu))
            .map(|cpu| Place::read(&cpu_dir, cpu, nodes.get(&cpu).copied()))
            .collect();
        if places.is_empty() {
            return Err(TopologyError::Empty { usable: allowed });
        }
        places.sort_by_key(|place| (place.package, place.node, place.l3, place.core, place.cpu));

        let excluded = present
            .iter()
            .filter(|cpu| !(online.contains(*cpu) && allowed.contains(*cpu)))
            .map(|cpu| {
                let why = match cpu {
                    _ if !online.contains(cpu) => Exclusion::Offline,
                    _ if isolated.contains(cpu) => Exclusion::Isolated,
                    _ => Exclusion::Affinity,
                };
                (cpu, why)
            })
            .collect();
        Ok(Topology {
            l3_reported: places.iter().any(|place| place.l3.is_some()),
            cpus: number(&places),
            excluded,
        })
    }

    /// The usable CPUs, depth first: package, node, L3, core, SMT sibling.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The usable CPUs as a list.
    pub fn usable(&self) -> CpuList {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// The CPUs of the machine that this process may not use, with the reasons.
    pub fn excluded(&self) -> &BTreeMap<u32, Exclusion> {
        &self.excluded
    }

    /// The same CPUs, grouped by reason.
    pub fn excluded_by_reason(&self) -> BTreeMap<Exclusion, CpuList> {
        by_reason(self.excluded.iter().map(|(cpu, why)| (*cpu, *why)))
    }

    /// The number of usable packages, nodes, L3 domains, cores and CPUs.
    pub fn counts(&self) -> TopologyCounts {
        let count = |id: fn(&Cpu) -> u32| self.cpus.iter().map(id).max().map_or(0, |max| max + 1);
        TopologyCounts {
            packages: count(|cpu| cpu.package),
            nodes: count(|cpu| cpu.node),
            l3s: self.l3_reported.then(|| count(|cpu| cpu.l3)),
            cores: count(|cpu| cpu.core),
            cpus: self.cpus.len() as u32,
        }
    }

    /// The topology of only the CPUs in `cpus`, numbered afresh.
    ///
    /// # Errors
    /// [`TopologyError::Unusable`] names the CPUs that this process may not use, why, and what
    /// would change that; [`TopologyError::Empty`] if `cpus` is empty.
    pub fn restrict(&self, cpus: &CpuList) -> Result<Topology, TopologyError> {
        let usable = self.usable();
        if cpus.is_empty() {
            return Err(TopologyError::Empty { usable });
        }
        let why = |cpu| self.excluded.get(&cpu).copied().unwrap_or(Exclusion::Absent);
        let refused =
            by_reason(cpus.iter().filter(|cpu| !usable.contains(*cpu)).map(|cpu| (cpu, why(cpu))));
        if !refused.is_empty() {
            return Err(TopologyError::Unusable { refused, usable });
        }
        let chosen = self.cpus.iter().filter(|cpu| cpus.contains(cpu.id));
        Ok(Topology { cpus: number(&chosen.map(Place::from).collect::<Vec<_>>()), ..self.clone() })
    }
}

impl From<&Cpu> for Place {
    fn from(cpu: &Cpu) -> Place {
        Place {
            cpu: cpu.id,
            package: cpu.os_package,
            node: cpu.os_node,
            l3: Some(cpu.l3),
            core: cpu.core,
        }
    }
}

/// Gives the groups dense numbers in order of occurrence, which is depth first if `places` is.
fn number(places: &[Place]) -> Vec<Cpu> {
    let mut packages = IndexSet::new();
    let mut nodes = IndexSet::new();
    let mut l3s = IndexSet::new();
    let mut cores = IndexSet::new();
    let mut siblings: BTreeMap<u32, u32> = BTreeMap::new();
    let mut cpus = Vec::with_capacity(places.len());
    for place in places {
        let core = cores.insert_full(place.core).0 as u32;
        let thread = siblings.entry(core).or_default();
        cpus.push(Cpu {
            id: place.cpu,
            package: packages.insert_full(place.package).0 as u32,
            node: nodes.insert_full(place.node).0 as u32,
            // Some hypervisors report one L3 across packages; a domain must not.
            l3: l3s.insert_full((place.package, place.l3.ok_or(place.node))).0 as u32,
            core,
            thread: *thread,
            os_package: place.package,
            os_node: place.node,
        });
        *thread += 1;
    }
    cpus
}

fn by_reason(cpus: impl Iterator<Item = (u32, Exclusion)>) -> BTreeMap<Exclusion, CpuList> {
    let mut reasons: BTreeMap<Exclusion, BTreeSet<u32>> = BTreeMap::new();
    for (cpu, why) in cpus {
        reasons.entry(why).or_default().insert(cpu);
    }
    reasons.into_iter().map(|(why, cpus)| (why, cpus.into_iter().collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Machine, TWO_PACKAGES};

    /// `(package, node, l3, core, thread)` of every CPU, by its number.
    fn places(topology: &Topology) -> BTreeMap<u32, (u32, u32, u32, u32, u32)> {
        topology
            .cpus()
            .iter()
            .map(|cpu| (cpu.id, (cpu.package, cpu.node, cpu.l3, cpu.core, cpu.thread)))
            .collect()
    }

    fn counts(topology: &Topology) -> (u32, u32, Option<u32>, u32, u32) {
        let counts = topology.counts();
        (counts.packages, counts.nodes, counts.l3s, counts.cores, counts.cpus)
    }

    #[test]
    fn two_packages_with_interleaved_siblings_are_numbered_depth_first() {
        let topology = Machine::new(TWO_PACKAGES).topology();
        assert_eq!(counts(&topology), (2, 2, Some(4), 8, 16));
        let ids: Vec<u32> = topology.cpus().iter().map(|cpu| cpu.id).collect();
        assert_eq!(ids, [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]);
        let places = places(&topology);
        assert_eq!(places[&0], (0, 0, 0, 0, 0));
        assert_eq!(places[&8], (0, 0, 0, 0, 1));
        assert_eq!(places[&3], (0, 0, 1, 3, 0));
        assert_eq!(places[&14], (1, 1, 3, 6, 1));
    }

    #[test]
    fn without_l3_and_package_ids_a_node_is_one_domain_of_one_package() {
        let topology = Machine::new(TWO_PACKAGES).without_l3().without_package_ids().topology();
        assert_eq!(counts(&topology), (1, 2, None, 8, 16));
        let domains: BTreeSet<u32> = topology.cpus().iter().map(|cpu| cpu.l3).collect();
        assert_eq!(domains.len(), 2);
        assert!(topology.cpus().iter().all(|cpu| cpu.os_package.is_none()));
    }

    #[test]
    fn without_a_node_directory_everything_is_on_node_0() {
        let topology = Machine::new(TWO_PACKAGES).without_nodes().topology();
        assert_eq!(counts(&topology), (2, 1, Some(4), 8, 16));
        assert!(topology.cpus().iter().all(|cpu| cpu.os_node.is_none()));
    }

    #[test]
    fn without_any_description_each_cpu_is_its_own_core() {
        let empty = tempfile::tempdir().unwrap();
        let topology = Topology::read_from(empty.path(), &[0, 2, 5]).unwrap();
        assert_eq!(counts(&topology), (1, 1, None, 3, 3));
    }

    #[test]
    fn an_offline_cpu_is_left_out_and_its_sibling_moves_up() {
        let machine = Machine::new(TWO_PACKAGES).with_offline(3);
        let topology = machine.topology();
        assert_eq!(counts(&topology), (2, 2, Some(4), 8, 15));
        assert_eq!(places(&topology)[&11], (0, 0, 1, 3, 0));
        assert_eq!(topology.excluded().get(&3), Some(&Exclusion::Offline));
    }

    #[test]
    fn cpus_outside_the_affinity_mask_are_left_out() {
        let topology = Machine::new(TWO_PACKAGES).topology_of(&[2, 10, 6]);
        assert_eq!(counts(&topology), (2, 2, Some(2), 2, 3));
        assert_eq!(places(&topology)[&6], (1, 1, 1, 1, 0));
        assert_eq!(topology.excluded().get(&0), Some(&Exclusion::Affinity));
    }

    #[test]
    fn restricting_numbers_afresh() {
        let topology = Machine::new(TWO_PACKAGES).topology();
        let restricted = topology.restrict(&"5,13,15".parse().unwrap()).unwrap();
        assert_eq!(counts(&restricted), (1, 1, Some(2), 2, 3));
        assert_eq!(places(&restricted)[&15], (0, 0, 1, 1, 0));
        assert_eq!(restricted.cpus()[0].os_package, Some(1));
    }

    #[test]
    fn the_error_for_forbidden_cpus_names_them_the_reasons_and_remedies() {
        let machine = Machine::new(TWO_PACKAGES).with_offline(3);
        let topology = machine.topology_of(&[0, 1, 2]);
        let error = topology.restrict(&"0,3,8-9,99".parse().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this process may not use \
             CPU 3 (offline: bring it online with `echo 1 | sudo tee \
             /sys/devices/system/cpu/cpu3/online`), \
             CPUs 8-9 (outside the affinity mask that knee was started with: \
             start knee with `taskset -c 8-9` or a larger list of CPUs), \
             CPU 99 (not in this machine: remove 99 from the list); it may use 0-2"
        );
        let empty = topology.restrict(&CpuList::default()).unwrap_err();
        assert!(empty.to_string().ends_with("name at least one of 0-2"));
    }

    #[test]
    fn this_machine_can_be_read() {
        let topology = Topology::read().unwrap();
        let counts = topology.counts();
        assert!(counts.packages >= 1 && counts.cores <= counts.cpus);
        assert_eq!(topology.restrict(&topology.usable()).unwrap(), topology);
    }
}
