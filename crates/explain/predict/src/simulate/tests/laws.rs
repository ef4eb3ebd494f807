//! What holds for every workload, and closed formulas for simple ones.

use knee_stats::usl::percentiles;
use proptest::prelude::*;

use super::super::mva::Network;
use super::super::{Class, Inputs, Station};
use super::*;

/// Two sockets of two L3 caches with four cores of two threads.
fn two_sockets() -> Machine {
    machine([2, 2, 4, 2], [10.0, 25.0, 50.0, 150.0])
}

/// One socket, in which all transfers take 50 ns.
fn uniform(cores: u32) -> Machine {
    machine([1, 1, cores, 1], [50.0; 4])
}

#[test]
fn tasks_that_share_nothing_have_the_rate_of_one_task_times_the_clock() {
    let mut machine = machine([2, 1, 4, 1], [10.0, 50.0, 50.0, 150.0]);
    machine.clock.as_mut().unwrap().points = vec![(1, 1.0), (2, 0.9), (4, 0.7)];
    let own = [compute(900.0), visit(0, Access::Atomic), acquire(0), release(0), compute(100.0)];
    let workload = workload(&own, &[Scope::Task], &[(LockKind::Spin, Scope::Task)]);
    let speeds = [(1, 1.0), (2, 1.8), (3, 3.0 * 0.8), (4, 2.8), (5, 3.8), (8, 5.6)];
    for (tasks, speed) in speeds {
        let point = point(&workload, &machine, 1000.0, certain(0.0), tasks);
        assert_near(point.rate, speed * 1e6, 1e-12);
        assert_eq!((point.class, point.usages.len()), (Class::A, 0));
    }
}

#[test]
fn lines_that_nobody_writes_cost_nothing() {
    let steps = [compute(500.0), visit(0, Access::Load), compute(500.0)];
    let workload = workload(&steps, &[Scope::Global], &[]);
    let point = point(&workload, &uniform(8), 1000.0, certain(0.0), 8);
    assert_near(point.rate, 8e6, 0.01);
    assert_eq!(point.class, Class::A);
}

#[test]
fn busy_threads_of_a_core_slow_each_other_down() {
    let machine = machine([1, 1, 2, 2], [10.0, 50.0, 50.0, 50.0]);
    let workload = workload(&[compute(1.0)], &[], &[]);
    for (tasks, rate) in [(2, 2e6), (3, 1e6 + 2e6 / 1.6), (4, 4e6 / 1.6)] {
        let point = point(&workload, &machine, 1000.0, certain(0.0), tasks);
        assert_near(point.rate, rate, 1e-12);
    }
}

#[test]
fn instructions_take_longer_the_more_cores_of_the_socket_are_busy() {
    let workload = workload(&[compute(1.0)], &[], &[]);
    let uncertainty = Uncertainty { crowding: Range::exactly(1.2), ..certain(0.0) };
    let machine = machine([2, 1, 17, 1], [10.0, 50.0, 50.0, 150.0]);
    // Tasks fill one socket first.
    for (tasks, rate) in [(1, 1e6), (9, 9e6 / 1.1), (17, 17e6 / 1.2), (18, 17e6 / 1.2 + 1e6)] {
        assert_near(point(&workload, &machine, 1000.0, uncertainty, tasks).rate, rate, 1e-12);
    }
}

#[test]
fn a_contended_line_makes_one_transfer_at_a_time() {
    for visits in [1, 2, 3] {
        let steps = [compute(300.0), visit(0, Access::Atomic)].repeat(visits);
        let workload = workload(&steps, &[Scope::Global], &[]);
        let plateau = 1e9 / (50.0 * visits as f64);
        for tasks in [32, 64] {
            let point = point(&workload, &uniform(64), 500.0, certain(0.0), tasks);
            assert_near(point.rate, plateau, 0.01);
            let binding = point.binding().unwrap();
            assert_eq!((binding.station, point.class), (Station::Line(0), Class::B));
            assert_near(binding.visits, visits as f64, 0.01);
            assert_near(binding.service_ns, 50.0, 0.001);
            assert_near(binding.plateau, plateau, 0.01);
            assert!(binding.utilisation > 0.99 && binding.waiting > f64::from(tasks) / 2.0);
        }
    }
}

