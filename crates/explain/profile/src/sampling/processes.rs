//! The processes that run already when sampling begins.

use std::fs;

use knee_host::process::numbers;

use super::cpu_time::parents;
use super::proc::threads;
use super::running::own;
use super::target::Target;
use crate::records::{Family, Records};

/// Reads the program names and mappings of the running processes of a target.
pub(super) fn read(records: &mut Records, target: &Target, running: &[i32]) {
    match target {
        Target::System => {
            for pid in numbers("/proc").unwrap_or_default() {
                read_process(records, pid);
            }
        }
        _ => running.iter().for_each(|&pid| read_process(records, pid)),
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

/// The processes to sample; `None` for all. `running` are those that run already.
pub(super) fn family(target: &Target, running: &[i32]) -> Option<Family> {
    match target {
        Target::Process(_) => {
            let &[pid, ..] = running else { return Some(Family::default()) };
            let children = parents().into_iter().filter(|(_, parent)| *parent == pid);
            Some(Family::of(pid, children.map(|(child, _)| child)))
        }
        Target::Trees(_) => Some(Family::of_all(running, own())),
        Target::Exec(pid) => Some(Family::of_program(*pid)),
        Target::System => None,
    }
}

fn read_name(records: &mut Records, pid: i32, thread: i32) {
    if let Ok(name) = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")) {
        records.name(thread, name.trim_end_matches('\n'));
    }
}
