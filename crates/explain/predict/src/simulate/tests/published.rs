//! Published curves, from the counts and figures of their sources. [`Uncertainty::near_first`] is
//! calibrated on V1 open1 and P1, the clock of Sapphire Rapids is from V1.
//! No other constant is fitted to them.
//!
//! `cargo test -p knee-predict published -- --nocapture` prints the predictions beside the
//! measurements.

use super::super::{Class, Usage};
use super::*;

/// The largest error of a point within a socket.
const WITHIN_A_SOCKET: f64 = 0.25;
/// The largest error of a point over several sockets.
const BETWEEN_SOCKETS: f64 = 0.3;

/// Predicts a curve of task counts and published rates, prints it, and checks the error of each
/// point.
fn check(title: &str, plan: Plan<'_>, curve: &[(u32, f64)]) {
    let simulator = Simulator::new(Plan { draws: 100, ..plan }).unwrap();
    println!("{title}, in millions\ntasks  class  predicted            band  measured  error");
    for &(tasks, measured) in curve {
        let point = simulator.point(tasks).unwrap();
        let error = point.rate / measured - 1.0;
        let percent = error * 100.0;
        let [rate, low, high, measured] =
            [point.rate, point.low, point.high, measured].map(|rate| rate / 1e6);
        let binding = point.binding().map_or(String::new(), |usage| {
            let Usage { name, visits, service_ns, far, .. } = usage;
            format!("{name}: {visits:.2} x {service_ns:.0} ns, {:.0} % far", far * 100.0)
        });
        println!(
            "{tasks:5}  {:5}  {rate:9.3}  {low:6.3}..{high:6.3}  {measured:8.3}  {percent:+4.0}%  \
             {binding}",
            point.class,
        );
        let most = if point.class == Class::C { BETWEEN_SOCKETS } else { WITHIN_A_SOCKET };
        assert!(error.abs() <= most, "{title}, {tasks} tasks: {error:+.3}");
    }
}

/// multikernel.io, 2026-08-17: open1 as processes, Linux 7.0.0 with AppArmor, 2 × 24 cores Sapphire
/// Rapids without SMT. An open and a close each change `label.count` once.
#[test]
fn open1_of_processes_on_sapphire_rapids() {
    let machine = Machine::built_in("sapphire-rapids-2x24").unwrap();
    let count = visit(0, Access::Atomic);
    let workload =
        workload(&[compute(1200.0), count, compute(800.0), count], &[Scope::Global], &[]);
    let alone = 9.6e6 / 4.80;
    let curve = [1.0, 1.63, 3.25, 4.83, 4.76, 4.77, 4.80, 4.08, 4.21, 4.21].map(|x| x * alone);
    let tasks = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48];
    let curve: Vec<(u32, f64)> = tasks.into_iter().zip(curve).collect();
    let plan = Plan::new(&workload, &machine, 1e9 / alone);
    check("open1, processes, Sapphire Rapids", plan, &curve);
}

/// A. Kogan, "[PATCH v11 0/5] Add NUMA-awareness to qspinlock", 2020-09-15: open1 as threads, Linux
/// 5.9-rc4, 4 × 18 cores Haswell-EX. The lock is `files_struct.file_lock`. In Debian's 5.10, its
/// sections in an open and a close have 143 and 29 of 4,900 instructions, or 59 and 12 ns, and one
/// line inside.
#[test]
fn open1_of_threads_on_haswell_ex() {
    let machine = Machine::built_in("haswell-ex-4x18").unwrap();
    let workload = locked_twice(1e3 / 0.498, 35.0, 1);
    let curve = [
        (1, 0.498e6),
        (2, 0.793e6),
        (4, 1.429e6),
        (8, 1.667e6),
        (16, 1.785e6),
        (32, 1.000e6),
        (36, 0.934e6),
        (72, 0.823e6),
        (108, 0.821e6),
        (142, 0.787e6),
    ];
    let plan = Plan::new(&workload, &machine, 1e3 / 0.498);
    check("open1, threads, Haswell-EX", plan, &curve);
}

/// LKP: open1 as processes on 104 CPUs of 2 × 26 cores Skylake, before and after f4fee216df7d
/// "apparmor: try to avoid refing the label in apparmor_file_open" (Linux 6.11). An open and a close
/// changed `label.count` four times, and now twice. The time of an iteration is unknown, and does
/// not matter: the line is always busy.
#[test]
fn open1_with_fewer_changes_of_a_label_on_skylake() {
    let machine = Machine::built_in("skylake-2x26").unwrap();
    let changes = |count| {
        let change = [compute(2000.0 / f64::from(count)), visit(0, Access::Atomic)];
        workload(&change.repeat(count as usize), &[Scope::Global], &[])
    };
    let (before, after) = (changes(4), changes(2));
    let plan = |workload| Plan::new(workload, &machine, 1000.0);
    let (rate_before, rate_after) = (4_223_977.0, 7_890_649.0);
    check("open1, 4 changes", plan(&before), &[(104, rate_before)]);
    check("open1, 2 changes", plan(&after), &[(104, rate_after)]);
    let [before, after] = [&before, &after]
        .map(|workload| Simulator::new(plan(workload)).unwrap().point(104).unwrap().rate);
    assert_near(after / before, rate_after / rate_before, 0.12);
}

/// An iteration of so many ns, in which each half takes one spin lock for so many ns of
/// instructions, with this number of lines inside. An instruction is 1 ns.
fn locked_twice(iteration_ns: f64, inside_ns: f64, lines: usize) -> Workload {
    let outside = compute(iteration_ns / 2.0 - inside_ns);
    let visits = (0..lines).map(|line| visit(line, Access::Atomic));
    let section = [outside, acquire(0), compute(inside_ns)].into_iter().chain(visits);
    let steps: Vec<Step> = section.chain([release(0)]).collect();
    let lock = (LockKind::Spin, Scope::Global);
    workload(&steps.repeat(2), &vec![Scope::Global; lines], &[lock])
}
