//! CPU time of a process with all of its descendants.

use knee_host::process::{CpuClock, Stat, family};
use rustix::param::clock_ticks_per_second;

/// CPU seconds of the process `root` and its descendants, including those that have ended.
pub(super) fn cpu_seconds(root: i32) -> f64 {
    let of_one = |(pid, stat): (i32, Stat)| {
        let own = CpuClock::of(pid).and_then(CpuClock::read).unwrap_or_default().as_secs_f64();
        let ticks = stat.ticks_of_dead().unwrap_or_default();
        own + ticks as f64 / clock_ticks_per_second() as f64
    };
    family(root).into_iter().map(of_one).sum()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_cpu_time_of_a_tree_contains_that_of_grandchildren_that_have_ended() {
        // The inner shell computes for two clock ticks and ends; the outer one waits for it, and then for its input.
        let inner = "ticks() { cut -d ' ' -f 14 /proc/$$/stat; }
            while [ $(ticks) -lt 2 ]; do i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); done; done";
        let script = "sh -c \"$0\"; echo done; read -r x";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, inner]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = shell.id().cast_signed();
        let (used, own) = (cpu_seconds(pid), CpuClock::of(pid).unwrap().read().unwrap());
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(used >= 0.01 && used > own.as_secs_f64(), "{used} {own:?}");
    }

    #[test]
    fn a_descendant_in_another_group_is_a_member() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "setsid sleep 600 & echo $!; read -r x"]);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let sleep: i32 = line.trim().parse().unwrap();
        let pid = shell.id().cast_signed();
        let pids: Vec<i32> = family(pid).into_iter().map(|(pid, _)| pid).collect();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(sleep).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(pids.contains(&pid) && pids.contains(&sleep), "{pids:?} {pid} {sleep}");
    }
}
