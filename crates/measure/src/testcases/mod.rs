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
