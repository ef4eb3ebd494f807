//! What runs already when sampling begins.

use std::fs;

use super::Target;
use crate::records::Records;

/// Takes in what runs already: its programs, and what code they have mapped.
pub(super) fn read(records: &mut Records, target: &Target, threads: &[i32]) {
    match target {
        Target::Process(pid) | Target::Exec(pid) => {
            records.spaces().read(*pid);
            for &thread in threads {
                read_name(records, *pid, thread);
            }
        }
        Target::System => {
            let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
            let all = fs::read_dir("/proc").into_iter().flatten().flatten();
            for pid in all.filter_map(number) {
                records.spaces().read(pid);
                let threads = fs::read_dir(format!("/proc/{pid}/task"));
                for thread in threads.into_iter().flatten().flatten().filter_map(number) {
                    read_name(records, pid, thread);
                }
            }
        }
    }
}

fn read_name(records: &mut Records, pid: i32, thread: i32) {
    if let Ok(name) = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")) {
        records.name(thread, name.trim_end_matches('\n'));
    }
}
