//! Address spaces of knee-vm in older designs, chosen by parameters.

mod support;

use support::{Scratch, finish};

#[test]
fn a_design_is_measured_under_its_one_name() {
    let scratch = Scratch::new();
    let asked = ["vm_mmap_disjoint1@di=epoch,map=rcu", "vm_mmap_disjoint1@di=mutex", "mmap1"];
    finish(scratch.run(&["-m", "threads", "-t", "2"]).args(asked)).assert_code(0);
    let samples = scratch.samples();
    for name in ["vm_mmap_disjoint1@map=rcu,di=epoch", "vm_mmap_disjoint1@map=tree", "mmap1"] {
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
    ab.args(["--interval", "0.02", "--warmup", "0", "--patience", "1"]);
    ab.args(["--before", "vm_brk1@di=mutex", "--after", "vm_brk1@di=epoch"]);
    finish(&mut ab).assert_code(0);
    let mut samples = scratch.samples();
    samples.retain(|line| line["phase"] == "measure");
    let counts = ["before:vm_brk1@map=tree", "after:vm_brk1@map=tree,di=epoch"]
        .map(|side| samples.iter().filter(|line| line["testcase"] == side).count());
    assert_eq!(counts, [6, 6]);
}

#[test]
fn a_design_with_several_names_is_measured_once() {
    let scratch = Scratch::new();
    let names = ["map=tree", "rmap=pv", "di=mutex", "accounting=atomic"];
    let names = names.map(|choice| format!("vm_mmap_disjoint1@{choice}"));
    finish(scratch.run(&["-m", "threads", "-t", "1"]).args(&names)).assert_code(0);
    assert_eq!(scratch.run_json()["cases"].as_array().unwrap().len(), 1);
    let samples = scratch.samples();
    assert!(!samples.is_empty() && samples.iter().all(|line| line["testcase"] == names[0]));

    let _ = std::fs::remove_dir_all(scratch.record());
    let mut ab = scratch.knee(&["ab", "-q", "-r", "6", "-t", "1", "-s", "1", "-o", "record"]);
    ab.args(["--interval", "0.02", "--warmup", "0", "--before", &names[0], "--after", &names[1]]);
    finish(&mut ab).assert_code(0).assert_stderr_has("any difference is noise");
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
    let (before, after) = ("vm_mmap_disjoint1@map=tree", "vm_mmap_disjoint1@map=tree,di=epoch");
    finished
        .assert_code(0)
        .assert_stdout_has(&format!("{before} → {after} threads ×2"))
        .assert_stdout_has(&format!("knee ab --before {before} --after {after}"))
        .assert_stdout_has("2 points: ");
}

#[test]
fn an_unknown_design_is_refused_with_those_that_there_are() {
    let scratch = Scratch::new();
    let refuse = |name, reason| {
        finish(&mut scratch.knee(&["run", name])).assert_code(2).assert_stderr_has(reason);
    };
    refuse("vm_mmap1@di=foo", "vm_mmap1 has no di=foo; di is one of mutex, epoch, lockfree, slots");
    refuse("vm_mmap1@tree", "parameters are written KEY=VALUE, here map=knee|tree|rcu");
    refuse("vm_mmap1@di=mutex,di=epoch", "two values of di");
    // The older designs have no objects, and the kernel has no design to choose.
    refuse("vm_mmap2@di=mutex", "vm_mmap2 has no parameter \"di\": it has none; vm_brk1, ");
    refuse("mmap1@di=mutex", "mmap1 has no parameter \"di\"");
    refuse("vm_mmap1@di=mutx", "did you mean di=mutex?");
    refuse(
        "vm_page_fault4@shootdown=lazy,di=mutex",
        "no di=mutex with map=knee, because di=mutex requires map=tree or map=rcu",
    );
    refuse("vm_mmap1@map=knee,di=mutex", "no di=mutex with map=knee");
    refuse("vm_mmap1@shootdown=lazy", "vm_page_fault4 has it");
    refuse("famly:vm", "did you mean family:vm?");

    let listed = finish(&mut scratch.knee(&["list", "vm_mmap1", "vm_mmap2"])).stdout;
    let of = |name: &str| {
        let mut lines = listed.lines().skip_while(|line| !line.trim_start().starts_with(name));
        lines.nth(1).unwrap().to_owned()
    };
    assert!(of("vm_mmap1 ").contains("map=knee|tree|rcu rmap=pv|backing"), "{listed}");
    assert!(!of("vm_mmap2 ").contains('='), "{listed}");
    assert!(listed.contains("delayed invalidation with an epoch"), "{listed}");
    assert!(listed.contains("(with map=tree|rcu)"), "{listed}");
    let others = finish(&mut scratch.knee(&["list", "read1"])).stdout;
    assert!(!others.contains("map="), "{others}");
}
