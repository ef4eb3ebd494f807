//! The CPUs of the machine at hand, as a [`Machine`].

use knee_host::Topology;
use knee_host::topology::Cpu;

use super::figures::SOURCE;
use super::plan::Plan;
use crate::machine::{Distance, Machine, SCHEMA, Transfers};

/// The machine without figures. If its parts have different sizes, each level has the largest.
pub(super) fn of(plan: &Plan<'_>) -> Machine {
    let cpus = plan.topology.cpus();
    let sockets = most(cpus, |_| 0, |cpu| cpu.package);
    let l3s_per_socket = most(cpus, |cpu| cpu.package, |cpu| cpu.l3);
    let cores_per_l3 = most(cpus, |cpu| cpu.l3, |cpu| cpu.core);
    let threads_per_core = most(cpus, |cpu| cpu.core, |cpu| cpu.thread);
    Machine {
        schema: SCHEMA,
        name: plan.name.clone(),
        title: plan.title.clone(),
        sockets,
        l3s_per_socket,
        cores_per_l3,
        threads_per_core,
        transfer_ns: Transfers::default(),
        contended_ns: None,
        clock: None,
        smt_slowdown: None,
        interrupt_ns: None,
        pause_ns: None,
        wake_ns: None,
        sources: [(SOURCE.to_owned(), plan.source.clone())].into(),
        matrix: None,
    }
}

/// The most parts of a whole.
fn most(cpus: &[Cpu], whole: fn(&Cpu) -> u32, part: fn(&Cpu) -> u32) -> u32 {
    let mut pairs: Vec<(u32, u32)> = cpus.iter().map(|cpu| (whole(cpu), part(cpu))).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.chunk_by(|(a, _), (b, _)| a == b).map(<[_]>::len).max().unwrap_or(1) as u32
}

/// The distance between two different CPUs of the topology.
pub(super) fn distance(topology: &Topology, (a, b): (u32, u32)) -> Option<Distance> {
    let find = |id: u32| topology.cpus().iter().find(|cpu| cpu.id == id);
    let (a, b) = (find(a)?, find(b)?);
    Some(Distance::between(a, b, has_other_l3(topology, a)))
}

/// Whether the socket of a CPU has several L3 caches.
fn has_other_l3(topology: &Topology, cpu: &Cpu) -> bool {
    topology.cpus().iter().any(|other| other.package == cpu.package && other.l3 != cpu.l3)
}

/// The transfers that a larger machine has, but not this one.
pub(super) fn missing(machine: &Machine) -> Vec<String> {
    let reason = |distance: Distance| match distance {
        Distance::Core => "transfers within a core: each core has only one usable hardware thread",
        Distance::L3 => {
            "transfers within an L3 cache: no L3 cache that is one of several in its socket has \
             two usable cores"
        }
        Distance::Socket => "transfers within a socket: each socket has only one usable core",
        Distance::Machine => "transfers between sockets: there is only one socket",
    };
    let is_missing = |distance: &Distance| machine.transfer_ns.at(*distance).is_none();
    Distance::ALL
        .into_iter()
        .filter(is_missing)
        .map(|distance| reason(distance).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A topology of two threads per core, two cores per L3 cache, two L3 caches per socket and two
    /// sockets.
    fn topology() -> Topology {
        let sysfs = tempfile::tempdir().unwrap();
        let write = |path: String, text: String| {
            let path = sysfs.path().join("devices/system/cpu").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for cpu in 0..16 {
            let first = |of: u32| cpu / of * of;
            write(format!("cpu{cpu}/topology/physical_package_id"), (cpu / 8).to_string());
            write(
                format!("cpu{cpu}/topology/core_cpus_list"),
                format!("{0}-{1}", first(2), first(2) + 1),
            );
            write(format!("cpu{cpu}/cache/index3/level"), "3".to_owned());
            write(format!("cpu{cpu}/cache/index3/type"), "Unified".to_owned());
            let shared = format!("{}-{}", first(4), first(4) + 3);
            write(format!("cpu{cpu}/cache/index3/shared_cpu_list"), shared);
        }
        Topology::read_from(sysfs.path(), &(0..16).collect::<Vec<_>>()).unwrap()
    }

    fn machine(topology: &Topology) -> Machine {
        let [name, title, source] = ["name", "title", "source"].map(str::to_owned);
        of(&Plan { topology, seconds: 1.0, name, title, source })
    }

    #[test]
    fn the_shape_of_a_machine_is_that_of_its_topology() {
        let topology = topology();
        let whole = machine(&topology);
        let shape = |machine: &Machine| {
            let Machine { sockets, l3s_per_socket, cores_per_l3, threads_per_core, .. } = machine;
            [*sockets, *l3s_per_socket, *cores_per_l3, *threads_per_core]
        };
        assert_eq!((shape(&whole), whole.cpus()), ([2, 2, 2, 2], 16));
        let part = topology.restrict(&"0,2,3,8".parse().unwrap()).unwrap();
        assert_eq!(shape(&machine(&part)), [2, 1, 2, 2]);
    }

    #[test]
    fn a_distance_is_the_smallest_part_that_contains_both_cpus() {
        let topology = topology();
        let to = |b| distance(&topology, (0, b));
        assert_eq!(to(1), Some(Distance::Core));
        assert_eq!(to(2), Some(Distance::L3));
        assert_eq!(to(4), Some(Distance::Socket));
        assert_eq!(to(8), Some(Distance::Machine));
        assert_eq!(to(99), None);
        let one_l3 = topology.restrict(&"0-3".parse().unwrap()).unwrap();
        assert_eq!(distance(&one_l3, (0, 2)), Some(Distance::Socket));
    }

    #[test]
    fn what_a_small_machine_lacks_is_named() {
        let missing = missing(&machine(&topology()));
        assert_eq!(missing.len(), 4);
        assert!(missing[0].starts_with("transfers within a core: "), "{missing:?}");
    }
}
