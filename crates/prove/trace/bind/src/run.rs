//! Runs tests, one after the other.

use std::io::{self, BufRead, IsTerminal, Write};
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use knee_commute::{Finding, Model, Test, TestOutcome as Outcome, serve};
use knee_harness::{Names, findings, orders};
use knee_marks::{Mark, SIDES};
use knee_plan::Session;
use serde::{Deserialize, Serialize};

use crate::calibration::{Trial, trials};
use crate::compare::agrees;
use crate::cpu;
use crate::workers::{Reply, Workers, message};
use crate::{Binding, Setup};

/// The number of untraced runs of each order of a test's calls. The first run fills caches, and allocates and
/// initializes memory that later runs reuse.
const UNTRACED: u32 = 1;
/// The number of traced runs of each order of a test's calls, which follow the untraced runs.
const TRACED: u32 = 2;

/// The prefix of a line in which a binding sends knee a [`Message`], as JSON. The prefix distinguishes these
/// lines from what the library writes to standard output.
pub const MESSAGE_PREFIX: &str = "knee-bind ";

/// A message of a binding to knee.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// A line of the binding's `/proc/self/maps`. These messages precede the first test.
    Mapping(String),
    /// The trials that the binding runs before its first test; the plugin counts them as tests.
    /// This message precedes the mappings.
    Trials(Vec<Trial>),
    /// An address in the stack of a thread that makes calls. These messages follow the mappings.
    Thread(u64),
    /// A test has ended. The binding runs tests in the order in which it receives them.
    Done {
        /// The ID of the test.
        id: String,
        /// The outcome of the test.
        outcome: Outcome,
        /// The number of runs that the plugin traced.
        seen: u64,
    },
}

/// The `main` of a program that binds a library to a model.
///
/// With an argument, the program answers knee's requests about the model
/// ([`knee_commute::serve`]). Without an argument, the program reads tests from standard input, one
/// line of JSON each (see docs/commuting.md), runs them, and writes each outcome as a line that
/// begins with [`MESSAGE_PREFIX`].
pub fn main<B: Binding>() -> ExitCode {
    if std::env::args_os().len() > 1 {
        return serve(&B::model());
    }
    if io::stdin().is_terminal() {
        let program = std::env::args().next().unwrap_or_else(|| "PROGRAM".to_owned());
        eprintln!(
            "This program binds a library to the interface {} for knee. Check it with:\n\n  \
             knee commute check --program {program}",
            B::model().name()
        );
        return ExitCode::from(2);
    }
    match run::<B>(io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot run the tests: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run<B: Binding>(tests: impl BufRead, out: &mut impl Write) -> io::Result<()> {
    // This thread uses CPU `SIDES`, because the workers use the CPUs below it.
    cpu::go_to(SIDES)?;
    let workers = Workers::<B>::start(SIDES)?;
    out.write_all(mappings()?)?;
    for stack in workers.stacks() {
        send(out, &Message::Thread(stack))?;
    }
    Mark::Arm.emit();
    thread::yield_now();
    for Trial { kind, first, second } in trials() {
        Mark::Begin.emit();
        workers.try_out(kind, first);
        workers.try_out(kind, second);
        Mark::End.emit();
    }
    for (nr, line) in tests.lines().enumerate() {
        let mut seen = 0;
        let (id, outcome) = match serde_json::from_str::<Test>(&line?) {
            Ok(test) => {
                let test = Arc::new(test);
                (test.id.clone(), outcome(&workers, &test, &mut seen))
            }
            Err(error) => (format!("line {}", nr + 1), Outcome::NotRun(error.to_string())),
        };
        send(out, &Message::Done { id, outcome, seen })?;
    }
    Ok(())
}

/// Returns the messages about the trials and the mappings.
///
/// A separate thread creates the messages, and they are never freed. So the addresses that the
/// allocator returns to tests do not depend on the lengths of file names in the mappings.
fn mappings() -> io::Result<&'static [u8]> {
    let made = thread::spawn(|| {
        let mut lines = Vec::new();
        send(&mut lines, &Message::Trials(trials()))?;
        for mapping in std::fs::read_to_string("/proc/self/maps")?.lines() {
            send(&mut lines, &Message::Mapping(mapping.to_owned()))?;
        }
        Ok(&*lines.leak())
    });
    made.join().unwrap_or_else(|panic| Err(io::Error::other(message(&*panic))))
}

/// Writes a message with a single call and flushes it, because the program may crash in the next test.
fn send(out: &mut impl Write, message: &Message) -> io::Result<()> {
    let message = serde_json::to_string(message)?;
    out.write_all(format!("{MESSAGE_PREFIX}{message}\n").as_bytes())?;
    out.flush()
}

fn outcome<B: Binding>(workers: &Workers<B>, test: &Arc<Test>, seen: &mut u64) -> Outcome {
    let orders = match orders(test) {
        Ok(orders) => orders,
        Err(why) => return Outcome::NotRun(why),
    };
    let (theirs, model) = (&test.interface, B::model());
    if theirs != model.name() {
        let own = model.name();
        return Outcome::NotRun(format!(
            "the test is for the model {theirs}, but this binding is for {own}"
        ));
    }
    if test.calls.len() > SIDES {
        return Outcome::NotRun(format!("the test has more than {SIDES} calls at once"));
    }
    let mut library = Library { workers, test, orders: &orders, findings: Vec::new() };
    let calls = orders.iter().map(Vec::as_slice);
    let (ran, traced) = knee_plan::run(&mut library, calls, UNTRACED, |traced| traced < TRACED);
    *seen = traced;
    if let Err(outcome) = ran {
        return outcome;
    }
    let mut findings = library.findings;
    findings.dedup();
    if findings.is_empty() { Outcome::AsExpected } else { Outcome::Different(findings) }
}

/// The library and the test that is being run on it.
struct Library<'a, B> {
    workers: &'a Workers<B>,
    test: &'a Arc<Test>,
    orders: &'a [Vec<usize>],
    findings: Vec<Finding>,
}

