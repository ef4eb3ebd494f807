//! Visits and lock sections of made-up operations.

use knee_agent::Experiment;

use super::*;
use crate::record::{Record, SharedAccesses, TestResult};

/// The functions of the made-up kernel. The code of each begins at a multiple of 4096.
const FUNCTIONS: &[&str] = &[
    "f",
    "_raw_spin_lock",
    "_raw_write_lock",
    "_raw_read_lock",
    "mutex_lock",
    "mutex_unlock",
    "down_read",
    "down_write",
    "downgrade_write",
    "up_read",
    "up_write",
    "flush_tlb_mm_range",
];

fn functions() -> Functions {
    let mut functions = Functions::default();
    for (number, name) in FUNCTIONS.iter().enumerate() {
        functions.add((number as u64 + 1) * 4096, || (*name).to_owned());
    }
    functions
}

/// Parses an access such as `100 mutex_lock B8/4 cas`: the position, the function, the line and the first
/// byte in it, the number of bytes, and the kind. The line is a letter.
fn access(text: &str) -> SharedAccess {
    let words: Vec<&str> = text.split(' ').collect();
    let [at, function, to, kind] = words[..] else { panic!("{text}") };
    let function = FUNCTIONS.iter().position(|name| *name == function).expect(text);
    let (line, place) = to.split_at(1);
    let (offset, bytes) = place.split_once('/').expect(text);
    SharedAccess {
        at: at.parse().expect(text),
        line: 64 * u64::from(line.as_bytes()[0] - b'A'),
        pc: (function as u64 + 1) * 4096 + 8,
        offset: offset.parse().expect(text),
        bytes: bytes.parse().expect(text),
        kind: match kind {
            "load" => AccessKind::Load,
            "store" => AccessKind::Store,
            "atomic" => AccessKind::Atomic,
            "cas" => AccessKind::CompareExchange,
            _ => panic!("{text}"),
        },
    }
}

/// An operation of 1000 instructions on a CPU, with these accesses.
fn operation(cpu: u32, accesses: &str) -> TestResult {
    let line = format!(
        r#"{{"test":0,"sides":[{{"side":0,"cpu":{cpu},"opened":1,"closed":1,"instructions":1000,
        "accesses":7,"read":3,"written":2,"interrupts":0,"switches":0,"unresolved":0,
        "overflowed":false}}],"conflicts":[],"more":0,"stray":0}}"#
    );
    let Ok(Record::Test(mut result)) = Record::parse(&line) else { panic!("{line}") };
    let list = accesses.split(", ").filter(|text| !text.is_empty()).map(access).collect();
    result.accesses = vec![SharedAccesses { side: 0, cut: false, list }];
    result
}

/// The contention of operations, each given with its CPU. There are `cpus` CPUs in two memory nodes.
fn contention(cpus: u32, operations: &[(u32, &str)]) -> Contention {
    let operations = operations.iter().map(|(cpu, accesses)| operation(*cpu, accesses));
    contention_of(cpus, operations.collect())
}

fn contention_of(cpus: u32, operations: Vec<TestResult>) -> Contention {
    let half = (1 << (cpus / 2)) - 1;
    let cost = Cost {
        experiment: Experiment { operation: "open".to_owned(), cpus },
        operations,
        deferred: Vec::new(),
        data: BTreeMap::new(),
        words: BTreeMap::new(),
        nodes: vec![half, half << (cpus / 2)],
    };
    cost.contention(0, VISIT_DISTANCE, &functions())
}

/// The contention of an operation that two CPUs perform.
fn done_twice(accesses: &str) -> Contention {
    contention(2, &[(0, accesses), (1, accesses)])
}

