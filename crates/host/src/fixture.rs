//! Machines that are not there: sysfs trees in a temporary directory.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{CpuList, Topology};

/// The regular part of a machine: each level has this many of the next.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) packages: u32,
    pub(super) l3s: u32,
    pub(super) cores: u32,
    pub(super) threads: u32,
}

/// 16 CPUs; CPU n and n + 8 are siblings, as Linux numbers them on x86.
pub(super) const TWO_PACKAGES: Shape = Shape { packages: 2, l3s: 2, cores: 2, threads: 2 };

/// A sysfs tree. One NUMA node per package.
pub(super) struct Machine {
    sysfs: TempDir,
    cpus: u32,
}

impl Machine {
    pub(super) fn new(shape: Shape) -> Machine {
        let sysfs = tempfile::tempdir().unwrap();
        let all_cores = shape.packages * shape.l3s * shape.cores;
        let cpus = all_cores * shape.threads;
        // First threads of all cores come first, then the second ones.
        let cpus_of_cores = |first: u32, count: u32| -> String {
            let threads = (0..shape.threads).map(|thread| thread * all_cores);
            let list: CpuList =
                threads.flat_map(|base| (base + first)..(base + first + count)).collect();
            format!("{list}\n")
        };
        let machine = Machine { sysfs, cpus };
        for cpu in 0..cpus {
            let core = cpu % all_cores;
            let l3 = core / shape.cores;
            let package = l3 / shape.l3s;
            let dir = format!("cpu/cpu{cpu}");
            machine.write(&format!("{dir}/topology/physical_package_id"), &format!("{package}\n"));
            machine.write(&format!("{dir}/topology/core_cpus_list"), &cpus_of_cores(core, 1));
            for (index, level, kind, shared) in [
                (0, 1, "Data", cpus_of_cores(core, 1)),
                (1, 1, "Instruction", cpus_of_cores(core, 1)),
                (2, 2, "Unified", cpus_of_cores(core, 1)),
                (3, 3, "Unified", cpus_of_cores(l3 * shape.cores, shape.cores)),
            ] {
                let cache = format!("{dir}/cache/index{index}");
                machine.write(&format!("{cache}/level"), &format!("{level}\n"));
                machine.write(&format!("{cache}/type"), &format!("{kind}\n"));
                machine.write(&format!("{cache}/shared_cpu_list"), &shared);
            }
            let cores_per_package = shape.l3s * shape.cores;
            let node = cpus_of_cores(package * cores_per_package, cores_per_package);
            machine.write(&format!("node/node{package}/cpulist"), &node);
        }
        machine.write("cpu/present", &format!("0-{}\n", cpus - 1));
        machine.write("cpu/online", &format!("0-{}\n", cpus - 1));
        machine
    }

    pub(super) fn without_l3(self) -> Machine {
        for cpu in 0..self.cpus {
            self.remove(&format!("cpu/cpu{cpu}/cache/index3"));
        }
        self
    }

    pub(super) fn without_package_ids(self) -> Machine {
        for cpu in 0..self.cpus {
            self.write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), "-1\n");
        }
        self
    }

    pub(super) fn without_nodes(self) -> Machine {
        self.remove("node");
        self
    }

    /// The kernel takes the topology directory of an offline CPU away.
    pub(super) fn with_offline(self, offline: u32) -> Machine {
        let online: CpuList = (0..self.cpus).filter(|cpu| *cpu != offline).collect();
        self.write("cpu/online", &format!("{online}\n"));
        self.remove(&format!("cpu/cpu{offline}/topology"));
        self
    }

    pub(super) fn topology(&self) -> Topology {
        self.topology_of(&(0..self.cpus).collect::<Vec<_>>())
    }

    pub(super) fn topology_of(&self, allowed: &[u32]) -> Topology {
        Topology::read_from(self.sysfs.path(), allowed).unwrap()
    }

    fn system(&self) -> std::path::PathBuf {
        self.sysfs.path().join("devices/system")
    }

    fn write(&self, path: &str, text: &str) {
        write(&self.system().join(path), text);
    }

    fn remove(&self, path: &str) {
        fs::remove_dir_all(self.system().join(path)).unwrap();
    }
}

/// Writes a file and the directories above it.
pub(super) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
