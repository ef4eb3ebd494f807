//! Testcases in C, written for will-it-scale and loaded as they are.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use support::{Scratch, compile, compile_plugin, finish, processes_in};

#[test]
fn a_plugin_runs_in_both_modes_and_is_prepared_and_cleaned_up() {
    let scratch = Scratch::new();
    let Some(plugin) = compile_plugin(&scratch, "counter1") else { return };
    let proof = scratch.path().join("proof");
    let mut command = scratch.run(&["-t", "1,2", "--plugin", &plugin]);
    let finished = finish(command.env("CLEANUP_PROOF", &proof));
    finished.assert_code(0).assert_stdout_has("counter1 processes  Count");
    assert_eq!(scratch.samples().iter().filter(|l| l["phase"] == "measure").count(), 4);
    // On a busy machine a task may have had no turn in so short a sample; not all of them always.
    assert!(scratch.samples().iter().any(|line| line["min"].as_f64().unwrap() > 0.0));
    let prepared = std::fs::read_to_string(proof).unwrap();
    assert!(["1\n", "2\n"].contains(&prepared.as_str()), "{prepared}");
}

#[test]
fn a_counter_that_counts_no_iterations_fails_its_point() {
    let scratch = Scratch::new();
    for (step, words) in [("-= 1", "counted backwards"), ("+= 1UL << 50", "more than a CPU can do")]
    {
        let source = scratch.path().join("wild1.c");
        let code = format!(
            "char *testcase_description = \"wild\";\n\
             void testcase(unsigned long *iterations, unsigned long nr)\n\
             {{ *iterations = 1UL << 36; for (;;) *(volatile unsigned long *)iterations {step}; }}\n"
        );
        std::fs::write(&source, code).unwrap();
        let Some(plugin) = compile(&scratch, &source, "wild1") else { return };
        let args = ["run", "-q", "-r", "1", "-t", "1", "-o", "record", "--plugin", &plugin];
        let finished = finish(scratch.knee(&args).args(["--interval", "0.1", "-s", "2"]));
        finished.assert_code(4).assert_stdout_has(words);
        std::fs::remove_dir_all(scratch.record()).unwrap();
    }
}

#[test]
fn a_helper_made_with_new_task_ends_with_its_task() {
    let scratch = Scratch::new();
    let Some(plugin) = compile_plugin(&scratch, "helper1") else { return };
    finish(&mut scratch.run(&["-t", "2", "--plugin", &plugin])).assert_code(0);
    assert_eq!(processes_in(scratch.path()), Vec::<String>::new());
}

#[test]
fn other_work_on_its_cpu_is_seen_unless_a_plugin_has_helpers_to_wait_for() {
    let scratch = Scratch::new();
    let Some(alone) = compile_plugin(&scratch, "counter1") else { return };
    let Some(with_helper) = compile_plugin(&scratch, "helper1") else { return };
    let cpu = sched_getaffinity(None).map(|set| (0..CpuSet::MAX_CPU).find(|&c| set.is_set(c)));
    let cpu = cpu.unwrap().unwrap();
    let stop = AtomicBool::new(false);
    let finished = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut only = CpuSet::new();
            only.set(cpu);
            sched_setaffinity(None, &only).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let mut run = scratch.run(&["-m", "processes", "-t", "1", "--cpus", &cpu.to_string()]);
        run.args(["-s", "5", "--interval", "0.3", "--plugin", &alone, "--plugin", &with_helper]);
        run.env("CLEANUP_PROOF", scratch.path().join("proof"));
        let finished = finish(&mut run);
        stop.store(true, Ordering::Relaxed);
        finished
    });
    finished.assert_code(0);
    let starved = |testcase: &str| {
        let samples = scratch.samples();
        // Before it has counted, one that makes a helper may not have done so.
        let its = samples.iter().filter(|line| {
            line["phase"] == "measure" && line["testcase"] == testcase && line["min"] != 0.0
        });
        its.filter(|line| line["marks"].as_array().unwrap().contains(&"starved".into())).count()
    };
    // A sample in which the host stops this machine is too long for what is waited for in it.
    assert!(starved("counter1") > 0, "{:#?}", scratch.samples());
    assert_eq!(starved("helper1"), 0, "{:#?}", scratch.samples());
}

#[test]
fn the_example_of_the_guide_compiles_and_runs() {
    let scratch = Scratch::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/getcpu1.c");
    let Some(plugin) = compile(&scratch, example.as_ref(), "getcpu1") else { return };
    finish(&mut scratch.run(&["-t", "1", "--plugin", &plugin])).assert_code(0);
}

#[test]
fn a_plugin_beside_a_built_in_testcase_and_a_name_that_is_taken() {
    let scratch = Scratch::new();
    let Some(plugin) = compile_plugin(&scratch, "returns") else { return };
    let taken = scratch.path().join("getppid1.so");
    std::fs::copy(&plugin, &taken).unwrap();
    finish(&mut scratch.run(&["getppid1", "--plugin", taken.to_str().unwrap()]))
        .assert_code(2)
        .assert_stderr_has("a testcase named getppid1 already exists");
}

#[test]
fn a_file_that_is_not_a_plugin_is_refused_with_the_command_that_makes_one() {
    let scratch = Scratch::new();
    let text = scratch.path().join("text.so");
    std::fs::write(&text, "not an object").unwrap();
    finish(&mut scratch.run(&["-t", "1", "--plugin", text.to_str().unwrap()]))
        .assert_code(3)
        .assert_stderr_has("text.so: it is not a shared object")
        .assert_stderr_has("cc -O2 -shared -fPIC");
    finish(&mut scratch.run(&["--plugin", "missing.so"]))
        .assert_code(3)
        .assert_stderr_has("missing.so");
}

#[test]
fn a_plugin_without_a_required_symbol_is_reported_once() {
    let scratch = Scratch::new();
    for (name, source, says) in [
        ("empty", "int nothing;", "it does not define testcase_description"),
        ("idle", "char *testcase_description = \"idle\";", "it does not define function testcase"),
    ] {
        let file = scratch.path().join(format!("{name}.c"));
        std::fs::write(&file, source).unwrap();
        let Some(plugin) = compile(&scratch, &file, name) else { return };
        let finished = finish(&mut scratch.run(&["-t", "1,2", "getppid1", "--plugin", &plugin]));
        finished.assert_code(3).assert_stderr_has(says);
        assert_eq!(finished.stderr.matches(says).count(), 1, "{finished:#?}");
        assert!(!scratch.record().exists(), "nothing was measured");
    }
}