#[test]
fn a_loop_of_compare_and_swap_takes_two_transfers() {
    let steps = [compute(300.0), visit(0, Access::CompareExchange)];
    let workload = workload(&steps, &[Scope::Global], &[]);
    let point = point(&workload, &uniform(32), 500.0, certain(0.0), 32);
    assert_near(point.rate, 1e9 / 100.0, 0.01);
    assert_eq!(point.class, Class::B);
}

#[test]
fn a_loop_of_compare_and_swap_takes_one_transfer_if_the_cpu_has_a_copy() {
    let time = |loads: &[Step]| {
        let swap = [visit(0, Access::CompareExchange)];
        let steps = [&[compute(900.0)], loads, &swap].concat();
        let workload = workload(&steps, &[Scope::Global], &[]);
        // Two tasks hardly wait for each other.
        2e9 / point(&workload, &uniform(2), 900.0, certain(0.0), 2).rate - 900.0
    };
    assert_near(time(&[]), 100.0, 0.2);
    let load = visit(0, Access::Load);
    assert_near(time(&[load]), 100.0, 0.2);
    assert_near(time(&[load, compute(20.0)]), 120.0, 0.2);
}

#[test]
fn a_failed_compare_and_swap_has_the_line_for_the_next_one() {
    // With many tasks, another one takes the line between the load and the first attempt.
    let steps = [compute(900.0), visit(0, Access::Load), compute(20.0)];
    let steps = [&steps[..], &[visit(0, Access::CompareExchange)]].concat();
    let workload = workload(&steps, &[Scope::Global], &[]);
    let rate = point(&workload, &uniform(64), 920.0, certain(0.0), 64).rate;
    // Loads may share a transfer.
    assert!((0.98e7..=2.02e7).contains(&rate), "{rate}");
}

#[test]
fn the_cpu_that_had_a_line_keeps_it_while_the_request_for_it_travels() {
    // Two changes, 20 ns apart.
    let steps = [compute(480.0), visit(0, Access::Atomic), compute(20.0), visit(0, Access::Atomic)];
    let workload = workload(&steps, &[Scope::Global], &[]);
    let transfers = |kept| {
        let uncertainty = Uncertainty { kept: Range::exactly(kept), ..certain(0.0) };
        let point = point(&workload, &uniform(32), 500.0, uncertainty, 32);
        point.binding().unwrap().visits
    };
    assert_near(transfers(0.0), 2.0, 0.02);
    assert_near(transfers(0.6), 1.0, 0.02);
}

#[test]
fn threads_that_interrupt_each_other_take_longer_for_each_further_thread() {
    let workload = workload(&[compute(9000.0), Step::Shootdown], &[], &[]);
    let machine = uniform(64);
    let time = |tasks: u32| {
        let point = point(&workload, &machine, 9000.0, certain(0.0), tasks);
        f64::from(tasks) * 1e9 / point.rate
    };
    assert_near(time(1), 9000.0, 1e-9);
    // One CPU to interrupt takes 2 µs, and each further one 0.6 µs. Each of the others interrupts a
    // task once per iteration, for 0.85 µs.
    for tasks in [2, 10, 30, 55] {
        let others = f64::from(tasks - 1);
        assert_near(time(tasks), 9000.0 + 2000.0 + 600.0 * (others - 1.0) + 850.0 * others, 0.02);
    }
    let point = point(&workload, &machine, 9000.0, certain(0.0), 55);
    let binding = point.binding().unwrap();
    assert_eq!((binding.station, point.class), (Station::Shootdown, Class::B));
    for changed in [workload.without(&binding.name), workload.split(&binding.name)] {
        assert!(!changed.unwrap().has_shootdowns());
    }
    assert_near(binding.visits, 1.0, 0.02);
    assert!(binding.plateau >= point.rate);
}

#[test]
fn an_iteration_that_counts_twice_has_twice_the_rate_and_half_the_visits() {
    let change = [compute(500.0), visit(0, Access::Atomic)];
    let workload = workload(&change, &[Scope::Global], &[]);
    let once = point(&workload, &uniform(32), 500.0, certain(1.0), 32);
    let twice = once.clone().counted(2.0);
    assert_eq!(
        (twice.rate, twice.bound, twice.free),
        (2.0 * once.rate, 2.0 * once.bound, 2.0 * once.free)
    );
    let usage = &twice.usages[0];
    assert_near(usage.plateau * usage.visits * usage.service_ns, 1e9, 0.01);
}

