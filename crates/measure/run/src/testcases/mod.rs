//! The built-in testcases, a file for each loop.
//!
//! A testcase is a function that sets up, calls [`Task::start`](crate::task::Task::start) or
//! [`Task::repeat`](crate::task::Task::repeat) and loops. Inside the loop there is the operation
//! and nothing else: no allocation, no logging, no formatting. Its entry in the table at the head
//! of the file says what a user sees in `knee list`.

mod directory;
mod file;
mod ipc;
mod lock;
mod memory;
mod network;
mod process;
mod sync;
mod vm;

use crate::testcase::Testcase;

/// The tables of all files, by family.
const FAMILIES: &[&[&[Testcase]]] = &[
    memory::TABLES,
    file::TABLES,
    directory::TABLES,
    lock::TABLES,
    ipc::TABLES,
    network::TABLES,
    process::TABLES,
    sync::TABLES,
    vm::TABLES,
];

/// All built-in testcases, in the order of `knee list`.
pub fn all() -> impl Iterator<Item = &'static Testcase> {
    FAMILIES.iter().copied().flatten().copied().flatten()
}

/// The testcase called `name`.
pub fn find(name: &str) -> Option<&'static Testcase> {
    all().find(|testcase| testcase.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The suites that scripts and old results refer to.
    const OF_WILL_IT_SCALE: &str = "brk1-2 context_switch1 dup1 eventfd1 fallocate1-2 fstat1 \
        fstatat1-3 futex1-4 getppid1 getuid1 lock1-2 lseek1-2 malloc1-2 mmap1-2 open1-3 \
        page_fault1-4 pipe1 poll1-3 posix_semaphore1 pread1-3 pthread_mutex1-5 pwrite1-3 read1-4 \
        readseek1-3 sched_yield select1 signal1 tlb_flush1-3 unix1 unlink1-2 write1 writeseek1-3";

    #[test]
    fn every_testcase_of_will_it_scale_and_its_fork_is_there() {
        for range in OF_WILL_IT_SCALE.split_whitespace() {
            let (first, last) = range.split_once('-').unwrap_or((range, ""));
            assert!(find(first).is_some(), "{first}");
            if !last.is_empty() {
                let stem = first.trim_end_matches('1');
                for nr in 2..=last.parse().unwrap() {
                    assert!(find(&format!("{stem}{nr}")).is_some(), "{stem}{nr}");
                }
            }
        }
    }

    #[test]
    fn names_are_unique_and_every_testcase_says_what_it_does() {
        let mut names: Vec<_> = all().map(|t| t.name).collect();
        names.sort_unstable();
        let all_names = names.len();
        names.dedup();
        assert_eq!(names.len(), all_names);
        for testcase in all() {
            assert!(!testcase.name.is_empty());
            assert!(!testcase.description.is_empty(), "{}", testcase.name);
            assert!(testcase.description.len() <= 90, "{}", testcase.name);
        }
    }
}
