//! The CPUs of a server and of the load on it.

use knee_host::Topology;

/// The CPUs of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The CPUs of the server.
    pub server: Vec<u32>,
    /// The CPUs of the load; empty if it comes from another host.
    pub load: Vec<u32>,
    /// Whether the load has too few CPUs of its own, so that the point says nothing about scaling.
    pub shared: bool,
}

impl Places {
    /// The places of a server with `tasks` CPUs whose load comes from another host. `cpus` is as for [`Places::new`].
    pub fn without_load(cpus: &[u32], tasks: u32) -> Self {
        let count = (tasks as usize).min(cpus.len());
        Self { server: cpus[..count].to_vec(), load: Vec::new(), shared: false }
    }

    /// The CPUs for commands beside the server.
    pub(super) fn beside(&self) -> &[u32] {
        if self.load.is_empty() { &self.server } else { &self.load }
    }

    /// The places of a server with `tasks` CPUs, where `cpus` are all CPUs of the run in the order of the
    /// placement. The server gets the first ones. The load gets the others, without SMT siblings of
    /// the server's CPUs, because load there would slow the server down.
    pub fn new(cpus: &[u32], tasks: u32, topology: &Topology) -> Self {
        let count = (tasks as usize).min(cpus.len());
        let (server, rest) = cpus.split_at(count);
        let core = |id: u32| topology.cpus().iter().find(|cpu| cpu.id == id).map(|cpu| cpu.core);
        let is_sibling =
            |id: u32| core(id).is_some() && server.iter().any(|&cpu| core(cpu) == core(id));
        let own: Vec<u32> = rest.iter().copied().filter(|&id| !is_sibling(id)).collect();
        let shared = own.is_empty() || 2 * count > cpus.len();
        let load = match (own.is_empty(), rest.is_empty()) {
            (false, _) => own,
            (true, false) => rest.to_vec(),
            (true, true) => cpus.to_vec(),
        };
        Self { server: server.to_vec(), load, shared }
    }
}

/// The task counts of `auto` at which a server shares no core with its load; at least 1.
pub fn unshared(auto: Vec<u32>, cpus: &[u32], topology: &Topology) -> Vec<u32> {
    let is_shared = |tasks: u32| Places::new(cpus, tasks, topology).shared;
    let mut unshared: Vec<u32> = auto.into_iter().filter(|&tasks| !is_shared(tasks)).collect();
    if unshared.is_empty() {
        unshared.push(1);
    }
    unshared
}

#[cfg(test)]
mod tests {
    use knee_host::topology::Cpu;

    use super::*;

    /// Four cores with two threads each: CPU n and n + 4 are siblings.
    fn topology() -> Topology {
        let cpu = |id: u32| Cpu {
            id,
            package: 0,
            node: 0,
            l3: 0,
            core: id % 4,
            thread: id / 4,
            os_package: None,
            os_node: None,
        };
        let cpus: Vec<Cpu> = (0..8).map(cpu).collect();
        let json = serde_json::json!({ "cpus": cpus, "excluded": {}, "l3_reported": true });
        serde_json::from_value(json).unwrap()
    }

    fn places(cpus: &[u32], tasks: u32) -> (Vec<u32>, Vec<u32>, bool) {
        let Places { server, load, shared } = Places::new(cpus, tasks, &topology());
        (server, load, shared)
    }

    #[test]
    fn the_load_has_no_sibling_of_a_cpu_of_the_server() {
        let cores: Vec<u32> = (0..8).collect();
        assert_eq!(places(&cores, 1), (vec![0], vec![1, 2, 3, 5, 6, 7], false));
        assert_eq!(places(&cores, 3), (vec![0, 1, 2], vec![3, 7], false));
        let smt = [0, 4, 1, 5, 2, 6, 3, 7];
        assert_eq!(places(&smt, 2), (vec![0, 4], vec![1, 5, 2, 6, 3, 7], false));
        assert_eq!(places(&smt, 3), (vec![0, 4, 1], vec![2, 6, 3, 7], false));
    }

    #[test]
    fn a_server_on_more_than_half_of_the_cpus_shares_them() {
        let cores: Vec<u32> = (0..8).collect();
        assert_eq!(places(&cores, 4), (vec![0, 1, 2, 3], vec![4, 5, 6, 7], true));
        assert_eq!(places(&[0, 1], 1), (vec![0], vec![1], false));
        assert_eq!(places(&[0, 1], 2), (vec![0, 1], vec![0, 1], true));
        assert_eq!(places(&[0, 1, 2], 2), (vec![0, 1], vec![2], true));
        assert_eq!(places(&[0], 3), (vec![0], vec![0], true));
    }

    #[test]
    fn a_server_whose_load_comes_from_another_host_can_have_all_cpus() {
        let places = Places::without_load(&[0, 2, 1], 2);
        assert_eq!(
            (places.server.as_slice(), places.load.len(), places.shared),
            (&[0, 2][..], 0, false)
        );
        assert_eq!(places.beside(), [0, 2]);
        assert_eq!(Places::without_load(&[0, 1], 5).server, [0, 1]);
    }

    #[test]
    fn auto_measures_no_shared_point_if_there_is_another() {
        let cores: Vec<u32> = (0..8).collect();
        assert_eq!(unshared(vec![1, 2, 4, 8], &cores, &topology()), [1, 2]);
        assert_eq!(unshared(vec![1, 2], &[0, 1], &topology()), [1]);
        assert_eq!(unshared(vec![1], &[0], &topology()), [1]);
    }
}