#[test]
fn a_lock_takes_its_instructions_its_lines_and_two_to_four_transfers_to_pass_on() {
    // A section of 100 ns of instructions.
    let visits = [visit(0, Access::Atomic), visit(1, Access::Atomic), visit(2, Access::Atomic)];
    for lines in 0..=3 {
        let mut steps = vec![compute(400.0), acquire(0), compute(100.0)];
        steps.extend(&visits[..lines]);
        steps.push(release(0));
        let workload = workload(&steps, &[Scope::Global; 3], &[(LockKind::Spin, Scope::Global)]);
        let point = point(&workload, &uniform(32), 500.0, certain(1.0), 32);
        let binding = point.binding().unwrap();
        assert_eq!(binding.station, Station::Lock(0));
        let handover = (binding.service_ns - 100.0) / 50.0 - lines as f64;
        assert!((2.0..=4.0).contains(&handover), "{lines} lines: {handover}");
        assert_near(point.rate, 1e9 / binding.service_ns, 0.01);
    }
}

#[test]
fn a_waiting_cpu_takes_the_line_of_the_lock_from_its_holder() {
    // Stores to data beside the lock, after half of the section, and the same to private data.
    let section = [compute(800.0), acquire(0), compute(100.0), visit(1, Access::Store)];
    let rest = [compute(100.0), release(0)];
    let rate = |shares_line| {
        let steps = [&section[..], &rest].concat();
        let locks = [(LockKind::Spin, Scope::Global)];
        let mut workload = workload(&steps, &[Scope::Task; 2], &locks);
        workload.locks[0].line = if shares_line { 1 } else { 2 };
        workload.lines[1].scope = if shares_line { Scope::Global } else { Scope::Task };
        point(&workload, &uniform(16), 1000.0, certain(1.0), 16).rate
    };
    let (apart, beside) = (1e9 / rate(false), 1e9 / rate(true));
    // The holder does not wait for its store, but the line is under way more often, and so the
    // release and the waiting CPU are later.
    assert!((20.0..=100.0).contains(&(beside - apart)), "{apart} {beside}");
}

#[test]
fn a_waiting_cpu_notices_a_release_at_the_end_of_its_pause() {
    // Two tasks: one is in the section, and the other one waits.
    let steps = [compute(600.0), acquire(0), compute(900.0), release(0)];
    for kind in [LockKind::Spin, LockKind::Mutex, LockKind::RwSemaphore] {
        let workload = workload(&steps, &[], &[(kind, Scope::Global)]);
        let section = |pause| {
            let uncertainty = Uncertainty { pause_ns: Range::exactly(pause), ..certain(1.0) };
            1e9 / point(&workload, &uniform(16), 1500.0, uncertainty, 2).rate
        };
        // On average, half of a pause passes.
        let longer = section(200.0) - section(0.0);
        assert!((50.0..=150.0).contains(&longer), "{kind:?}: {longer}");
    }
}

#[test]
fn an_iteration_of_more_events_than_are_simulated_has_a_rate() {
    let steps = [compute(300.0), visit(0, Access::Atomic)].repeat(20_000);
    let workload = workload(&steps, &[Scope::Global], &[]);
    let point = point(&workload, &uniform(32), 500.0 * 20_000.0, certain(0.0), 32);
    assert_near(point.rate, 1e9 / (50.0 * 20_000.0), 0.01);
}

/// Without a limit of operations, this takes minutes.
#[test]
fn a_million_visits_without_events_have_a_rate() {
    let visits = vec![visit(1, Access::Load); 1_000_000];
    let steps = [vec![compute(300.0), visit(0, Access::Atomic)], visits].concat();
    let workload = workload(&steps, &[Scope::Global, Scope::Global], &[]);
    let point = point(&workload, &uniform(4), 1000.0, certain(0.0), 4);
    assert!(point.rate > 0.0);
}

#[test]
fn locks_pass_in_order_of_arrival_wherever_the_waiters_are() {
    let steps = [compute(400.0), acquire(0), compute(100.0), release(0)];
    let workload = workload(&steps, &[], &[(LockKind::Spin, Scope::Global)]);
    for near_first in [0.0, 1.0] {
        let machine = machine([2, 1, 8, 1], [10.0, 50.0, 50.0, 150.0]);
        let point = point(&workload, &machine, 500.0, certain(near_first), 16);
        // Half of the waiting tasks are on the other socket.
        assert_near(point.usages[0].far, 8.0 / 15.0, 0.1);
    }
}

