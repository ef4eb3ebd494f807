//! Storms are stress tests: all CPUs use and change the same spaces, and the kernel checks the result of each
//! access by a program.

mod churn;
mod devices;
mod disk;
mod faults;
mod forks;
mod gigabyte;
mod large;
mod lazy;
mod limits;
mod memory;
mod objects;
mod pins;
mod protect;
mod replace;
mod spaces;
mod stacks;
mod swap;
mod usage;
mod wired;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use knee_vm::{Fault, Space as VmSpace, Swap};

use self::disk::Disk;
use crate::access;
use crate::console::println;
use crate::cpu;
use crate::machine::{Space, board};
use crate::programs;
use crate::random::Random;

/// A storm: its name, and the function that runs it.
struct Storm {
    name: &'static str,
    run: fn(&Options),
}

/// How to run a storm.
pub(crate) struct Options {
    pub(crate) seed: u64,
    /// The number of steps of each CPU.
    pub(crate) rounds: u64,
}

impl Options {
    /// Returns a CPU's generator of pseudorandom numbers.
    fn random(&self, cpu: usize) -> Random {
        Random::new(self.seed << 8 | cpu as u64)
    }
}

const STORMS: &[Storm] = &[
    Storm { name: "churn", run: churn::churn },
    Storm { name: "faults", run: faults::faults },
    Storm { name: "forks", run: forks::forks },
    Storm { name: "protect", run: protect::protect },
    Storm { name: "replace", run: replace::replace },
    Storm { name: "usage", run: usage::usage },
    Storm { name: "objects", run: objects::objects },
    Storm { name: "devices", run: devices::devices },
    Storm { name: "pins", run: pins::pins },
    Storm { name: "wired", run: wired::wired },
    Storm { name: "stacks", run: stacks::stacks },
    Storm { name: "limits", run: limits::limits },
    Storm { name: "large", run: large::large },
    Storm { name: "gigabyte", run: gigabyte::gigabyte },
    Storm { name: "swap", run: swap::swap },
    Storm { name: "lazy", run: lazy::lazy },
    Storm { name: "spaces", run: spaces::spaces },
    Storm { name: "memory", run: memory::memory },
];

/// Runs the storms in `names`, a comma-separated list, or all storms if the list is empty.
pub(crate) fn run(names: &str, options: &Options) {
    let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
    for name in &names {
        let is_known = STORMS.iter().any(|storm| storm.name == *name) || programs::exists(name);
        assert!(is_known, "there is no storm or program named {name}");
    }
    // Make the page of the code resident before the storms count free frames: the page then stays resident,
    // and must not count as a leak of the first storm.
    let space = new_space();
    assert_eq!(access::load(&space, 0), Err(Fault::Unmapped));
    cpu::drop_space(space);
    for storm in STORMS.iter().filter(|storm| names.is_empty() || names.contains(&storm.name)) {
        let (start, free) = (crate::arch::clock(), free_frames());
        (storm.run)(options);
        let left = free_frames();
        assert!(left == free, "{}: {} frames were not freed", storm.name, free - left);
        board().check_free_frames();
        let milliseconds = (crate::arch::clock() - start) / 1_000_000;
        println!(
            "storm {}: {} rounds on {} CPUs in {milliseconds} ms",
            storm.name,
            options.rounds,
            cpu::count()
        );
    }
}

/// Returns the number of free frames, after all CPUs have freed the frames of their pools.
fn free_frames() -> usize {
    crate::jobs::on_each_cpu(&|_| cpu::current().drain());
    board().free_frames()
}

/// Returns a new space, which maps the code of [`access`].
fn new_space() -> Box<Space> {
    let space = Box::new(VmSpace::new(cpu::current()).expect("there is memory"));
    access::map_code(&space);
    space
}

/// Like `new_space`, but the space has a swap area of `slots` slots. Returns the space and the swap area.
fn new_space_with_swap(slots: u64) -> (Box<Space>, Arc<Swap>) {
    let swap = Arc::new(Swap::new(slots, Disk::new(slots)).expect("there is memory"));
    let space = VmSpace::with_swap(cpu::current(), None, Arc::clone(&swap));
    let space = Box::new(space.expect("there is memory"));
    access::map_code(&space);
    (space, swap)
}