/// The events of the first operation.
fn events_of(contention: &Contention) -> Vec<String> {
    let letter = |line: usize| char::from(b'A' + (contention.lines[line].line / 64) as u8);
    let lock = |lock: usize| {
        let Lock { line, offset, kind, .. } = &contention.locks[lock];
        format!("{} {}{offset}", kind.as_str(), letter(*line))
    };
    let event = |event: &ContentionEvent| match event.kind {
        EventKind::Visit(visit) => format!("{} {:?} {}", event.at, visit.kind, letter(visit.line)),
        EventKind::Acquire { lock: of, hold } => format!("{} {hold:?} {}", event.at, lock(of)),
        EventKind::Release { lock: of } => format!("{} Release {}", event.at, lock(of)),
        EventKind::Shootdown => format!("{} Shootdown", event.at),
    };
    contention.iterations[0].events.iter().map(event).collect()
}

fn visits_of(contention: &Contention) -> Vec<Visit> {
    let visit = |event: &ContentionEvent| match event.kind {
        EventKind::Visit(visit) => Some(visit),
        _ => None,
    };
    contention.iterations[0].events.iter().filter_map(visit).collect()
}

#[test]
fn similar_operations_replace_interrupted_ones_unless_most_are_interrupted() {
    let sized = |cpu, instructions, interrupts, accesses: &str| {
        let mut operation = operation(cpu, accesses);
        operation.sides[0].instructions = instructions;
        operation.sides[0].interrupts = interrupts;
        operation
    };
    let (count, tick) = ("10 f A0/4 atomic", "10 f A0/4 atomic, 800 f B0/4 atomic");
    let few = contention_of(
        2,
        vec![
            sized(0, 1000, 0, count),
            sized(1, 1000, 0, count),
            sized(1, 5000, 0, count),
            sized(0, 9000, 0, count),
            sized(1, 2500, 1, tick),
            sized(1, 6000, 1, tick),
        ],
    );
    let instructions: Vec<u64> = few.iterations.iter().map(|one| one.instructions).collect();
    assert_eq!(instructions, [1000, 1000, 5000, 9000, 1000, 5000]);
    assert_eq!(few.lines.len(), 1);
    let interrupted = sized(1, 1000, 1, tick);
    let most = contention_of(2, vec![operation(0, tick), interrupted.clone(), interrupted]);
    assert_eq!((most.iterations.len(), most.lines.len()), (3, 2));
}

#[test]
fn accesses_that_follow_each_other_closely_are_one_visit() {
    let done = done_twice("0 f A0/4 load, 149 f A8/8 atomic, 298 f A0/4 atomic, 448 f A0/4 store");
    assert_eq!(events_of(&done), ["0 Atomic A", "448 Store A"]);
    let [first, second] = visits_of(&done)[..] else { panic!() };
    assert_eq!((first.accesses, first.atomics, first.instructions), (3, 2, 298));
    assert_eq!((second.accesses, second.atomics, second.instructions), (1, 0, 0));
    assert_eq!((first.begins_with_load, second.begins_with_load), (true, false));
    assert_eq!(done.lines[0].visits, 2.0);
}

#[test]
fn a_compare_and_exchange_needs_the_line_twice_only_after_a_load_of_the_same_bytes() {
    for (accesses, kind) in [
        ("0 f A0/8 load, 5 f A0/8 cas", "0 CompareExchange A"),
        ("0 f A4/4 load, 5 f A0/8 cas", "0 CompareExchange A"),
        ("0 f A8/4 load, 5 f A0/8 cas", "0 Atomic A"),
        ("0 f A0/8 store, 5 f A0/8 cas", "0 Atomic A"),
        ("0 f A0/8 cas", "0 Atomic A"),
    ] {
        assert_eq!(events_of(&done_twice(accesses)), [kind], "{accesses}");
    }
}

#[test]
fn lines_of_one_cpu_and_lines_that_nobody_writes_are_left_out() {
    let done = contention(
        2,
        &[
            (0, "0 f A0/4 load, 0 f B0/4 atomic, 5 f C0/4 load"),
            (1, "0 f A0/4 load, 5 f C0/4 store"),
        ],
    );
    assert_eq!(events_of(&done), ["5 Load C"]);
    assert_eq!(done.lines.len(), 1);
    assert_eq!((done.lines[0].cpus, done.lines[0].visits), (0b11, 1.0));
}