#[test]
fn near_first_is_faster_over_two_sockets_and_the_same_in_one() {
    let steps = [compute(500.0), visit(0, Access::Atomic)];
    let workload = workload(&steps, &[Scope::Global], &[]);
    let machine = machine([2, 1, 16, 1], [10.0, 50.0, 50.0, 150.0]);
    let at = |near_first, tasks| point(&workload, &machine, 500.0, certain(near_first), tasks);
    let [fifo, middle, near] = [0.0, 0.5, 1.0].map(|near_first| at(near_first, 32));
    // In order of arrival, every other transfer is between sockets.
    assert_near(fifo.rate, 1e9 / 100.0, 0.05);
    assert_near(near.rate, 1e9 / 50.0, 0.02);
    assert!(fifo.rate * 1.1 < middle.rate && middle.rate * 1.1 < near.rate);
    assert_eq!((fifo.class, near.class), (Class::C, Class::B));
    assert_near(at(0.0, 16).rate, at(1.0, 16).rate, 0.01);
}

#[test]
fn the_other_thread_of_a_core_gets_a_line_faster_but_not_first() {
    let steps = [compute(500.0), visit(0, Access::Atomic)];
    let workload = workload(&steps, &[Scope::Global], &[]);
    let machine = machine([1, 1, 8, 2], [10.0, 50.0, 50.0, 50.0]);
    let at = |near_first| point(&workload, &machine, 200.0, certain(near_first), 16).rate;
    // One of the 15 other threads is on the same core.
    for near_first in [0.0, 1.0] {
        assert_near(at(near_first), 1e9 / (50.0 - 40.0 / 15.0), 0.03);
    }
}

#[test]
fn a_line_for_each_socket_scales_with_the_sockets() {
    let steps = [compute(500.0), visit(0, Access::Atomic)];
    let of = |scope| workload(&steps, &[scope], &[]);
    let machine = machine([4, 1, 16, 1], [10.0, 50.0, 50.0, 150.0]);
    for sockets in 1..=4 {
        let point = point(&of(Scope::Node), &machine, 500.0, certain(0.0), 16 * sockets);
        assert_near(point.rate, f64::from(sockets) * 2e7, 0.01);
        let binding = point.binding().unwrap();
        assert_eq!((binding.instances, point.class), (sockets as usize, Class::B));
        assert_near(binding.plateau, point.rate, 0.02);
    }
}

#[test]
fn a_line_that_two_of_four_traced_cpus_share_is_shared_by_pairs_of_tasks() {
    let shares = Iteration { steps: vec![compute(500.0), visit(0, Access::Atomic)] };
    let alone = Iteration { steps: vec![compute(500.0)] };
    let mut workload = workload(&[], &[Scope::Group], &[]);
    let of = |iteration: &Iteration| Recorded { node: 0, iterations: vec![iteration.clone()] };
    workload.recorded = [&shares, &shares, &alone, &alone].map(of).to_vec();
    let point = point(&workload, &uniform(64), 500.0, certain(0.0), 64);
    // A task that shares waits for at most one transfer per iteration.
    assert!(point.rate > 32.0 * 1e9 / 500.0 + 32.0 * 1e9 / 600.0);
    assert_eq!(point.usages[0].instances, 16);
}

#[test]
fn tasks_replay_the_iterations_of_their_node() {
    let mut workload = workload(&[], &[Scope::Global], &[]);
    let of = |node, steps: &[Step]| Recorded {
        node,
        iterations: vec![Iteration { steps: steps.to_vec() }],
    };
    let remote = [compute(500.0), visit(0, Access::Atomic)];
    workload.recorded = vec![of(0, &[compute(500.0)]), of(1, &remote)];
    let machine = machine([2, 1, 8, 1], [10.0, 50.0, 50.0, 150.0]);
    let at = |tasks| point(&workload, &machine, 500.0, certain(0.0), tasks);
    assert_near(at(8).rate, 8.0 * 2e6, 0.01);
    assert!(at(8).usages.is_empty());
    assert_eq!(at(16).usages[0].far, 0.0);
}

