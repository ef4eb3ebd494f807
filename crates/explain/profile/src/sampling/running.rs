//! The processes to sample that run already when sampling begins.

use std::collections::HashSet;
use std::fs;

use indexmap::IndexSet;
use knee_host::process::family;

use super::access::SampleError;
use super::proc::threads;
use super::target::Target;

/// The processes of a target that run already.
///
/// The target may start processes between a listing and the opening of events. [`Running::update`] is therefore
/// called again after the events are open.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// Their PIDs, in the order in which they were found.
    pub(super) processes: IndexSet<i32>,
    threads: HashSet<i32>,
}

impl Running {
    /// Lists the target again. Returns the threads that were not known yet. A target of all processes has none,
    /// because it needs no list.
    pub(super) fn update(&mut self, target: &Target) -> Result<Vec<i32>, SampleError> {
        let mut new = Vec::new();
        for (process, threads) in list(target)? {
            self.processes.insert(process);
            new.extend(threads.into_iter().filter(|&thread| self.threads.insert(thread)));
        }
        Ok(new)
    }
}

/// The processes of a target with their threads.
fn list(target: &Target) -> Result<Vec<(i32, Vec<i32>)>, SampleError> {
    match target {
        Target::System => Ok(Vec::new()),
        &Target::Exec(pid) => Ok(vec![(pid, vec![pid])]),
        &Target::Process(pid) => Ok(vec![(first_thread(pid), threads(pid)?)]),
        Target::Trees(pids) => {
            let trees = pids.iter().map(|&pid| tree(pid)).collect::<Result<Vec<_>, _>>()?;
            Ok(trees.into_iter().flatten().collect())
        }
    }
}

/// A process and its descendants, except knee, with their threads.
fn tree(pid: i32) -> Result<Vec<(i32, Vec<i32>)>, SampleError> {
    let root = first_thread(pid);
    let members = family(root).into_iter().map(|(member, _)| member);
    let others = members.filter(|&member| member != root && member != own());
    let others = others.filter_map(|member| Some((member, threads(member).ok()?)));
    Ok([(root, threads(pid)?)].into_iter().chain(others).collect())
}

/// The PID of knee, which may be a descendant of the target, such as of a shell.
pub(super) fn own() -> i32 {
    std::process::id().cast_signed()
}

/// The PID of a process, given the TID of any of its threads.
pub(super) fn first_thread(thread: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    number.unwrap_or(thread)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};

    use super::*;
    use crate::sampling::tests::shell;

    #[test]
    fn a_later_listing_finds_what_has_started_meanwhile() {
        let mut child = shell("read line; sleep 600 & echo $!; read line; kill $!");
        let pid = child.id() as i32;
        let mut running = Running::default();
        assert_eq!(running.update(&Target::Trees(vec![pid])).unwrap(), [pid]);
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"go\n").unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let sleep: i32 = line.trim().parse().unwrap();
        assert_eq!(running.update(&Target::Trees(vec![pid])).unwrap(), [sleep]);
        assert_eq!(running.update(&Target::Trees(vec![pid])).unwrap(), [] as [i32; 0]);
        assert!(running.processes.iter().eq(&[pid, sleep]));
        let mut alone = Running::default();
        assert_eq!(alone.update(&Target::Process(pid)).unwrap(), [pid]);
        drop(child.stdin.take());
        let _ = output.read_to_end(&mut Vec::new());
        child.wait().unwrap();
    }

    #[test]
    fn the_tree_of_the_test_does_not_contain_the_test() {
        let parent = rustix::process::getppid().unwrap().as_raw_pid();
        let mut running = Running::default();
        running.update(&Target::Trees(vec![parent])).unwrap();
        assert!(running.processes.contains(&parent) && !running.processes.contains(&own()));
    }
}
