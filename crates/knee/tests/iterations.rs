//! The operations that `knee predict` traces, and the loops that `knee run` measures, make the same system calls.
//! The test needs strace; without it, the test prints the reason and passes.

#![cfg(feature = "prove")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use support::{Scratch, finish, skip};

/// Testcases that enter the kernel by system calls.
const TESTCASES: &[&str] = &[
    "brk1",
    "brk2",
    "malloc1",
    "mmap2",
    "page_fault4",
    "tlb_flush1",
    "tlb_flush2",
    "mmap_disjoint1",
    "read1",
    "write1",
    "pread3",
    "pwrite3",
    "readseek3",
    "writeseek1",
    "lseek2",
    "fallocate1",
    "open1",
    "unlink2",
    "fstatat2",
    "fstatat3",
    "poll3",
    "select1",
    "sched_yield",
    "signal1",
];
/// Times that an operation is repeated. The system calls of so many iterations occur nowhere else in a run.
const ROUNDS: usize = 20;
/// Seconds of measured intervals, of which each is tried if the one before was too short.
const INTERVALS: [&str; 3] = ["0.05", "0.5", "5"];

/// The name of a system call and its numbers, without descriptors, pointers and IDs.
fn call(line: &str) -> Option<String> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, _) = rest.split_once(')')?;
    let number = |text: &str| {
        let text = text.trim();
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let is_number = |&(nr, value): &(usize, u64)| {
        let is_id = nr == 0 || name == "tgkill" && nr == 1 || name == "mmap" && nr == 4;
        !is_id && value >> 32 == 0
    };
    let numbers = arguments.split(',').filter_map(number).enumerate().filter(is_number);
    let numbers: Vec<String> = numbers.map(|(nr, value)| format!("{nr}={value:#x}")).collect();
    Some(format!("{name} {}", numbers.join(" ")))
}

/// The system calls of each thread that a command starts.
fn traced(scratch: &Scratch, arguments: &[&str]) -> Vec<Vec<String>> {
    let output = scratch.path().join("calls");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "raw=all", "-e", "signal=none", "-o"]).arg(&output);
    let knee = scratch.knee(arguments);
    strace.arg(knee.get_program()).args(knee.get_args()).current_dir(scratch.path());
    for (name, value) in knee.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    // A run that other work disturbs has another status.
    finish(&mut strace);
    let mut threads: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in fs::read_to_string(&output).unwrap().lines() {
        let (thread, rest) = line.split_once(' ').unwrap();
        // A call during which other threads make calls has its arguments in the first of two lines.
        let rest = rest.replace(" <unfinished ...>", ")");
        threads.entry(thread.to_owned()).or_default().extend(call(rest.trim_start()));
    }
    fs::remove_file(output).unwrap();
    threads.into_values().collect()
}

/// The system calls of the operation, between the two calls of getpriority.
fn of_operation(scratch: &Scratch, testcase: &str) -> Vec<String> {
    let rounds = ROUNDS.to_string();
    let arguments = [knee_agent::SUBCOMMAND, knee_agent::REPEAT, testcase, &rounds];
    let calls = traced(scratch, &arguments).concat();
    let is_mark = |call: &String| call.starts_with("getpriority ");
    let begin = calls.iter().position(is_mark).unwrap_or_else(|| panic!("{testcase}: {calls:?}"));
    let end = calls.iter().rposition(is_mark).unwrap();
    calls[begin + 1..end].to_vec()
}

/// The system calls of each thread of a run whose intervals have so many seconds.
fn of_run(testcase: &str, interval: &str) -> Vec<Vec<String>> {
    let scratch = Scratch::new();
    let run = ["run", "-q", "--patience", "1", "-r", "1", "-s", "1", "--interval", interval];
    let options = ["--warmup", "0.02", "-o", "record", "-m", "processes", "-t", "1", testcase];
    traced(&scratch, &[&run[..], &options[..]].concat())
}

#[test]
fn an_operation_makes_the_system_calls_of_its_testcase() {
    let trace = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !trace.is_ok_and(|output| output.status.success()) {
        return skip("strace", "it is not installed, or may not trace");
    }
    for testcase in TESTCASES {
        let scratch = Scratch::new();
        let expected = of_operation(&scratch, testcase);
        assert!(expected.len() >= ROUNDS, "{testcase}: {expected:?}");
        let loops =
            |calls: &Vec<String>| calls.windows(expected.len()).any(|window| window == expected);
        // On a busy machine, few iterations fit into a short interval.
        let mut threads = INTERVALS.into_iter().map(|interval| of_run(testcase, interval));
        let mut longest = Vec::new();
        let is_found = threads.any(|threads| {
            longest = threads.iter().max_by_key(|calls| calls.len()).cloned().unwrap_or_default();
            threads.iter().any(loops)
        });
        let last = &longest[longest.len().saturating_sub(2 * expected.len())..];
        assert!(is_found, "{testcase}: {expected:#?} is not in {last:#?}");
    }
}
