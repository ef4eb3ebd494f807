//! Traces of programs that bind a library to a model: threads that repeat operations of the model.

mod bursts;
mod situation;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use knee_commute::{Model, TestCall};
use knee_host::number::si;
use knee_host::text::{cut, one_line};
use knee_predict::simulate::{LockKind, Scope, Workload};
use knee_predict::trace::{Trace, Traced};
use knee_results::Mode;
use knee_results::prediction::Alone;
use knee_trace::{How, ProgramHost, Repeat, WARM_UP, time_program, trace_program};

use self::bursts::in_bursts;
use self::situation::{Situation, setup};
use super::alone::{MOST_RATE, measured};
use super::workload::{APART, workload};
use crate::exit::{ExitStatus, failed};
use crate::input::program::Program;
use crate::input::program_host::{PATIENCE, Place, host};
use crate::stderr::tell;

/// The number of traced threads, as many as CPUs for a testcase.
pub(super) const THREADS: usize = 4;
/// Separates the operations of one iteration.
const AND: char = '+';
/// The most different iterations of a thread.
const MOST_DIFFERENT: usize = 1 << 9;
/// How long one thread is timed, in seconds, and its most iterations. Calls that allocate and never free then take some
/// hundred megabytes.
const SECONDS: f64 = 0.5;
const MOST_TIMED: u64 = 1 << 21;

/// What to trace.
pub(super) struct Request<'a> {
    pub(super) programs: &'a [PathBuf],
    /// The iterations, each an operation or several ones such as `push+pop`.
    pub(super) iterations: &'a [String],
    /// The kernel of the guest, if the user named one.
    pub(super) kernel: Option<&'a Path>,
    /// The number of names from which tasks choose their arguments.
    pub(super) keys: u64,
    /// The number of traced threads.
    pub(super) threads: usize,
    /// Traced iterations of each thread.
    pub(super) rounds: u32,
    /// The rate of one task for each iteration, if the user gave it.
    pub(super) at: Vec<Option<f64>>,
}

/// The traces of all iterations of the first program, then those of the second one, and so on.
pub(super) fn traces(request: &Request<'_>) -> anyhow::Result<Vec<Trace>> {
    let programs = request.programs.iter().cloned().map(Program::introduce);
    let programs: Vec<Program> = programs.collect::<anyhow::Result<_>>()?;
    // Reports unknown operations before a guest boots.
    let mut all: Vec<(&Program, &String, Vec<Situation>, Option<f64>)> = Vec::new();
    for program in &programs {
        let mut seen = BTreeSet::new();
        for (word, at) in request.iterations.iter().zip(&request.at) {
            if !seen.insert(word) {
                continue;
            }
            // The rate is that of the first program.
            let at = at.filter(|_| all.iter().all(|(_, other, ..)| *other != word));
            let find = |operation: &str| Situation::find(program, operation);
            let situations: Vec<Situation> =
                word.split(AND).map(find).collect::<anyhow::Result<_>>()?;
            all.push((program, word, situations, at));
        }
    }
    let place = Place::choose(request.kernel)?;
    let guest = place.guest()?;
    let trace = |(program, word, situations, at): &(&Program, &String, Vec<Situation>, _)| {
        let calls = Calls { model: program.name(), word, situations, keys: request.keys };
        calls.tell();
        trace(program.path(), &calls, *at, request, host(&guest))
            .with_context(|| format!("{word} of {}", program.path().display()))
    };
    all.iter().map(trace).collect()
}

fn trace(
    program: &Path,
    calls: &Calls<'_>,
    at: Option<f64>,
    request: &Request<'_>,
    host: ProgramHost<'_>,
) -> anyhow::Result<Trace> {
    let died = |why: String| failed(ExitStatus::TestcaseDied, why);
    let alone = match at {
        Some(rate) => Alone { rate, measured_on: None },
        None => {
            let how = How::Time { seconds: SECONDS, most: MOST_TIMED };
            let rates = time_program(program, &calls.repeat(1, how), PATIENCE)?;
            let rates = rates.map_err(|why| died(hint(&why)))?;
            let rate = rate_of_one(&rates).ok_or_else(|| {
                died(format!(
                    "the program reports {rates:?} iterations per second of one thread, which is impossible; \
                     rebuild it, or give the rate with --at"
                ))
            })?;
            tell!("knee: one thread makes {}/s on this machine", si(rate));
            measured(rate)
        }
    };
    let how = How::Trace { rounds: WARM_UP + request.rounds };
    let traced = trace_program(host, program, &calls.repeat(request.threads, how), PATIENCE)?;
    let traced = traced.map_err(|end| died(hint(&end.to_string())))?;
    if traced.outcome != knee_agent::Outcome::AsExpected {
        return Err(died(hint(&traced.outcome.to_string())));
    }
    let functions = traced.names.functions();
    let contention = traced.cost.contention(WARM_UP, APART, functions);
    let mut workload = workload(&contention, request.threads as u32, functions)?;
    for lock in workload.locks.iter_mut().filter(|lock| lock.kind != LockKind::Spin) {
        lock.kind = LockKind::Futex;
    }
    if calls.has_keys() {
        share(&mut workload);
    }
    let (workload, iterations) = in_bursts(&workload, 1e9 / alone.rate);
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    Ok(Trace {
        testcase: calls.word.to_owned(),
        mode: Mode::Threads,
        of: Traced::Program(one_line(&name).into_owned()),
        iterations,
        alone: Some(alone),
        workload,
    })
}

