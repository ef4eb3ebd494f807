//! The built-in testcases, a file for each loop.
//!
//! A testcase is a function that sets up, calls [`Task::start`](knee_run::Task::start) or
//! [`Task::repeat`](knee_run::Task::repeat) and loops. Inside the loop there is the operation
//! and nothing else: no allocation, no logging, no formatting. Its entry in the table at the head
//! of the file says what a user sees in `knee list`.

mod choices;
mod directory;
mod file;
mod ipc;
mod lock;
mod memory;
mod network;
mod process;
mod servers;
mod sync;
mod vm;

use knee_run::Catalogue;

pub use self::servers::{BuiltInServer, SERVERS, servers};

/// All built-in testcases, by family, in the order of `knee list`.
pub const CATALOGUE: Catalogue = Catalogue(&[
    memory::TABLES,
    file::TABLES,
    directory::TABLES,
    lock::TABLES,
    ipc::TABLES,
    network::TABLES,
    process::TABLES,
    sync::TABLES,
    vm::TABLES,
]);

/// Touches every service of the operating system in under two minutes on two cores: those whose
/// curves differ most.
pub const QUICK: &[&str] = &[
    "page_fault1",
    "mmap1",
    "mmap_disjoint1",
    "pread1",
    "pwrite2",
    "open1",
    "open3",
    "pthread_mutex1",
    "futex1",
    "pipe1",
    "context_switch1",
    "tcp_loopback2",
    "getppid1",
    "exec_static",
];

#[cfg(test)]
mod tests {
    use knee_run::Family;
    use object::{Object, ObjectSymbol};

    use super::*;

    /// The suites that scripts and old results refer to.
    const OF_WILL_IT_SCALE: &str = "brk1-2 context_switch1 dup1 eventfd1 fallocate1-2 fstat1 \
        fstatat1-3 futex1-4 getppid1 getuid1 lock1-2 lseek1-2 malloc1-2 mmap1-2 open1-3 \
        page_fault1-4 pipe1 poll1-3 posix_semaphore1 pread1-3 pthread_mutex1-5 pwrite1-3 read1-4 \
        readseek1-3 sched_yield select1 signal1 tlb_flush1-3 unix1 unlink1-2 write1 writeseek1-3";

    #[test]
    fn every_testcase_of_will_it_scale_and_its_fork_exists() {
        for range in OF_WILL_IT_SCALE.split_whitespace() {
            let (first, last) = range.split_once('-').unwrap_or((range, ""));
            assert!(CATALOGUE.find(first).is_some(), "{first}");
            if !last.is_empty() {
                let stem = first.trim_end_matches('1');
                for nr in 2..=last.parse().unwrap() {
                    assert!(CATALOGUE.find(&format!("{stem}{nr}")).is_some(), "{stem}{nr}");
                }
            }
        }
    }

    #[test]
    fn names_are_unique_and_every_testcase_says_what_it_does() {
        let mut names: Vec<_> = CATALOGUE.all().map(|t| t.name).collect();
        names.sort_unstable();
        let all_names = names.len();
        names.dedup();
        assert_eq!(names.len(), all_names);
        for testcase in CATALOGUE.all() {
            assert!(!testcase.name.is_empty());
            assert!(!testcase.description.is_empty(), "{}", testcase.name);
            assert!(testcase.description.len() <= 90, "{}", testcase.name);
        }
    }

    /// A profile would show all closures under the same name.
    #[test]
    fn the_loop_of_every_testcase_is_a_function_with_a_name() {
        let program = std::fs::read("/proc/self/exe").unwrap();
        let program = object::File::parse(&*program).unwrap();
        let functions =
            program.symbols().filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?)));
        let functions: Vec<(u64, &str)> = functions.collect();
        // Where the program is in memory follows from the address of a function.
        let known = every_choice_of_every_testcase_can_be_selected as fn() as usize as u64;
        let is_known = |name: &str| {
            name.contains("every_choice_of_every_testcase_can_be_selected")
                && !name.contains("closure")
        };
        let (address, _) = functions.iter().find(|(_, name)| is_known(name)).unwrap();
        let base = known - address;
        for testcase in CATALOGUE.all() {
            let address = testcase.run as usize as u64 - base;
            let names: Vec<&str> =
                functions.iter().filter(|f| f.0 == address).map(|f| f.1).collect();
            let has_name = names.iter().any(|name| name.contains("knee_testcases"));
            assert!(has_name, "{}: {names:?}", testcase.name);
        }
    }

    #[test]
    fn the_quick_set_touches_every_service_of_the_system() {
        let selected = CATALOGUE.select(QUICK).unwrap();
        let libraries = [Family::Sync, Family::Vm];
        for family in Family::ALL.into_iter().filter(|family| !libraries.contains(family)) {
            assert!(selected.iter().any(|s| s.testcase.family == family), "{family}");
        }
    }

    #[test]
    fn every_choice_of_every_testcase_can_be_selected() {
        for testcase in CATALOGUE.all() {
            for choice in testcase.parameters.iter().copied().flatten() {
                let settings = testcase.settings(&[(choice.key, choice.value)]).unwrap();
                assert!(settings.has(*choice), "{}@{choice}", testcase.name);
                assert!(!choice.meaning.is_empty());
            }
        }
    }

    #[test]
    fn one_choice_of_an_older_design_leaves_the_rest_as_in_freebsd_11() {
        let id = |word: &str| CATALOGUE.select(&[word]).unwrap()[0].id().to_string();
        assert_eq!(id("vm_mmap1@di=mutex,rmap=pv"), "vm_mmap1@map=tree");
        assert_eq!(id("vm_mmap1@di=epoch"), "vm_mmap1@map=tree,di=epoch");
        assert_eq!(id("vm_page_fault4@shootdown=lazy"), "vm_page_fault4@shootdown=lazy");
        let error = |word: &str| CATALOGUE.select(&[word]).err().unwrap().to_string();
        assert_eq!(
            error("vm_page_fault4@shootdown=lazy,di=epoch"),
            "vm_page_fault4 has no di=epoch with map=knee, because di=epoch requires map=tree or \
             map=rcu"
        );
    }
}
