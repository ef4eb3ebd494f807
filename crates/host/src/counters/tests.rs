use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::param::page_size;
use rustix::process::{Pid, WaitOptions, wait, waitpid};

use super::*;
use crate::process::fork_bound;
use crate::skip::skip;

/// The counters that the kernel itself keeps; `None`, with a printed reason, if they are not permitted.
fn software() -> Option<CounterSet> {
    let asked = [Counter::ContextSwitches, Counter::PageFaults, Counter::TaskClock];
    match CounterSet::find(&asked) {
        Ok(set) if set.unavailable.is_empty() => Some(set),
        Ok(set) => {
            skip("perf", set.what_is_unavailable().unwrap_or_default());
            None
        }
        Err(error) => {
            skip("perf", error);
            None
        }
    }
}

/// Writes to this many new pages.
fn touch(pages: usize) {
    let length = pages * page_size();
    // SAFETY: the kernel chooses the address of a new mapping, which is written within its bounds and then removed.
    unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let map = mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE);
        let map = map.unwrap();
        // A huge page would be one fault.
        libc::madvise(map, length, libc::MADV_NOHUGEPAGE);
        for page in 0..pages {
            map.cast::<u8>().add(page * page_size()).write_volatile(1);
        }
        munmap(map, length).unwrap();
    }
}

#[test]
fn events_of_children_that_have_ended_are_counted() {
    let Some(set) = software() else { return };
    let (mut read, mut write) = io::pipe().unwrap();
    let (mut done, mut is_done) = io::pipe().unwrap();
    // SAFETY: the child only makes system calls, and ends without running destructors.
    let child = unsafe { fork_bound() }.unwrap();
    let Some(child) = child else {
        let _ = read.read(&mut [0]);
        // SAFETY: as above.
        if unsafe { fork_bound() }.is_ok_and(|child| child.is_none()) {
            touch(200);
            crate::process::exit_now(0);
        }
        let _ = wait(WaitOptions::empty());
        touch(300);
        let _ = is_done.write(b"!");
        let _ = read.read(&mut [0]);
        crate::process::exit_now(0);
    };
    let counters = Counters::of_running(&set, &[child]).unwrap();
    let before = counters.read();
    write.write_all(b"!").unwrap();
    done.read_exact(&mut [0]).unwrap();
    let after = counters.read();
    let counted = after.since(&before);
    write.write_all(b"!").unwrap();
    waitpid(Some(child), WaitOptions::empty()).unwrap();
    assert!(after.at > before.at);
    let faults = counted[&Counter::PageFaults];
    assert!((500.0..1000.0).contains(&faults.value) && faults.share == 1.0, "{counted:?}");
    // It waited for its child.
    assert!(counted[&Counter::ContextSwitches].value >= 1.0, "{counted:?}");
    assert!(counted[&Counter::TaskClock].value > 0.0, "{counted:?}");
    assert_eq!(counters.read().since(&after)[&Counter::PageFaults].share, 1.0);
}

#[test]
fn counting_begins_when_a_program_is_executed() {
    let Some(set) = software() else { return };
    let mut shell = Command::new("sh");
    shell.args(["-c", "read x; exec true"]).stdin(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let counters = Counters::from_exec(&set, &[Pid::from_child(&shell)]).unwrap();
    let before = counters.read();
    drop(shell.stdin.take());
    shell.wait().unwrap();
    let counted = counters.read().since(&before);
    assert!(counted[&Counter::PageFaults].value > 0.0, "{counted:?}");
    let empty = before.since(&before);
    assert_eq!(empty[&Counter::PageFaults], Counted { value: 0.0, share: 1.0 });
}

#[test]
fn names_are_those_of_perf() {
    assert_eq!(Counter::ContextSwitches.to_string(), "context-switches");
    assert_eq!("llc-misses".parse(), Ok(Counter::LlcMisses));
    assert_eq!(serde_json::to_value(Counter::CpuMigrations).unwrap(), "cpu-migrations");
    assert_eq!(Counter::ALL.len(), 9);
}