impl<B: Binding> Session for Library<'_, B> {
    type State = Arc<B>;
    type Returned = Reply;
    type Error = Outcome;

    fn set_up(&mut self) -> Result<Arc<B>, Outcome> {
        let binding = catch_unwind(|| B::set_up(&Setup(&self.test.setup)));
        binding.map(Arc::new).map_err(|panic| Outcome::SetupFailed(message(&*panic)))
    }

    fn call(&mut self, binding: &Arc<B>, nr: usize, _traced: bool) -> Reply {
        self.workers.make(binding, self.test, nr)
    }

    fn finish(
        &mut self,
        order: usize,
        binding: Arc<B>,
        replies: Vec<Reply>,
    ) -> Result<(), Outcome> {
        // If one thread allocates memory and another thread frees it, the allocator moves the
        // memory between the caches of these threads, and later tests would show this as sharing.
        // So the binding is never freed.
        std::mem::forget(binding);
        let not_prepared = replies.iter().find_map(|reply| match reply {
            Reply::NotPrepared(why) => Some(why.clone()),
            Reply::Returned(_) | Reply::Panicked(_) => None,
        });
        if let Some(why) = not_prepared {
            return Err(Outcome::NotRun(why));
        }
        let (calls, expect) = (&self.orders[order], &self.test.expect[order]);
        let mut names = Names::default();
        let found =
            findings(self.test, expect, calls, &replies, |_, expected, reply| match reply {
                Reply::Returned(returned) => agrees(&mut names, expected, *returned),
                Reply::Panicked(_) | Reply::NotPrepared(_) => false,
            });
        self.findings.extend(found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

    use knee_commute::models::counter::counter;
    use knee_commute::{Limits, Wanted, pairs};

    use super::*;
    use crate::{Action, Call, Returned};

    /// A counter without `dec_if_positive`. Its `inc_get` returns a value that is too great by 1.
    struct Counter(AtomicI64);

    impl Binding for Counter {
        fn model() -> impl Model {
            counter()
        }

        fn set_up(setup: &Setup<'_>) -> Self {
            Self(AtomicI64::new(setup.number("n")))
        }

        fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
            Some(match call.operation() {
                "inc" => Box::new(|| {
                    self.0.fetch_add(1, Relaxed);
                    Returned::Nothing
                }),
                "inc_get" => Box::new(|| Returned::Number(self.0.fetch_add(1, Relaxed) + 2)),
                "get" => Box::new(|| Returned::Number(self.0.load(Relaxed))),
                _ => return None,
            })
        }
    }

    /// Returns tests of all pairs of operations, whether or not they commute.
    fn tests() -> Vec<Test> {
        let mut tests = Vec::new();
        let wanted = Wanted { differing: true, ..Wanted::default() };
        for pair in pairs(&counter()) {
            let made = counter().generate(&pair, &Limits::default(), &wanted, &mut |test| {
                tests.push(test);
                ControlFlow::Continue(())
            });
            made.expect("the model can be explored");
        }
        tests
    }

    fn messages(lines: &str) -> Vec<(String, Outcome, u64)> {
        let mut out = Vec::new();
        run::<Counter>(lines.as_bytes(), &mut out).expect("nothing to fail");
        let out = String::from_utf8(out).expect("JSON");
        let messages = out.lines().map(|line| {
            let message = line.strip_prefix(MESSAGE_PREFIX).expect("only messages");
            serde_json::from_str(message).expect("a message")
        });
        messages
            .filter_map(|message| match message {
                Message::Done { id, outcome, seen } => Some((id, outcome, seen)),
                Message::Trials(_) | Message::Mapping(_) | Message::Thread(_) => None,
            })
            .collect()
    }

    #[test]
    fn the_outcome_of_a_test_shows_what_the_library_returned() {
        let tests = tests();
        let lines: Vec<String> =
            tests.iter().map(|test| serde_json::to_string(test).expect("plain data")).collect();
        let done = messages(&lines.join("\n"));
        assert_eq!(done.len(), tests.len());
        for (test, (id, outcome, seen)) in tests.iter().zip(&done) {
            assert_eq!(&test.id, id);
            let has = |name: &str| test.calls.iter().any(|call| call.operation == name);
            match outcome {
                Outcome::AsExpected => assert!(!has("inc_get") && !has("dec_if_positive"), "{id}"),
                Outcome::Different(findings) => {
                    assert!(has("inc_get"), "{id}");
                    assert_eq!(*seen, u64::from(TRACED) * test.expect.len() as u64);
                    let ours = |finding: &Finding| {
                        let nr = usize::from(finding.call.as_bytes()[0] - b'a');
                        test.calls[nr].operation == "inc_get"
                    };
                    assert!(findings.iter().all(ours), "{id} {findings:?}");
                }
                Outcome::NotRun(why) => {
                    assert!(has("dec_if_positive"), "{id}");
                    assert_eq!(why, "the binding has no operation dec_if_positive");
                }
                Outcome::SetupFailed(why) => panic!("{id}: {why}"),
            }
        }
    }

    #[test]
    fn tests_that_do_not_fit_the_binding_are_not_run() {
        let mut other = tests().swap_remove(0);
        other.interface = "map".to_owned();
        let mut newer = tests().swap_remove(0);
        newer.schema += 1;
        let mut cut = tests().swap_remove(0);
        cut.expect[0].results.pop();
        let lines =
            [&other, &newer, &cut].map(|test| serde_json::to_string(test).expect("plain data"));
        let done = messages(&(lines.join("\n") + "\nno test"));
        let why = |nr: usize| match &done[nr] {
            (_, Outcome::NotRun(why), 0) => why.as_str(),
            other => panic!("{other:?}"),
        };
        assert_eq!(why(0), "the test is for the model map, but this binding is for counter");
        assert_eq!(why(1), "the test has an unknown schema, 2");
        assert_eq!(why(2), "an order contains a call that the test does not have");
        assert_eq!(done[3].0, "line 4");
        assert!(why(3).contains("expected"), "{}", why(3));
    }
}
