//! The position of a CPU in the machine, from sysfs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::cpulist::CpuList;
use super::read_line;

/// The groups that a CPU belongs to. L3 and core are named by their lowest CPU, since their
/// own ids are absent on old kernels and, for cores, repeat per package.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) cpu: u32,
    pub(super) package: Option<u32>,
    pub(super) node: Option<u32>,
    pub(super) l3: Option<u32>,
    pub(super) core: u32,
}

impl Place {
    /// Reads the position of `cpu` below `cpu_dir`, a tree like /sys/devices/system/cpu.
    pub(super) fn read(cpu_dir: &Path, cpu: u32, node: Option<u32>) -> Place {
        let dir = cpu_dir.join(format!("cpu{cpu}"));
        let topology = dir.join("topology");
        // Kernels before 5.5 know the cores' CPUs only by the second name.
        let core = ["core_cpus_list", "thread_siblings_list"]
            .iter()
            .find_map(|name| lowest_cpu(&topology.join(name)));
        Place {
            cpu,
            // Firmware that describes no packages leaves -1 here.
            package: read_line(topology.join("physical_package_id")).and_then(|id| id.parse().ok()),
            node,
            l3: l3_of(&dir.join("cache")),
            core: core.unwrap_or(cpu),
        }
    }
}

fn l3_of(cache_dir: &Path) -> Option<u32> {
    fs::read_dir(cache_dir)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|cache| {
            let is = |file, value| read_line(cache.join(file)).as_deref() == Some(value);
            is("level", "3") && !is("type", "Instruction")
        })
        .and_then(|cache| lowest_cpu(&cache.join("shared_cpu_list")))
}

fn lowest_cpu(list: &Path) -> Option<u32> {
    read_line(list)?.parse::<CpuList>().ok()?.first()
}

/// The NUMA node of each CPU that has one, from a tree like /sys/devices/system/node.
pub(super) fn nodes_by_cpu(node_dir: &Path) -> BTreeMap<u32, u32> {
    let mut nodes = BTreeMap::new();
    for entry in fs::read_dir(node_dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok());
        let cpus = read_line(entry.path().join("cpulist")).and_then(|list| list.parse().ok());
        if let (Some(node), Some(cpus)) = (number, cpus) {
            let cpus: CpuList = cpus;
            nodes.extend(cpus.iter().map(|cpu| (cpu, node)));
        }
    }
    nodes
}
