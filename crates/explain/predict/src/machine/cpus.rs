//! The CPUs of a machine, as a topology has them, and how close they are.

use knee_host::topology::Cpu;

use super::fields::{Distance, Machine};

impl Machine {
    /// All CPUs, depth first: socket, L3 cache, core, hardware thread. A socket is a memory node.
    /// The numbers are those that Linux gives them on x86, where the first threads of all cores
    /// come first.
    pub fn all_cpus(&self) -> Vec<Cpu> {
        let cores = self.sockets * self.cores_per_socket();
        let cpu = |core: u32, thread: u32| {
            let package = core / self.cores_per_socket();
            Cpu {
                id: thread * cores + core,
                package,
                node: package,
                l3: core / self.cores_per_l3,
                core,
                thread,
                os_package: Some(package),
                os_node: Some(package),
            }
        };
        (0..cores)
            .flat_map(|core| (0..self.threads_per_core).map(move |thread| cpu(core, thread)))
            .collect()
    }
}

impl Distance {
    /// The distance between two different CPUs. `several_l3s` is whether their socket has several
    /// L3 caches.
    pub fn between(a: &Cpu, b: &Cpu, several_l3s: bool) -> Self {
        match () {
            () if a.core == b.core => Self::Core,
            () if a.package != b.package => Self::Machine,
            () if a.l3 == b.l3 && several_l3s => Self::L3,
            () => Self::Socket,
        }
    }
}