#[test]
fn a_store_does_not_wait_until_an_atomic_access_follows() {
    let alone = 8.0 * 1e9 / 1000.0;
    let rate = |steps: &[Step]| {
        let workload = workload(steps, &[Scope::Global, Scope::Task], &[]);
        point(&workload, &uniform(8), 1000.0, certain(0.0), 8).rate
    };
    // The line is busy for less than half of the time.
    let stores = rate(&[compute(1000.0), visit(0, Access::Store)]);
    assert_near(stores, alone, 0.02);
    let loads = rate(&[compute(1000.0), visit(0, Access::Store), visit(0, Access::Load)]);
    assert_near(loads, alone, 0.02);
    let waits = rate(&[compute(1000.0), visit(0, Access::Atomic)]);
    assert!(waits < 0.97 * alone, "{waits}");
}

#[test]
fn a_cpu_requests_at_most_twelve_lines_for_stores_at_the_same_time() {
    let time = |lines: usize| {
        // Both tasks write all lines, and then wait for them.
        let stores = (0..lines).map(|line| visit(line, Access::Store));
        let ends = [compute(2000.0), visit(lines, Access::Atomic)];
        let steps: Vec<Step> = stores.chain(ends).collect();
        let workload = workload(&steps, &vec![Scope::Global; lines + 1], &[]);
        2e9 / point(&workload, &uniform(2), 2000.0, certain(0.0), 2).rate
    };
    // Instructions go on until the store buffer is full, after 400 ns.
    assert_near(time(12), 2050.0, 0.02);
    assert_near(time(240) - time(12), 240.0 / 12.0 * 50.0 - 400.0, 0.1);
}

#[test]
fn stores_cannot_exceed_what_their_line_allows() {
    let workload = workload(&[compute(1000.0), visit(0, Access::Store)], &[Scope::Global], &[]);
    let point = point(&workload, &uniform(64), 1000.0, certain(0.0), 64);
    assert!(point.rate <= 1.01 * 1e9 / 50.0, "{}", point.rate);
    assert!(point.rate >= 0.95 * 1e9 / 50.0, "{}", point.rate);
}

#[test]
fn readers_share_a_lock_and_contend_for_its_word() {
    let shared = |kind, hold| {
        let steps = [compute(100.0), Step::Acquire { lock: 0, hold }, compute(900.0), release(0)];
        workload(&steps, &[], &[(kind, Scope::Global)])
    };
    let of = |hold| {
        let workload = shared(LockKind::RwSemaphore, hold);
        point(&workload, &uniform(64), 1000.0, certain(0.0), 64)
    };
    let readers = of(Hold::Shared);
    assert_eq!(readers.usages[0].station, Station::Line(0));
    assert_near(readers.rate, 1e9 / 100.0, 0.01);
    let writers = of(Hold::Exclusive);
    // The writer that releases it and the one that takes it each need the line once or twice.
    let handover = 1e9 / writers.rate - 900.0;
    assert!((100.0..=250.0).contains(&handover), "{handover}");
    assert_eq!((readers.class, writers.class), (Class::B, Class::B));
}

#[test]
fn readers_and_writers_all_progress() {
    let half = |hold| {
        let steps = vec![compute(500.0), Step::Acquire { lock: 0, hold }, compute(500.0)];
        let steps = steps.into_iter().chain([release(0)]).collect();
        Recorded { node: 0, iterations: vec![Iteration { steps }] }
    };
    let mut workload = workload(&[], &[], &[(LockKind::Spin, Scope::Global)]);
    let mut at = |holds: [Hold; 2]| {
        workload.recorded = holds.map(half).to_vec();
        point(&workload, &uniform(16), 1000.0, certain(0.0), 16)
    };
    let point = at([Hold::Exclusive, Hold::Shared]);
    let writers = at([Hold::Exclusive; 2]).rate;
    assert!(point.rate > 1.1 * writers, "{} {writers}", point.rate);
    assert_eq!(point.usages[0].station, Station::Lock(0));
    assert!(point.usages[0].utilisation <= 1.0);
}

