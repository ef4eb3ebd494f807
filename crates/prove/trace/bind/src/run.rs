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

use crate::calibration::{Trial, trials};
use crate::compare::agrees;
use crate::cpu;
use crate::message::{Message, send};
use crate::repeat::carry_out;
use crate::repeated::REPEAT_PREFIX;
use crate::reply::{Reply, message};
use crate::workers::Workers;
use crate::{Binding, Setup};

/// The number of untraced runs of each order of a test's calls. The first run fills caches, and allocates and
/// initializes memory that later runs reuse.
const UNTRACED: u32 = 1;
/// The number of traced runs of each order of a test's calls. These runs follow the untraced runs.
const TRACED: u32 = 2;
/// The addresses in a line at which an allocator can put a block: the multiples of its alignment, which is that of
/// `max_align_t`.
const PLACES: usize = 4;
const ALIGNMENT: usize = 16;
/// Size of a block that moves the next one, from the same free memory, to another place: with the header of the GNU C
/// library, it takes 112 bytes.
const FILLER: usize = 104;

/// The `main` of a program that binds a library to a model.
///
/// With an argument, the program answers knee's requests about the model ([`knee_commute::serve`]). Without
/// an argument, the program reads lines from standard input. Each line is a test in JSON (see
/// docs/commuting.md) or a request to repeat calls ([`Repeat`](crate::Repeat)). The program runs the tests
/// and the requests, and writes each outcome as a line that begins with
/// [`MESSAGE_PREFIX`](crate::MESSAGE_PREFIX).
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
        let (line, mut seen) = (line?, 0);
        if let Some(request) = line.strip_prefix(REPEAT_PREFIX) {
            carry_out(&workers, request, out)?;
            continue;
        }
        let (id, outcome) = match serde_json::from_str::<Test>(&line) {
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
    let mut library = Library { workers, test, orders: &orders, set_ups: 0, findings: Vec::new() };
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
    /// How often the library was set up for this test.
    set_ups: u32,
    findings: Vec<Finding>,
}

impl<B> Library<'_, B> {
    /// Allocates memory until the next block has the place of the next run. The traced runs of a test have all places in
    /// turn. So if objects share a line only at some places, some run does not show it, whatever the tests before have
    /// allocated.
    fn change_place(&mut self) {
        let (order, run) = (self.set_ups / (UNTRACED + TRACED), self.set_ups % (UNTRACED + TRACED));
        let place = (order * TRACED + run.saturating_sub(UNTRACED)) as usize % PLACES;
        self.set_ups += 1;
        // An allocator that takes these blocks from elsewhere may never reach the place.
        for _ in 0..4 * PLACES {
            let block = Box::leak(Box::new([0_u8; FILLER]));
            if block.as_ptr().addr() / ALIGNMENT % PLACES == place {
                break;
            }
        }
    }
}

impl<B: Binding> Session for Library<'_, B> {
    type State = Arc<B>;
    type Returned = Reply;
    type Error = Outcome;

    fn set_up(&mut self) -> Result<Arc<B>, Outcome> {
        self.change_place();
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
            Reply::Returned(_) | Reply::Panicked(_) | Reply::Timed { .. } => None,
        });
        if let Some(why) = not_prepared {
            return Err(Outcome::NotRun(why));
        }
        let (calls, expect) = (&self.orders[order], &self.test.expect[order]);
        let mut names = Names::default();
        let found =
            findings(self.test, expect, calls, &replies, |_, expected, reply| match reply {
                Reply::Returned(returned) => agrees(&mut names, expected, *returned),
                Reply::Panicked(_) | Reply::NotPrepared(_) | Reply::Timed { .. } => false,
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
    use knee_commute::{Limits, TestCall, Wanted, pairs};

    use super::*;
    use crate::message::MESSAGE_PREFIX;
    use crate::repeated::{How, Repeat};
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

    fn all_messages(lines: &str) -> Vec<Message> {
        let mut out = Vec::new();
        run::<Counter>(lines.as_bytes(), &mut out).expect("nothing to fail");
        let out = String::from_utf8(out).expect("JSON");
        let messages = out.lines().map(|line| {
            let message = line.strip_prefix(MESSAGE_PREFIX).expect("only messages");
            serde_json::from_str(message).expect("a message")
        });
        messages.collect()
    }

    fn messages(lines: &str) -> Vec<(String, Outcome, u64)> {
        all_messages(lines)
            .into_iter()
            .filter_map(|message| match message {
                Message::Done { id, outcome, seen } => Some((id, outcome, seen)),
                Message::Trials(_)
                | Message::Mapping(_)
                | Message::Thread(_)
                | Message::Timed { .. } => None,
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

    /// The answer to a request to repeat these operations in this many threads.
    fn repeated(operations: &[&str], threads: usize, how: How) -> Message {
        let call = |thread, operation: &&str| TestCall {
            label: String::new(),
            operation: (*operation).to_owned(),
            process: 0,
            thread,
            cpu: thread,
            arguments: serde_json::Map::new(),
        };
        let iteration = |thread| operations.iter().map(|name| call(thread, name)).collect();
        let repeat = Repeat {
            id: "it".to_owned(),
            interface: "counter".to_owned(),
            setup: Vec::new(),
            threads: (0..threads).map(|thread| vec![iteration(thread)]).collect(),
            how,
        };
        let request = serde_json::to_string(&repeat).expect("plain data");
        all_messages(&format!("{REPEAT_PREFIX}{request}")).pop().expect("an answer")
    }

    #[test]
    fn each_thread_makes_an_iteration_in_each_round() {
        let how = How::Trace { rounds: 5 };
        let done = |outcome, seen| Message::Done { id: "it".to_owned(), outcome, seen };
        assert_eq!(repeated(&["inc", "get"], 3, how), done(Outcome::AsExpected, 15));
        let why = "the binding has no operation dec_if_positive";
        let not_run = Outcome::NotRun(why.to_owned());
        assert_eq!(repeated(&["inc", "dec_if_positive"], 2, how), done(not_run, 1));
        let why = "there must be from 1 to 4 threads, and each must have iterations";
        assert_eq!(repeated(&["inc"], 5, how), done(Outcome::NotRun(why.to_owned()), 0));
    }

    #[test]
    fn all_threads_are_timed() {
        let how = How::Time { seconds: 0.01, most: 1 << 20 };
        let Message::Timed { rates, .. } = repeated(&["inc"], 2, how) else {
            panic!("the binding has the operation")
        };
        assert_eq!(rates.len(), 2);
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{rates:?}");
    }
}
