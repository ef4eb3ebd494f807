use super::*;
use crate::simulate::{
    Access, Hold, Iteration, Line, Lock, LockKind, Recorded, Scope, Step, WorkloadError,
};

/// A trace with a step of each kind.
fn trace() -> Trace {
    let visit = |access| Step::Visit { line: 1, access };
    let steps = vec![
        Step::Compute { instructions: 12.5 },
        visit(Access::Load),
        visit(Access::Store),
        Step::Acquire { lock: 0, hold: Hold::Exclusive },
        visit(Access::Atomic),
        visit(Access::CompareExchange),
        Step::Release { lock: 0 },
        Step::Acquire { lock: 0, hold: Hold::Shared },
        Step::Compute { instructions: 3.0 },
        Step::Release { lock: 0 },
        Step::Shootdown,
    ];
    let line = |name: &str| Line { name: name.to_owned(), scope: Scope::Node };
    let lock =
        Lock { name: "mutex".to_owned(), line: 0, kind: LockKind::Mutex, scope: Scope::Group };
    Trace {
        testcase: "open1".to_owned(),
        mode: Mode::Threads,
        of: Traced::Kernel("Linux 6.12".to_owned()),
        iterations: 2,
        alone: Some(Alone { rate: 2e6, measured_on: Some("vm, Linux 6.18".to_owned()) }),
        workload: Workload {
            recorded: vec![Recorded { node: 1, iterations: vec![Iteration { steps }] }],
            lines: vec![line("a"), line("b")],
            locks: vec![lock],
        },
    }
}

fn text(trace: Trace) -> String {
    String::from_utf8(Traces(vec![trace]).to_json()).unwrap()
}

fn refusal(text: &str) -> String {
    Traces::parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read_again() {
    let program = Trace { of: Traced::Program("map".to_owned()), alone: None, ..trace() };
    let traces = Traces(vec![trace(), program]);
    let written = traces.to_json();
    assert_eq!(Traces::parse(&written).unwrap(), traces);
    let text = String::from_utf8(written).unwrap();
    assert!(text.contains("\"12.5 l1 s1 x0 a1 c1 u0 r0 3 u0 f\""), "{text}");
}

#[test]
fn a_word_that_is_not_a_step_is_refused() {
    for word in
        ["z1", "a", "a-1", "a+1", "-5", "nan", "inf", "1a", "é1", "99999999999999999999999l"]
    {
        let text = text(trace()).replace("12.5 l1", word);
        assert!(refusal(&text).contains("is not a step"), "{word}: {}", refusal(&text));
    }
}

#[test]
fn indices_sizes_and_rates_that_no_trace_has_are_refused() {
    let with = |old: &str, new: &str| {
        let text = text(trace());
        assert!(text.contains(old), "{old}");
        refusal(&text.replace(old, new))
    };
    assert!(with("l1", "l2").contains("invalid step"), "{}", with("l1", "l2"));
    assert!(with("x0", "x1").contains("invalid step"));
    assert!(with("r0 3 u0", "r0 3").contains("take and release"));
    assert!(with("12.5", "1e999").contains("more than"));
    assert!(with("12.5", "1e300").contains("more than"));
    assert!(with("2000000.0", "-1").contains("rate of one task"));
    assert!(with("\"iterations\": 2", "\"iterations\": 0").contains("from 1"));
    assert!(with("\"node\": 1", "\"node\": 1000000").contains("memory node"));
    assert!(with("prediction trace", "commute matrix").contains("not a trace"));
    assert!(with("\"schema\": 1", "\"schema\": 2").contains("schema 2"));
    let empty = format!("{}\"12.5 ", "\"\", ".repeat(1 << 18));
    assert!(with("\"12.5 ", &empty).contains("iterations, and knee reads at most 262144"));
    assert!(refusal("{").contains("cut off"));
    let empty = String::from_utf8(Traces(Vec::new()).to_json()).unwrap();
    assert_eq!(refusal(&empty), "it contains no traces");
}

#[test]
fn names_stay_on_one_line() {
    let mut trace = trace();
    trace.workload.lines[0].name = "a\nb\tc".to_owned();
    let read = Traces::parse(text(trace).as_bytes()).unwrap();
    assert!(!read.0[0].workload.lines[0].name.contains(['\n', '\t']));
}

#[test]
fn a_task_cannot_hold_more_locks_than_a_kernel_allows() {
    let lock = Lock { name: String::new(), line: 0, kind: LockKind::Spin, scope: Scope::Global };
    let locks = vec![lock; 49];
    let take = (0..49).map(|lock| Step::Acquire { lock, hold: Hold::Exclusive });
    let give = (0..49).rev().map(|lock| Step::Release { lock });
    let work = Step::Compute { instructions: 1.0 };
    let steps = take.chain([work]).chain(give).collect();
    let recorded = vec![Recorded { node: 0, iterations: vec![Iteration { steps }] }];
    let lines = vec![Line { name: String::new(), scope: Scope::Global }];
    let workload = Workload { recorded, lines, locks };
    assert_eq!(workload.check(), Err(WorkloadError::Depth { cpu: 0, iteration: 0 }));
}

#[test]
fn pairs_of_nested_locks_are_limited() {
    // Inside each of 600 locks, each of 600 others is taken: 360,000 pairs.
    let lock = Lock { name: String::new(), line: 0, kind: LockKind::Spin, scope: Scope::Global };
    let take = |lock| Step::Acquire { lock, hold: Hold::Exclusive };
    let give = |lock| Step::Release { lock };
    let iteration = |outer| {
        let inner = (600..1200).flat_map(|lock| [take(lock), give(lock)]);
        let work = Step::Compute { instructions: 1.0 };
        let steps = [take(outer), work].into_iter().chain(inner).chain([give(outer)]);
        Iteration { steps: steps.collect() }
    };
    let recorded = vec![Recorded { node: 0, iterations: (0..600).map(iteration).collect() }];
    let lines = vec![Line { name: String::new(), scope: Scope::Global }];
    let workload = Workload { recorded, lines, locks: vec![lock; 1200] };
    assert_eq!(workload.check(), Err(WorkloadError::Orders));
}

#[test]
fn long_chains_of_lock_orders_are_checked_in_linear_time() {
    // Each lock is taken inside the previous one, and the first one, at last, inside the last one.
    const LOCKS: usize = 20_000;
    let lock = Lock { name: String::new(), line: 0, kind: LockKind::Spin, scope: Scope::Global };
    let pair = |outer, inner| {
        let take = |lock| Step::Acquire { lock, hold: Hold::Exclusive };
        let give = |lock| Step::Release { lock };
        let work = Step::Compute { instructions: 1.0 };
        Iteration { steps: vec![take(outer), take(inner), work, give(inner), give(outer)] }
    };
    let mut iterations: Vec<Iteration> = (1..LOCKS).map(|nr| pair(nr - 1, nr)).collect();
    let lines = vec![Line { name: String::new(), scope: Scope::Global }];
    let mut workload = Workload { lines, locks: vec![lock; LOCKS], recorded: Vec::new() };
    workload.recorded = vec![Recorded { node: 0, iterations: iterations.clone() }];
    assert_eq!(workload.check(), Ok(()));
    iterations.push(pair(LOCKS - 1, 0));
    workload.recorded = vec![Recorded { node: 0, iterations }];
    assert!(matches!(workload.check(), Err(WorkloadError::Order { .. })));
}