/// If the lock is passed on, a section takes 100 ns and transfers. Otherwise, it takes 100 ns.
#[test]
fn a_lock_of_a_program_is_bound_by_its_sections_alone_as_soon_as_a_task_waits() {
    let steps = [compute(300.0), acquire(0), compute(100.0), release(0)];
    let of = |kind| {
        let workload = workload(&steps, &[], &[(kind, Scope::Global)]);
        point(&workload, &uniform(32), 400.0, certain(0.0), 8)
    };
    let (spin, futex) = (of(LockKind::Spin), of(LockKind::Futex));
    assert_near(futex.bound, 1e9 / 100.0, 0.02);
    assert!(spin.bound < 0.9 * futex.bound, "{} {}", spin.bound, futex.bound);
    assert_eq!((spin.class, futex.class), (Class::B, Class::D));
}

#[test]
fn only_a_bound_is_known_if_readers_and_writers_of_a_semaphore_wait() {
    let section =
        |hold| [compute(900.0), Step::Acquire { lock: 0, hold }, compute(900.0), release(0)];
    let [write, read] = [Hold::Exclusive, Hold::Shared].map(section);
    let class = |steps: &[Step], kind, tasks| {
        let workload = workload(steps, &[], &[(kind, Scope::Global)]);
        point(&workload, &uniform(32), 1800.0, certain(0.0), tasks).class
    };
    let both = [write, read].concat();
    assert_eq!(class(&both, LockKind::RwSemaphore, 32), Class::D);
    assert_eq!(class(&both, LockKind::RwSemaphore, 1), Class::A);
    assert_eq!(class(&both, LockKind::Spin, 32), Class::B);
    for kind in [LockKind::Mutex, LockKind::RwSemaphore] {
        assert_eq!(class(&write, kind, 32), Class::B);
    }
}

#[test]
fn the_time_inside_locks_varies_at_the_same_time_of_the_iteration() {
    let steps = [compute(800.0), acquire(0), compute(600.0), release(0)];
    let workload = workload(&steps, &[], &[(LockKind::Spin, Scope::Global)]);
    let of = |section, tasks| {
        let uncertainty = Uncertainty { section: Range::exactly(section), ..certain(0.0) };
        point(&workload, &uniform(16), 1400.0, uncertainty, tasks).rate
    };
    assert_near(of(1.3, 1), of(1.0, 1), 1e-12);
    let handover = 1e9 / of(1.0, 16) - 600.0;
    for section in [0.7, 1.3] {
        assert_near(of(section, 16), 1e9 / (600.0 * section + handover), 0.05);
    }
}

#[test]
fn the_simulation_agrees_with_mean_value_analysis_for_exponential_sections() {
    // Quantiles of the exponential distribution, in a scattered order.
    let count: u32 = 997;
    let section = |nr: u32| -(1.0 - (f64::from(nr * 389 % count) + 0.5) / f64::from(count)).ln();
    let iterations = |shift: u32| {
        let iteration = |nr: u32| Iteration {
            steps: vec![
                compute(900.0),
                acquire(0),
                compute(60.0 * section(nr + shift)),
                release(0),
                acquire(1),
                compute(40.0 * section((nr + shift) * 7)),
                release(1),
            ],
        };
        (0..count).map(iteration).collect()
    };
    let locks = [(LockKind::Spin, Scope::Global); 2];
    let mut workload = workload(&[], &[], &locks);
    workload.recorded =
        (0..32).map(|cpu| Recorded { node: 0, iterations: iterations(cpu * 31) }).collect();
    let machine = machine([1, 1, 32, 1], [1e-6; 4]);
    let network = Network { think_ns: 900.0, demands_ns: vec![60.0, 40.0] };
    for tasks in [2, 8, 16, 24, 32] {
        let point = point(&workload, &machine, 1000.0, certain(0.0), tasks);
        assert_near(point.rate, network.throughput(tasks), 0.03);
        // The demands come from the simulation.
        assert_near(point.analysis.unwrap(), network.throughput(tasks), 0.02);
    }
}

#[test]
fn constant_sections_are_between_mean_value_analysis_and_the_bounds() {
    let steps = [compute(900.0), acquire(0), compute(100.0), release(0)];
    let workload = workload(&steps, &[], &[(LockKind::Spin, Scope::Global)]);
    let machine = machine([1, 1, 32, 1], [1e-6; 4]);
    let network = Network { think_ns: 900.0, demands_ns: vec![100.0] };
    for tasks in [2, 6, 10, 14, 32] {
        let rate = point(&workload, &machine, 1000.0, certain(0.0), tasks).rate;
        let least = network.throughput(tasks);
        assert!(rate >= 0.99 * least && rate <= 1.01 * network.bound(tasks), "{tasks}: {rate}");
        assert!(rate <= 1.33 * least, "{tasks}: {rate}");
    }
}

