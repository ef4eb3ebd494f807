//! Checks that knee gives shared data the names that kernel developers use, in every fetched kernel.
//!
//! The test uses the kernels in the user's cache, where `knee kernel fetch` puts them. If the cache
//! contains no kernel, or QEMU is not installed, the test prints the reason and passes.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use knee_commute::{Limits, Wanted, models};
use knee_host::skip::skip;
use knee_trace::{
    Archive, CheckError, CheckOptions, Emulator, GuestError, GuestKernel, GuestOptions, Kernel,
    check,
};

/// How long to wait for each guest, which may itself have to wait for CPUs that other tests use.
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum number of tests to run for a pair of operations. They are spread evenly over all tests of the
/// pair.
const TESTS: usize = 60;

/// Tests of two operations from the model `posix`, as lines of JSON. Each line contains `word`.
fn tests(pair: [&str; 2], word: &str) -> String {
    let models = models();
    let model = models.iter().find(|model| model.name() == "posix").expect("the interface");
    let operations = model.operations();
    let set = pair.map(|name| {
        operations.iter().position(|(other, _)| *other == name).expect("one of its operations")
    });
    let mut lines = Vec::new();
    let generated = model.generate(&set, &Limits::default(), &Wanted::default(), &mut |test| {
        let line = serde_json::to_string(&test).expect("a test is plain data");
        if line.contains(word) {
            lines.push(line);
        }
        ControlFlow::Continue(())
    });
    generated.expect("the model runs");
    assert!(!lines.is_empty(), "no test of {pair:?} contains {word}");
    let step = lines.len().div_ceil(TESTS);
    lines.into_iter().step_by(step).map(|line| line + "\n").collect()
}

/// Runs tests on a kernel. Returns the names of all data that the tests' calls share.
fn shared(kernel: &GuestKernel, tests: &str) -> Result<BTreeSet<String>, CheckError> {
    let emulator = Emulator::of_user().expect("the QEMU that KNEE_QEMU names");
    let guest = GuestOptions { emulator, patience: PATIENCE, ..GuestOptions::default() };
    let options = CheckOptions { guest, ..CheckOptions::default() };
    let mut names = BTreeSet::new();
    check(kernel, tests.as_bytes(), &options, |checked, _| {
        for conflict in checked.runs.iter().flat_map(|run| &run.conflicts) {
            let datum = conflict.datum.as_ref().expect("each conflict has a datum");
            names.extend(datum.fields.iter().cloned());
        }
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

#[test]
fn known_shared_data_have_their_names_in_every_kernel() {
    // Run these tests together, because booting a guest takes longer than running all of them.
    let all = [
        tests(["lseek", "lseek"], ""),
        tests(["mmap", "mmap"], ""),
        tests(["open", "open"], r#""creat":true"#),
        tests(["read", "write"], r#""do":"pipe""#),
    ];
    let expected: [&[&str]; 6] = [
        // Linux 6.13 changed the type and the name of this counter.
        &["file.f_count", "file.f_ref"],
        &["file.f_pos_lock"],
        &["mm_struct.mmap_lock"],
        &["inode.i_rwsem (directory)"],
        &["dentry.d_lockref (directory)"],
        &["pipe_inode_info.mutex"],
    ];
    let archive = Archive::of_user().unwrap();
    // If an older version of knee fetched a kernel, it counts as fetched only after its digest has been
    // recorded.
    let _ = archive.fetch("bookworm");
    let fetched = archive.fetched();
    let kernels = fetched.iter().filter_map(|file| Kernel::open(file).ok());
    let kernels: Vec<GuestKernel> = kernels.map(GuestKernel::Linux).collect();
    if kernels.is_empty() {
        skip("qemu", "no kernel has been fetched: knee kernel fetch bookworm");
    }
    for kernel in kernels {
        let names = match shared(&kernel, &all.concat()) {
            Ok(names) => names,
            Err(CheckError::Guest(error @ GuestError::NoQemu(_))) => {
                skip("qemu", error);
                return;
            }
            Err(error) => panic!("{}: {error}", kernel.release()),
        };
        println!("{}: {} names", kernel.release(), names.len());
        for names_of_datum in expected {
            let found = names_of_datum.iter().any(|name| names.contains(*name));
            assert!(found, "{}: none of {names_of_datum:?} in {names:#?}", kernel.release());
        }
    }
}