#[test]
fn a_spin_lock_is_recognised_by_its_function_or_by_its_release() {
    let expected = ["10 Exclusive spin lock A0", "20 Store B", "60 Release spin lock A0"];
    for taken in ["_raw_spin_lock", "f"] {
        let done = done_twice(&format!("10 {taken} A0/4 cas, 20 f B0/8 store, 60 f A0/1 store"));
        assert_eq!(events_of(&done), expected, "{taken}");
        let [lock] = &done.locks[..] else { panic!("{:?}", done.locks) };
        assert_eq!((lock.exclusive.per_operation, lock.shared.per_operation), (1.0, 0.0));
        let LockSections { instructions, lines, inside, .. } = &lock.exclusive;
        assert_eq!((instructions.median, lines.median), (50, 1));
        assert_eq!(inside, &[(1, 1.0)]);
        assert_eq!(done.lines[1].guard, Some(0), "B is accessed only with the lock");
    }
}

/// Two threads of a program perform an operation. Returns the events of the first thread's operation.
fn events_of_program(accesses: &str) -> Vec<String> {
    let operations = [0, 1].map(|cpu| operation(cpu, accesses)).into();
    let cost = Cost {
        experiment: Experiment { operation: "get".to_owned(), cpus: 2 },
        operations,
        deferred: Vec::new(),
        data: BTreeMap::new(),
        words: BTreeMap::new(),
        nodes: Vec::new(),
    };
    let mut functions = functions();
    functions.are_of_program = true;
    events_of(&cost.contention(0, VISIT_DISTANCE, &functions))
}

#[test]
fn a_program_takes_a_lock_by_comparing_with_a_constant() {
    let events = events_of_program("0 f A0/1 cas, 50 f B0/8 store, 90 f A0/1 atomic");
    assert_eq!(events, ["0 Exclusive mutex A0", "50 Store B", "90 Release mutex A0"]);
    let events = events_of_program("0 f A0/4 cas, 90 f A0/4 store");
    assert_eq!(events, ["0 Exclusive spin lock A0", "90 Release spin lock A0"]);
    // A reference count is incremented because it is not zero, and later decremented.
    let events = events_of_program("0 f A0/8 load, 5 f A0/8 cas, 400 f A0/8 atomic");
    assert_eq!(events, ["0 CompareExchange A", "400 Atomic A"]);
    // The names of kernel functions mean nothing in a program.
    let events = events_of_program("0 mutex_lock A0/8 atomic, 400 f A0/8 atomic");
    assert_eq!(events, ["0 Atomic A", "400 Atomic A"]);
}

#[test]
fn atomic_instructions_without_a_matching_release_are_visits() {
    for accesses in [
        // The lock is not released in the operation, was taken before the operation, or could not be taken.
        "10 _raw_spin_lock A0/4 cas",
        "10 f A0/1 store",
        "10 _raw_spin_lock A0/4 load",
        // A compare and exchange of a counter.
        "10 f A0/4 cas, 20 f A0/4 atomic",
        "10 f A0/4 cas, 20 f A4/1 store",
        "10 f A0/8 cas, 20 f A0/1 store",
        // A mutex that is taken, but not released.
        "10 mutex_lock A0/8 cas, 20 mutex_lock A0/8 cas",
    ] {
        let done = done_twice(&format!("{accesses}, 900 f A60/4 store"));
        assert!(done.locks.is_empty(), "{accesses}: {:?}", done.locks);
        assert_eq!(events_of(&done).len(), 2, "{accesses}");
    }
}

#[test]
fn the_kind_and_the_hold_of_a_lock_come_from_the_function_that_takes_it() {
    for (accesses, taken, lock) in [
        ("0 mutex_lock A8/8 cas, 9 mutex_unlock A8/8 cas", "Exclusive", "mutex A8"),
        ("0 down_read A0/8 atomic, 9 up_read A0/8 atomic", "Shared", "reader-writer semaphore A0"),
        (
            "0 down_write A0/8 cas, 9 up_write A0/8 atomic",
            "Exclusive",
            "reader-writer semaphore A0",
        ),
        ("0 _raw_write_lock A0/4 cas, 9 f A0/1 store", "Exclusive", "reader-writer spin lock A0"),
        ("0 _raw_read_lock A0/4 atomic, 9 f A0/4 atomic", "Shared", "reader-writer spin lock A0"),
    ] {
        let expected = [format!("0 {taken} {lock}"), format!("9 Release {lock}")];
        assert_eq!(events_of(&done_twice(accesses)), expected);
    }
}