#[test]
fn equal_seeds_give_equal_predictions_and_bands_contain_their_rates() {
    let steps = [compute(500.0), visit(0, Access::Atomic), acquire(0), compute(50.0), release(0)];
    let workload = workload(&steps, &[Scope::Global], &[(LockKind::Spin, Scope::Global)]);
    let machine = two_sockets();
    let point = |seed| {
        let plan = Plan { draws: 30, seed, ..Plan::new(&workload, &machine, 800.0) };
        Simulator::new(plan).unwrap().point(20).unwrap()
    };
    let first = point(1);
    assert_eq!(first, point(1));
    assert_ne!(first.rates, point(2).rates);
    assert!(first.low < first.rate && first.rate < first.high);
    let inside = first.rates.iter().filter(|rate| (first.low..=first.high).contains(rate));
    assert!((26..=28).contains(&inside.count()));
}

#[test]
fn errors_of_the_machine_cancel_in_the_ratio_of_two_workloads() {
    let visits = |count| {
        let steps = [compute(500.0), visit(0, Access::Atomic)].repeat(count);
        workload(&steps, &[Scope::Global], &[])
    };
    let machine = uniform(32);
    let rates = |workload: &Workload| {
        let plan = Plan { draws: 40, ..Plan::new(workload, &machine, 1000.0) };
        Simulator::new(plan).unwrap().point(32).unwrap().rates
    };
    for (two, one) in rates(&visits(2)).iter().zip(rates(&visits(1))) {
        assert_near(one / two, 2.0, 0.05);
    }
}

#[test]
fn the_time_of_another_kernel_has_an_error_of_its_own() {
    let of = |relative: Range, seed: u64| {
        let uncertainty = Uncertainty { relative, ..Uncertainty::default() };
        Inputs::draw(&two_sockets(), 100.0, &uncertainty, seed).unwrap()
    };
    let ratio = |seed: u64| {
        let first = of(Range::exactly(1.0), seed);
        let other = of(Range::new(0.85, 1.15), seed);
        assert_eq!(first.transfer_ns, other.transfer_ns);
        other.iteration_ns / first.iteration_ns
    };
    let ratios: Vec<f64> = (0..200).map(ratio).collect();
    let (low, high) = percentiles(ratios, 0.9).unwrap();
    assert!((0.85..0.88).contains(&low) && (1.12..1.15).contains(&high), "{low} {high}");
}

#[test]
fn a_machine_with_missing_figures_has_stated_ones() {
    let mut machine = two_sockets();
    machine.transfer_ns = Transfers { socket: machine.transfer_ns.socket, ..Default::default() };
    machine.clock = None;
    machine.smt_slowdown = None;
    let uncertainty = certain(0.0);
    let inputs = Inputs::middle(&machine, 100.0, &uncertainty).unwrap();
    assert_eq!(inputs.transfer_ns, [10.0, 27.0, 50.0, 125.0]);
    let assumed = super::super::assumptions(&machine, &uncertainty, [].iter());
    assert_eq!(assumed.len(), 5, "{assumed:?}");
    assert!(super::super::assumptions(&two_sockets(), &uncertainty, [].iter()).is_empty());
    let steps = [acquire(0), compute(1.0), release(0), Step::Shootdown];
    let both = [workload(&steps, &[], &[(LockKind::Spin, Scope::Global)])];
    assert_eq!(super::super::assumptions(&two_sockets(), &uncertainty, both.iter()).len(), 2);
    machine.transfer_ns.socket = None;
    let error = Inputs::middle(&machine, 100.0, &uncertainty).unwrap_err().to_string();
    assert_eq!(error, "the machine made-up has no transfer_ns.socket; add it to its file");
}

