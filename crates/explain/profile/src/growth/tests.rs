use knee_results::{CaseId, ITERATIONS, Mode, PointId};
use snapbox::{assert_data_eq, str};

use super::*;
use crate::capture::{Clock, Function, Stacks, Unit, Work};

/// A capture of `tasks` tasks. Stacks are from the outermost function; a sample is a millisecond.
fn capture(tasks: u32, iterations: u64, stacks: &[(&[&str], u64)]) -> Capture {
    let mut collected = Stacks::default();
    for (names, samples) in stacks {
        let functions: Vec<_> =
            names.iter().map(|name| Function::new(*name, Kind::Kernel)).collect();
        collected.add("knee", &functions, *samples, samples * 1_000_000);
    }
    let all: u64 = stacks.iter().map(|stack| stack.1).sum();
    let mode = Mode::Threads;
    Capture {
        title: "mmap1".into(),
        clock: Clock {
            event: "cpu-clock".into(),
            unit: Unit::Nanoseconds,
            frequency: Some(1000),
            user_only: false,
        },
        seconds: Some(1.0),
        cpu_seconds: Some(all as f64 / 1e3),
        work: Some(Work {
            point: PointId { case: CaseId::new("mmap1"), mode, tasks },
            iterations,
            unit: ITERATIONS.to_owned(),
            server: None,
            command: None,
            disturbed: false,
        }),
        ..collected.finish()
    }
}

fn example() -> [Capture; 2] {
    let one = capture(
        1,
        100_000,
        &[(&["mmap", "vma_merge"], 600), (&["mmap", "down_write", "spin"], 400)],
    );
    let two = capture(
        2,
        120_000,
        &[
            (&["mmap", "vma_merge"], 720),
            (&["mmap", "down_write", "spin"], 600),
            (&["mmap", "up_write", "spin"], 80),
            (&["mmap"], 3),
        ],
    );
    [one, two]
}

#[test]
fn a_function_that_costs_more_per_iteration_grew() {
    let growth = growth(&example()).unwrap();
    let grew: Vec<&Row> = growth.grew().collect();
    assert_eq!(grew.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["spin"]);
    assert_eq!(grew[0].from, ["down_write", "mmap"]);
    let close = |value: f64, expected: f64| (value - expected).abs() < 1e-6;
    // 400 ms for 100,000 iterations are 4 µs; 680 ms for 120,000 are 5.67 µs.
    assert!(close(grew[0].own[0], 4000.0) && close(grew[0].own[1], 680e6 / 120e3));
    let merge = growth.rows.iter().find(|row| row.name == "vma_merge").unwrap();
    assert!(close(merge.own_growth.change(), 0.0), "its share fell, its cost did not");
    assert!(close(growth.points[0].waiting.unwrap(), 0.0));
    assert!(close(growth.points[1].waiting.unwrap(), (2.0 - 1.403) * 1e9 / 120e3));
}

#[test]
fn the_table_lists_the_largest_growth_first() {
    let growth = growth(&example()).unwrap();
    assert_data_eq!(
        table(&growth, 10).to_string(),
        str![[r#"
mmap1                   1 task  2 tasks
iterations per second    100 k    120 k
cost of an iteration   10.0 µs  11.7 µs
  and off-CPU time        0 ns  4.97 µs

self growth                              function
+1.67 µs ± 431 ns      4.00 µs  5.67 µs  spin
                                           from down_write < mmap
(4 others grew by less than the sampling error, or not at all)

"#]]
    );
}

#[test]
fn a_server_is_compared_by_requests_and_cpus() {
    let captures = example().map(|mut capture| {
        let work = capture.work.as_mut().unwrap();
        let shared = work.point.tasks > 1;
        work.unit = "requests".to_owned();
        work.server = Some(UnderLoad { busy: if shared { 0.61 } else { 0.98 }, shared });
        capture
    });
    let growth = growth(&captures).unwrap();
    assert_data_eq!(
        table(&growth, 10).to_string(),
        str![[r#"
mmap1                  1 CPU   2 CPUs
requests per second    100 k    120 k
cost of a request    10.0 µs  11.7 µs
server busy              98%      61%
With 2 CPUs, the load shares the server's CPUs or has too few of its own, so the server and the load slow each other down.

self growth                            function
+1.67 µs ± 431 ns    4.00 µs  5.67 µs  spin
                                         from down_write < mmap
(4 others grew by less than the sampling error, or not at all)

"#]]
    );
    assert_eq!(growth.points[0].waiting, None, "CPUs of a server may be idle");
}

#[test]
fn a_disturbed_capture_on_either_side_claims_no_growth() {
    for disturbed in [0, 1] {
        let mut captures = example();
        captures[disturbed].work.as_mut().unwrap().disturbed = true;
        let growth = growth(&captures).unwrap();
        assert_eq!(growth.grew().count(), 0);
        let table = table(&growth, 10).to_string();
        let count = ["1 task", "2 tasks"][disturbed];
        assert!(table.contains(&format!("Inconclusive: other work disturbed {count}")), "{table}");
        assert!(table.contains(" k !!") && !table.contains("spin"), "{table}");
    }
}

#[test]
fn a_disturbed_capture_between_the_others_is_only_marked() {
    let [one, mut between] = example();
    let mut four = between.clone();
    four.work.as_mut().unwrap().point.tasks = 4;
    between.work.as_mut().unwrap().disturbed = true;
    let growth = growth(&[one, between, four]).unwrap();
    assert_eq!(growth.grew().count(), 1);
    assert!(table(&growth, 10).to_string().contains(" k !!"));
}

#[test]
fn a_table_without_the_kernel_says_so() {
    let mut captures = example();
    let says = |captures: &[Capture]| {
        table(&growth(captures).unwrap(), 10).to_string().contains("Sampled in user mode only")
    };
    assert!(!says(&captures));
    captures.iter_mut().for_each(|capture| capture.clock.user_only = true);
    assert!(says(&captures));
}

#[test]
fn captures_of_different_targets_are_refused() {
    let [one, two] = example();
    assert_eq!(growth(std::slice::from_ref(&one)), Err(GrowthError::TooFew));
    assert_eq!(growth(&[one.clone(), one.clone()]), Err(GrowthError::Twice { tasks: 1 }));
    let mut uncounted = two.clone();
    uncounted.work = None;
    let refused = growth(&[one.clone(), uncounted]).unwrap_err();
    assert!(matches!(refused, GrowthError::NoWork { .. }));
    let mut other = two.clone();
    other.work.as_mut().unwrap().point.mode = Mode::Processes;
    let refused = growth(&[one.clone(), other]).unwrap_err();
    assert!(matches!(refused, GrowthError::Different { .. }));
    let mut other = two.clone();
    other.work.as_mut().unwrap().unit = "runs".to_owned();
    let refused = growth(&[one.clone(), other]).unwrap_err();
    assert!(matches!(refused, GrowthError::Different { .. }));
    let mut other = two.clone();
    other.work.as_mut().unwrap().command = Some("make -j{tasks}".to_owned());
    let refused = growth(&[one.clone(), other]).unwrap_err();
    assert!(matches!(refused, GrowthError::Different { .. }));
    assert_eq!(growth(&[two.clone(), one.clone()]), growth(&[one, two]), "in any order");
}

#[test]
fn equal_costs_show_no_growth() {
    let [one, _] = example();
    let mut two = one.clone();
    two.work.as_mut().unwrap().point.tasks = 2;
    let growth = growth(&[one, two]).unwrap();
    assert_eq!(growth.grew().count(), 0);
    assert!(table(&growth, 10).to_string().contains("No function grew"));
}