#[test]
fn a_downgrade_ends_one_section_and_begins_another() {
    let done =
        done_twice("0 down_write A0/8 cas, 10 downgrade_write A0/8 atomic, 30 up_read A0/8 atomic");
    let lock = "reader-writer semaphore A0";
    assert_eq!(
        events_of(&done),
        [
            format!("0 Exclusive {lock}"),
            format!("10 Release {lock}"),
            format!("10 Shared {lock}"),
            format!("30 Release {lock}"),
        ]
    );
    let Lock { exclusive, shared, .. } = &done.locks[0];
    assert_eq!((exclusive.per_operation, exclusive.instructions.median), (1.0, 10));
    assert_eq!((shared.per_operation, shared.instructions.median), (1.0, 20));
}

#[test]
fn sections_nest_and_contain_the_lines_of_inner_locks() {
    let done = done_twice(
        "0 down_write A0/8 cas, 10 _raw_spin_lock B0/4 cas, 20 f C0/8 store, 30 f B0/1 store, \
         40 f D0/8 load, 50 f D0/8 store, 60 up_write A0/8 atomic, 400 f D0/8 load",
    );
    let (outer, inner) = ("reader-writer semaphore A0", "spin lock B0");
    assert_eq!(
        events_of(&done),
        [
            format!("0 Exclusive {outer}"),
            format!("10 Exclusive {inner}"),
            "20 Store C".to_owned(),
            format!("30 Release {inner}"),
            "40 Store D".to_owned(),
            format!("60 Release {outer}"),
            "400 Load D".to_owned(),
        ]
    );
    let lines: Vec<u64> = done.locks.iter().map(|lock| lock.exclusive.lines.median).collect();
    assert_eq!(lines, [3, 1]);
    let guards: Vec<Option<usize>> = done.lines.iter().map(|line| line.guard).collect();
    assert_eq!(guards, [None, Some(0), Some(1), None], "A, B, C, D");
}

#[test]
fn accesses_to_the_line_of_a_lock_belong_to_its_section_unless_they_are_far_away() {
    let done = done_twice(
        "0 f A32/8 load, 10 mutex_lock A0/8 cas, 20 f A32/8 store, 500 f A40/8 store, \
         600 mutex_unlock A0/8 cas, 640 f A40/8 load, 900 f A40/8 load",
    );
    let expected =
        ["0 Load A", "10 Exclusive mutex A0", "500 Store A", "600 Release mutex A0", "900 Load A"];
    assert_eq!(events_of(&done), expected);
    assert_eq!(done.lines[0].visits, 3.0, "with those of the section");
    assert_eq!((done.lines[0].guard, done.locks[0].exclusive.lines.median), (None, 0));
}

#[test]
fn the_holder_of_a_lock_visits_its_line_again_however_dense_its_accesses_are() {
    let done = done_twice(
        "0 _raw_spin_lock A0/4 cas, 100 f A8/4 load, 200 f A8/4 store, 300 f A16/4 store, \
         400 f A0/1 store, 450 f B0/4 load, 550 f B0/4 load, 650 f B0/4 store",
    );
    let expected =
        ["0 Exclusive spin lock A0", "200 Store A", "400 Release spin lock A0", "450 Store B"];
    assert_eq!(events_of(&done), expected);
}