#[test]
fn the_analysis_of_a_point_applies_to_queues_with_one_server_only() {
    let lock = [(LockKind::Spin, Scope::Global)];
    let analysis = |steps: &[Step], scope| {
        let workload = workload(steps, &[scope, scope], &lock);
        let point = point(&workload, &two_sockets(), 1000.0, certain(0.5), 12);
        point.analysis.map(|analysis| analysis / point.rate)
    };
    let [count, other] = [visit(0, Access::Atomic), visit(1, Access::Atomic)];
    let simple = [compute(600.0), other, acquire(0), compute(40.0), count, release(0)];
    for steps in [&simple[..], &simple[..2], &simple[2..], &[compute(800.0), count, other]] {
        let ratio = analysis(steps, Scope::Global).unwrap();
        assert!((0.75..1.01).contains(&ratio), "{ratio}");
    }
    assert_eq!(analysis(&[&simple[..], &[count]].concat(), Scope::Global), None);
    assert_eq!(analysis(&simple, Scope::Node), None);
    assert_eq!(analysis(&[&simple[..], &[visit(1, Access::Store)]].concat(), Scope::Global), None);
    let shared = Step::Acquire { lock: 0, hold: Hold::Shared };
    assert_eq!(analysis(&[compute(600.0), shared, release(0)], Scope::Global), None);
}

fn any_access() -> impl Strategy<Value = Access> {
    prop::sample::select(vec![Access::Load, Access::Store, Access::Atomic, Access::CompareExchange])
}

/// Steps of an iteration: sections of the locks, in their order, and visits inside and outside.
fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let visits = || prop::collection::vec((0.0..300.0_f64, 0_usize..3, any_access()), 0..4);
    let section = (any::<bool>(), any::<bool>(), visits());
    (visits(), prop::collection::vec(section, 2)).prop_map(|(outside, sections)| {
        let flat = |visits: Vec<(f64, usize, Access)>| {
            visits.into_iter().flat_map(|(time, line, access)| [compute(time), visit(line, access)])
        };
        let mut steps = vec![compute(200.0)];
        steps.extend(flat(outside));
        for (lock, (is_taken, is_shared, inside)) in sections.into_iter().enumerate() {
            let hold = if is_shared { Hold::Shared } else { Hold::Exclusive };
            let ends = is_taken.then_some((Step::Acquire { lock, hold }, release(lock)));
            steps.extend(ends.map(|(start, _)| start));
            steps.extend(flat(inside));
            steps.extend(ends.map(|(_, end)| end));
        }
        steps
    })
}

fn any_scope() -> impl Strategy<Value = Scope> {
    prop::sample::select(vec![Scope::Global, Scope::Node, Scope::Group, Scope::Task])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_workload_exceeds_the_asymptotic_bounds_or_stops(
        iterations in prop::collection::vec(any_steps(), 1..4),
        lines in prop::collection::vec(any_scope(), 3),
        locks in prop::collection::vec(any_scope(), 2),
        tasks in 1_u32..=32,
        near_first in 0.0..=1.0_f64,
    ) {
        let locks: Vec<_> = locks.into_iter().map(|scope| (LockKind::Spin, scope)).collect();
        let mut workload = workload(&[], &lines, &locks);
        let iteration = |steps| Iteration { steps };
        workload.recorded[0].iterations = iterations.into_iter().map(iteration).collect();
        let time = workload.mean_instructions();
        let point = point(&workload, &two_sockets(), time, certain(near_first), tasks);
        // Times of instructions vary by chance.
        prop_assert!(point.rate <= 1.02 * point.bound, "{} > {}", point.rate, point.bound);
        // All tasks together are not slower than tasks that take turns, each with the longest
        // transfers and handovers.
        let steps = workload.recorded[0].iterations.iter().flat_map(|iteration| &iteration.steps);
        let most = steps.map(|step| match step {
            Step::Compute { .. } => 0.0,
            Step::Visit { .. } | Step::Shootdown => 300.0,
            Step::Acquire { .. } | Step::Release { .. } => 900.0,
        });
        let longest = 1.6 * 1.2 * time * workload.recorded[0].iterations.len() as f64
            + most.sum::<f64>();
        prop_assert!(point.rate >= 0.9 * 1e9 / longest, "{} < {}", point.rate, 1e9 / longest);
        for usage in &point.usages {
            prop_assert!((0.0..=1.0).contains(&usage.utilisation), "{usage:?}");
            prop_assert!((0.0..=f64::from(tasks)).contains(&usage.waiting), "{usage:?}");
            prop_assert!((0.0..=1.0).contains(&usage.far), "{usage:?}");
        }
    }
}
