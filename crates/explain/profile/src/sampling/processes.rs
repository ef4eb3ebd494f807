//! The processes that run already when sampling begins.

use std::fs;

use knee_host::process::numbers;

use super::cpu_time::parents;
use super::proc::threads;
use super::target::Target;
use crate::records::{Family, Records};

/// Reads the program names and mappings of the running processes.
pub(super) fn read(records: &mut Records, target: &Target, threads: &[i32]) {
    match target.pid() {
        Some(pid) => {
            records.spaces.read(pid);
            for &thread in threads {
                read_name(records, pid, thread);
            }
        }
        None => {
            for pid in numbers("/proc").unwrap_or_default() {
                read_process(records, pid);
            }
        }
    }
}

/// Adds processes that were started while records were lost.
pub(super) fn adopt(records: &mut Records) {
    for pid in records.adopt(parents()) {
        read_process(records, pid);
    }
}

fn read_process(records: &mut Records, pid: i32) {
    records.spaces.read(pid);
    for thread in threads(pid).unwrap_or_default() {
        read_name(records, pid, thread);
    }
}

/// The processes to sample; `None` for all.
pub(super) fn family(target: &Target) -> Option<Family> {
    match target {
        Target::Process(pid) => {
            let pid = first_thread(*pid);
            let children = parents().into_iter().filter(|(_, parent)| *parent == pid);
            Some(Family::of(pid, children.map(|(child, _)| child)))
        }
        Target::Exec(pid) => Some(Family::of_program(*pid)),
        Target::System => None,
    }
}

/// The PID of a process, given the TID of any of its threads.
fn first_thread(thread: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    number.unwrap_or(thread)
}

fn read_name(records: &mut Records, pid: i32, thread: i32) {
    if let Ok(name) = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")) {
        records.name(thread, name.trim_end_matches('\n'));
    }
}
