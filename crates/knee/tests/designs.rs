//! Address spaces of knee-vm in older designs, chosen after an `@`.

mod support;

use support::{Scratch, finish};

#[test]
fn a_design_is_measured_under_the_name_of_what_was_chosen() {
    let scratch = Scratch::new();
    let asked = ["vm_mmap_disjoint1@di=epoch,map=rcu", "vm_mmap_disjoint1@di=mutex", "mmap1"];
    finish(scratch.run(&["-m", "threads", "-t", "2"]).args(asked)).assert_code(0);
    let samples = scratch.samples();
    for name in ["vm_mmap_disjoint1@map=rcu,di=epoch", "vm_mmap_disjoint1@di=mutex", "mmap1"] {
        assert!(samples.iter().any(|line| line["testcase"] == name), "{name}");
    }
}

#[test]
fn shootdown_may_be_lazy_where_cpus_tick() {
    let scratch = Scratch::new();
    let name = "vm_page_fault4@shootdown=lazy";
    finish(&mut scratch.run(&["-m", "threads", "-t", "3", name])).assert_code(0);
    assert!(scratch.samples().iter().all(|line| line["testcase"] == name));
    finish(&mut scratch.knee(&["run", "vm_mmap1@shootdown=lazy"])).assert_code(2);
}

#[test]
fn two_designs_are_measured_in_turns() {
    let scratch = Scratch::new();
    let mut ab = scratch.knee(&["ab", "-q", "-r", "6", "-t", "2", "-s", "1", "-o", "record"]);
    ab.args(["--interval", "0.02", "--warmup", "0"]);
    ab.args(["--before", "vm_brk1@di=mutex", "--after", "vm_brk1@di=epoch"]);
    finish(&mut ab).assert_code(0);
    let samples = scratch.samples();
    let counts = ["before:vm_brk1@di=mutex", "after:vm_brk1@di=epoch"]
        .map(|side| samples.iter().filter(|line| line["testcase"] == side).count());
    assert_eq!(counts, [6, 6]);
}

#[test]
fn a_design_that_was_named_four_times_ran_four_times() {
    let scratch = Scratch::new();
    let names = ["map=tree", "rmap=pv", "di=mutex", "accounting=atomic"];
    let names = names.map(|choice| format!("vm_mmap_disjoint1@{choice}"));
    let finished = finish(scratch.run(&["-m", "threads", "-t", "1"]).args(&names));
    finished.assert_code(0).assert_stderr_has(&format!(
        "knee: {} is one design with {}, {}, {}: measured once, by that name",
        names[0], names[1], names[2], names[3]
    ));
    assert_eq!(scratch.run_json()["cases"].as_array().unwrap().len(), 1);
    let samples = scratch.samples();
    assert!(!samples.is_empty() && samples.iter().all(|line| line["testcase"] == names[0]));

    let _ = std::fs::remove_dir_all(scratch.record());
    let mut ab = scratch.knee(&["ab", "-q", "-r", "6", "-t", "1", "-s", "1", "-o", "record"]);
    ab.args(["--interval", "0.02", "--warmup", "0", "--before", &names[0], "--after", &names[1]]);
    finish(&mut ab).assert_code(0).assert_stderr_has("what differs is noise");
}

/// The experiment of 2018, from two records.
#[test]
fn runs_of_two_designs_are_compared() {
    let scratch = Scratch::new();
    for (design, dir) in [("mutex", "a"), ("epoch", "b")] {
        let name = format!("vm_mmap_disjoint1@di={design}");
        let mut run = scratch.knee(&["run", "-q", "-r", "3", "-s", "1", "--interval", "0.02"]);
        finish(run.args(["--warmup", "0", "-t", "1,2", "-o", dir, &name])).assert_code(0);
    }
    let finished = finish(&mut scratch.knee(&["compare", "a", "b"]));
    let (before, after) = ("vm_mmap_disjoint1@di=mutex", "vm_mmap_disjoint1@di=epoch");
    finished
        .assert_code(0)
        .assert_stdout_has(&format!("{before} → {after} threads ×2"))
        .assert_stdout_has(&format!("knee ab --before {before} --after {after}"))
        .assert_stdout_has("2 points: ");
}

#[test]
fn what_is_no_design_is_refused_with_those_that_there_are() {
    let scratch = Scratch::new();
    let refuse = |name, said| {
        finish(&mut scratch.knee(&["run", name])).assert_code(2).assert_stderr_has(said);
    };
    refuse("vm_mmap1@di=foo", "vm_mmap1 has no di=foo: mutex, epoch, lockfree, slots");
    refuse("vm_mmap1@tree", "vm_mmap1 has no tree: map=, rmap=, di=, accounting=");
    refuse("vm_mmap1@di=mutex,di=epoch", "no second di=");
    // Objects are of knee-vm's own design alone, and the kernel has none to choose.
    refuse("vm_mmap2@di=mutex", "vm_mmap2 has no di=mutex: it maps an object, which is of");
    refuse("mmap1@di=mutex", "only testcases of knee-vm have designs");
    refuse("vm_mmap1@di=mutx", "did you mean di=mutex?");
    let alone = "is of knee-vm's own design and stands alone";
    refuse("vm_page_fault4@shootdown=lazy,di=mutex", alone);
    refuse("vm_mmap1@own-design,di=mutex", alone);
    refuse("vm_mmap1@shootdown=lazy", "vm_mmap1 has no shootdown=lazy: vm_page_fault4 has it");
    refuse("famly:vm", "did you mean family:vm?");

    let listed = finish(&mut scratch.knee(&["list", "vm_mmap1", "vm_mmap2"])).stdout;
    let of = |name: &str| {
        let mut lines = listed.lines().skip_while(|line| !line.trim_start().starts_with(name));
        lines.nth(1).unwrap().to_owned()
    };
    assert!(of("vm_mmap1 ").contains("@own-design @map=tree @map=rcu @rmap=pv"), "{listed}");
    assert!(!of("vm_mmap2 ").contains('@'), "{listed}");
    assert!(listed.contains("delayed invalidation with an epoch"), "{listed}");
    assert!(listed.contains("go together: @map=rcu,di=epoch; the others stand alone"), "{listed}");
    let others = finish(&mut scratch.knee(&["list", "read1"])).stdout;
    assert!(!others.contains("go together"), "{others}");
}