#[test]
fn the_scope_of_a_line_is_the_set_of_cpus_that_access_it() {
    let of = |users: &[u32]| {
        let operations: Vec<(u32, &str)> = (0..4)
            .map(|cpu| (cpu, if users.contains(&cpu) { "0 f A0/8 atomic" } else { "" }))
            .collect();
        contention(4, &operations).lines[0].scope
    };
    assert_eq!(of(&[0, 1, 2, 3]), Scope::All);
    assert_eq!(of(&[0, 1]), Scope::Node(0));
    assert_eq!(of(&[2, 3]), Scope::Node(1));
    assert_eq!(of(&[1, 2]), Scope::Some);
}

#[test]
fn warm_up_rounds_and_interrupted_tasks_do_not_count() {
    let accesses = "0 f A0/8 atomic";
    let mut operations: Vec<TestResult> =
        [0, 1, 0, 1, 0, 1].map(|cpu| operation(cpu, accesses)).into();
    operations[3].sides[0].switches = 1;
    let experiment = Experiment { operation: "open".to_owned(), cpus: 2 };
    let (data, words, nodes) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let deferred = Vec::new();
    let cost = Cost { experiment, operations, deferred, data, words, nodes };
    let done = cost.contention(1, VISIT_DISTANCE, &functions());
    let cpus: Vec<u32> = done.iterations.iter().map(|iteration| iteration.cpu).collect();
    assert_eq!(cpus, [0, 0, 1]);
}

#[test]
fn a_request_to_flush_other_cpus_is_a_shootdown_if_the_address_space_is_shared() {
    let flush = "10 flush_tlb_mm_range A0/8 atomic, 20 f A8/8 load, 900 f B0/4 store";
    let shootdown = ["10 Atomic A", "10 Shootdown", "900 Store B"];
    assert_eq!(events_of(&done_twice(flush)), shootdown);
    let apart = contention(2, &[(0, flush), (1, "900 f B0/4 store")]);
    assert_eq!(events_of(&apart), ["900 Store B"]);
}

#[test]
fn deferred_work_is_listed_apart_in_the_share_of_the_operations_that_count() {
    let of_cpu = |cpu| [operation(cpu, "10 f A0/8 atomic"), operation(cpu, "10 f A0/8 atomic")];
    let operations: Vec<TestResult> = [0, 1].into_iter().flat_map(of_cpu).collect();
    let batch = |cpu| operation(cpu, "20 _raw_spin_lock B0/4 cas, 30 f B0/1 store");
    let experiment = Experiment { operation: "open".to_owned(), cpus: 2 };
    let (data, words, nodes) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let deferred = vec![batch(0), batch(0), batch(1), batch(1)];
    let mut cost = Cost { experiment, operations, deferred, data, words, nodes };
    // The first two operations are those of CPU 0. One of them does not count.
    cost.operations[0].sides[0].switches = 1;
    let done = cost.contention(0, VISIT_DISTANCE, &functions());
    let cpus = |of: &[Iteration]| -> Vec<u32> { of.iter().map(|of| of.cpu).collect() };
    assert_eq!(cpus(&done.iterations), [0, 1, 1]);
    assert_eq!(cpus(&done.deferred), [0, 1, 1]);
    let visits: Vec<(f64, f64)> =
        done.lines.iter().map(|line| (line.visits, line.deferred)).collect();
    assert_eq!(visits, [(1.0, 0.0), (0.0, 1.0)]);
    assert_eq!(done.locks[0].exclusive.per_operation, 0.0);
    assert_eq!(done.deferred[0].events.len(), 2);
}

#[test]
fn cpus_have_the_numbers_of_their_tasks() {
    let on = |cpu| operation(cpu, "");
    let cpus =
        |done: &[TestResult]| -> Vec<u32> { done.iter().map(|done| done.sides[0].cpu).collect() };
    // The plugin saw CPU 2 first, and a CPU without a task does deferred work.
    let mut operations = [1, 2, 0, 1, 2, 0].map(on);
    let mut deferred = [0, 3, 1].map(on).to_vec();
    crate::cost::number_cpus(3, &mut operations, &mut deferred);
    assert_eq!(cpus(&operations), [0, 1, 2, 0, 1, 2]);
    assert_eq!(cpus(&deferred), [2, 0]);
}
