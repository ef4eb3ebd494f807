//! Parameters: text that QEMU's option `-device loader` stores in memory.
//!
//! For example: `cpus=2 memory=256 run=churn`.

use core::{slice, str};

use knee_vm::{Frame, PAGE};

use crate::arch::{self, MOST_CPUS};

/// The number of frames between the start of memory and the parameters.
const AT: u64 = 15 << 8;
/// The names of all parameters.
const NAMES: &str = "cpus memory run cost check mode rounds seed tick shootdown mutant";
/// The smallest memory in MiB.
const LEAST_MEMORY: u64 = 72;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameters {
    /// The number of CPUs, as passed to QEMU's `-smp`.
    pub(crate) cpus: usize,
    /// The size of memory, in frames. The parameter `memory=` gives this size in MiB, like QEMU's `-m`.
    pub(crate) frames: u64,
    /// The programs and storms to run, separated by commas. If the list is empty, the kernel runs all
    /// programs and storms.
    pub(crate) run: &'static str,
    /// The experiments of `knee commute cost`, separated by commas: `mmap:4` is the operation mmap on 4 CPUs.
    /// If the list is not empty, the kernel runs these experiments instead of the programs and storms.
    pub(crate) cost: &'static str,
    /// The number of frames that the kernel shares with `knee commute check`, or 0. If the number is not 0,
    /// the kernel runs the tests in this memory instead of the programs and storms.
    pub(crate) check: u64,
    /// Whether each task of an experiment has its own space: `mode=processes`.
    pub(crate) processes: bool,
    /// The seed of pseudorandom numbers.
    pub(crate) seed: u64,
    /// The number of rounds of a storm on each CPU, or of an experiment.
    pub(crate) rounds: u64,
    /// The time between two timer interrupts, in milliseconds.
    pub(crate) tick: u64,
    /// Whether shootdowns interrupt CPUs even if the architecture can flush their TLBs in another way:
    /// `shootdown=ipi`.
    pub(crate) interrupts: bool,
    /// The planted mutant.
    pub(crate) mutant: &'static str,
}

pub(crate) fn parameters() -> Parameters {
    // SAFETY: the frame is part of memory, and nothing writes to it.
    let bytes = unsafe { slice::from_raw_parts(arch::direct(Frame(arch::MEMORY + AT)), PAGE) };
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(0);
    let text = str::from_utf8(&bytes[..end]).expect("the parameters are text");
    for word in text.split_whitespace() {
        let name = word.split_once('=').map(|(name, _)| name);
        let is_known = name.is_some_and(|name| NAMES.split(' ').any(|known| known == name));
        assert!(is_known, "{word} is not a parameter; write NAME=VALUE with one of: {NAMES}");
    }
    let find = |key: &str| {
        let values = text.split_whitespace().filter_map(|word| word.split_once('='));
        values.filter(|(name, _)| *name == key).map(|(_, value)| value).next_back()
    };
    let number = |key: &str, default: u64| {
        find(key).map_or(default, |value| {
            value.parse().unwrap_or_else(|_| panic!("{key}={value} is not a number"))
        })
    };
    let (cpus, memory, rounds) = (number("cpus", 1), number("memory", 256), number("rounds", 1000));
    assert!(
        (1..=MOST_CPUS as u64).contains(&cpus),
        "cpus={cpus} is invalid; the kernel has 1 to {MOST_CPUS} CPUs"
    );
    assert!(
        memory >= LEAST_MEMORY,
        "memory={memory} is too small; the kernel needs {LEAST_MEMORY} MiB"
    );
    assert!(rounds > 0, "rounds=0 would test nothing");
    Parameters {
        cpus: cpus as usize,
        frames: memory << 8,
        run: find("run").unwrap_or(""),
        cost: find("cost").unwrap_or(""),
        check: number("check", 0),
        processes: match find("mode") {
            None | Some("threads") => false,
            Some("processes") => true,
            Some(other) => panic!("mode={other} is invalid; the values are threads and processes"),
        },
        seed: number("seed", 1),
        rounds,
        tick: number("tick", 10),
        interrupts: match find("shootdown") {
            None => false,
            Some("ipi") => true,
            Some(other) => panic!("shootdown={other} is invalid; the only value is ipi"),
        },
        mutant: find("mutant").unwrap_or(""),
    }
}