/// The rate that a program reports for one thread, if it is possible.
fn rate_of_one(rates: &[f64]) -> Option<f64> {
    match *rates {
        [rate] if rate > 0.0 && rate <= MOST_RATE => Some(rate),
        _ => None,
    }
}

/// Tasks choose keys at random. So data that only some of the traced threads used, in so few iterations, are data that all
/// use now and then.
fn share(workload: &mut Workload) {
    let scopes = workload.lines.iter_mut().map(|line| &mut line.scope);
    for scope in scopes.chain(workload.locks.iter_mut().map(|lock| &mut lock.scope)) {
        if *scope == Scope::Group {
            *scope = Scope::Global;
        }
    }
}

/// The most characters of what a program writes when it ends.
const MOST_QUOTED: usize = 300;

fn hint(why: &str) -> String {
    let quoted = cut(why, MOST_QUOTED);
    format!(
        "{quoted}; threads repeat the operation, so it must not wait for other calls, nor fail when it is repeated, and a \
         binding for two threads needs --threads 2"
    )
}

/// The calls of an iteration.
struct Calls<'a> {
    model: &'a str,
    word: &'a str,
    situations: &'a [Situation],
    keys: u64,
}

impl Calls<'_> {
    fn has_keys(&self) -> bool {
        self.keys > 1 && self.situations.iter().any(Situation::has_names)
    }

    /// Prints the situations.
    fn tell(&self) {
        for situation in self.situations {
            let condition = situation.condition();
            let if_any = if condition.is_empty() { "" } else { ": " };
            tell!("knee: predicting {}{if_any}{}", situation.id(), one_line(&condition));
        }
    }

    fn repeat(&self, threads: usize, how: How) -> Repeat {
        let (keys, different) = match self.has_keys() {
            true => (self.keys, MOST_DIFFERENT),
            false => (1, 1),
        };
        let names = self.situations.iter().map(Situation::names).max().unwrap_or(0);
        let mut random = Random(0);
        let mut iteration = |thread| -> Vec<TestCall> {
            let more = names.saturating_mul(random.below(keys));
            self.situations.iter().map(|situation| situation.call(thread, more)).collect()
        };
        let threads =
            (0..threads).map(|thread| (0..different).map(|_| iteration(thread)).collect());
        Repeat {
            id: self.word.to_owned(),
            interface: self.model.to_owned(),
            threads: threads.collect(),
            setup: setup(self.situations, (0..keys).map(|key| names.saturating_mul(key))),
            how,
        }
    }
}

/// SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end.max(1)
    }
}

#[cfg(test)]
mod tests {
    use knee_commute::models::map::map;

    use super::*;

    #[test]
    fn a_program_cannot_report_an_impossible_rate() {
        assert_eq!(rate_of_one(&[2e6]), Some(2e6));
        for rates in [&[][..], &[0.0], &[-5.0], &[f64::NAN], &[1e12], &[1e308], &[1e6, 1e6]] {
            assert_eq!(rate_of_one(rates), None, "{rates:?}");
        }
    }

    #[test]
    fn threads_choose_among_all_keys_and_all_have_values() {
        let situations = ["put", "remove"].map(|name| Situation::find(&map(), name).unwrap());
        let calls = Calls { model: "map", word: "put+remove", situations: &situations, keys: 5 };
        let repeat = calls.repeat(2, How::Trace { rounds: 1 });
        assert_eq!((repeat.setup.len(), repeat.threads.len()), (5, 2));
        let key = |call: &TestCall| call.arguments["key"].as_str().map(str::to_owned);
        let mut chosen: Vec<Option<String>> = Vec::new();
        for iteration in repeat.threads.iter().flatten() {
            let [put, remove] = &iteration[..] else { panic!("{iteration:?}") };
            assert_eq!((put.operation.as_str(), remove.operation.as_str()), ("put", "remove"));
            assert_eq!(key(put), key(remove));
            chosen.push(key(put));
        }
        chosen.sort();
        chosen.dedup();
        assert_eq!(chosen.len(), 5);
    }

    #[test]
    fn with_one_key_all_threads_repeat_the_same_call() {
        let situations = [Situation::find(&map(), "get").unwrap()];
        let calls = Calls { model: "map", word: "get", situations: &situations, keys: 1 };
        let repeat = calls.repeat(4, How::Trace { rounds: 1 });
        assert!(repeat.threads.iter().all(|iterations| iterations.len() == 1));
        assert_eq!(repeat.setup.len(), 1);
    }
}
