//! A crate's mutants, and the tests that must notice them.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use crate::litmus;
use crate::program::{Build, Package, Program, Run, build, interpret};
use crate::random::patience;
use crate::sources;

/// The test that must notice a mutant.
#[derive(Debug, Clone, Copy)]
pub enum Detector {
    /// A loom model among the unit tests, by its path.
    Loom(&'static str),
    /// A shuttle model among the unit tests, by its path.
    Shuttle(&'static str),
    /// A unit test, by its path.
    Unit(&'static str),
    /// A test in `tests/`, by its target and its path.
    Integration(&'static str, &'static str),
    /// The torture test, an example of the crate, with its mode and further arguments. This test notices a
    /// mutant only on a machine whose CPUs see each other's stores late.
    Torture(&'static str, &'static [&'static str]),
    /// A unit test that Miri runs, by its path.
    Miri(&'static str),
}

/// The planted mutants of a crate; see [`suite!`](crate::suite).
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// The crate.
    pub package: Package,
    /// The mutants, by their names in the sources. If several tests must notice a mutant, the mutant is
    /// listed several times.
    pub mutants: &'static [(&'static str, Detector)],
    /// The names in `mutants` that are marked in a dependency's sources instead of in this crate's sources.
    pub of_dependencies: &'static [&'static str],
    /// The name of the example that is the torture test. It must be unique in the workspace, because all
    /// crates build their examples into one directory.
    pub torture: &'static str,
}

/// The torture test takes this lock exclusively, because its threads must run at the same time and so need
/// two CPUs to themselves. The other tests take the lock for reading, so they can run at the same time.
static CPUS: RwLock<()> = RwLock::new(());

/// A mutant's time limit is this multiple of the time that the real code has just taken on the same machine,
/// but at least `LEAST_PATIENCE`.
const PATIENCE: u32 = 10;
const LEAST_PATIENCE: Duration = Duration::from_secs(60);

/// When a mutant reaches its time limit, it counts as noticed only if the real code, run again directly
/// afterwards, takes at most 1 / `CREDIBLE` of this limit. If the real code takes longer, the machine is
/// slow, and the mutant runs again.
const CREDIBLE: u32 = 5;
const MOST_REPEATS: usize = 3;

/// The time limit for a test of the real code.
const LIMIT: Duration = Duration::from_secs(1200);

/// The torture test notices most mutants within a second. If the system runs both threads on one CPU, the
/// test may never notice the mutant. So the test is started up to this many times.
const ATTEMPTS: usize = 6;

/// A mutant, the test that must notice it, and the program that contains this test.
struct Job<'a> {
    mutant: &'static str,
    program: &'a Program,
    test: &'static str,
}

impl Suite {
    /// Checks that the list contains exactly the mutants that the sources mark.
    ///
    /// # Panics
    /// If the list and the sources differ.
    pub fn check_list(&self) {
        let marked = sources::marked(&Path::new(self.package.manifest_dir).join("src"));
        let listed = self.mutants.iter().map(|(mutant, _)| *mutant);
        let own = listed.filter(|mutant| !self.of_dependencies.contains(mutant));
        let listed = own.map(str::to_owned).collect();
        let unlisted: Vec<_> = marked.difference(&listed).collect();
        let unmarked: Vec<_> = listed.difference(&marked).collect();
        assert!(
            unlisted.is_empty() && unmarked.is_empty(),
            "marked in the sources but not listed: {unlisted:?}; listed but not marked: {unmarked:?}"
        );
    }

    /// Checks that the real code passes all loom models, which are the tests with `filter` in their path, and
    /// that each mutant fails its model.
    ///
    /// # Panics
    /// If the real code fails a model, or a mutant survives.
    pub fn check_loom(&self, filter: &str) {
        self.check_models("loom", filter, |detector| match detector {
            Detector::Loom(test) => Some(test),
            _ => None,
        });
    }

    /// Checks that the real code passes all shuttle models, which are the tests with `filter` in their path,
    /// and that each mutant fails its model.
    ///
    /// # Panics
    /// If the real code fails a model, or a mutant survives.
    pub fn check_shuttle(&self, filter: &str) {
        self.check_models("shuttle", filter, |detector| match detector {
            Detector::Shuttle(test) => Some(test),
            _ => None,
        });
    }

    fn check_models(
        &self,
        checker: &str,
        filter: &str,
        test: impl Fn(Detector) -> Option<&'static str>,
    ) {
        let models = Build {
            workspace: &["mutants"],
            checker: Some(checker),
            optimised: 1,
            targets: &["test", "--no-run", "--lib"],
        };
        let _with_others = CPUS.read().unwrap_or_else(PoisonError::into_inner);
        let programs = build(&self.package, &models);
        let program = programs.values().next().expect("cargo names the program");
        let jobs = self.jobs(|detector| Some((program, test(detector)?)));
        let tests = program.tests(filter);
        check(&jobs, tests.iter().map(|test| (program, test.as_str())).collect());
    }

    /// Checks that the real code passes the listed unit tests, and that each mutant fails its test.
    ///
    /// # Panics
    /// If the real code fails a test, or a mutant survives.
    pub fn check_units(&self) {
        let _with_others = CPUS.read().unwrap_or_else(PoisonError::into_inner);
        let programs = self.build_tests(&["--lib"]);
        let program = programs.values().next().expect("cargo names the program");
        let jobs = self.jobs(|detector| match detector {
            Detector::Unit(test) => Some((program, test)),
            _ => None,
        });
        check(&jobs, Vec::new());
    }

    /// Checks that the real code passes the listed tests in `tests/`, and that each mutant fails its test.
    ///
    /// # Panics
    /// If the real code fails a test, or a mutant survives.
    pub fn check_integration(&self) {
        let _with_others = CPUS.read().unwrap_or_else(PoisonError::into_inner);
        let target = |detector| match detector {
            Detector::Integration(target, _) => Some(target),
            _ => None,
        };
        let targets: BTreeSet<_> =
            self.mutants.iter().filter_map(|&(_, detector)| target(detector)).collect();
        let arguments: Vec<_> = targets.into_iter().flat_map(|target| ["--test", target]).collect();
        let programs = self.build_tests(&arguments);
        let jobs = self.jobs(|detector| match detector {
            Detector::Integration(target, test) => Some((&programs[target], test)),
            _ => None,
        });
        check(&jobs, Vec::new());
    }

    fn build_tests(&self, targets: &[&str]) -> BTreeMap<String, Program> {
        let targets = [&["test", "--no-run"], targets].concat();
        let tests =
            Build { workspace: &["mutants"], checker: None, optimised: 0, targets: &targets };
        build(&self.package, &tests)
    }

    fn jobs<'a>(
        &self,
        test: impl Fn(Detector) -> Option<(&'a Program, &'static str)>,
    ) -> Vec<Job<'a>> {
        let job = |&(mutant, detector)| {
            let (program, test) = test(detector)?;
            Some(Job { mutant, program, test })
        };
        self.mutants.iter().filter_map(job).collect()
    }

    /// Checks on real CPUs that the real code passes the torture test in each listed mode, and that each
    /// mutant fails the test. With `KNEE_TORTURE=long`, each run takes up to a minute.
    ///
    /// # Panics
    /// If the real code fails, or a mutant survives on a machine whose CPUs delay stores.
    pub fn check_torture(&self) {
        let example = |workspace: &[&str]| {
            let targets = &["build", "--example", self.torture];
            build(&self.package, &Build { workspace, checker: None, optimised: 3, targets })
        };
        let (real, mutants) = (example(&[]), example(&["mutants"]));
        let _alone = CPUS.write().unwrap_or_else(PoisonError::into_inner);
        let (short, long) = (patience(60), 10 * patience(6));
        let run = |program: &Program, mutant, (mode, more): (&str, &[&str]), seconds: u64| {
            let seconds = seconds.to_string();
            let arguments: Vec<_> = [mode, seconds.as_str()].iter().chain(more).copied().collect();
            program.run(mutant, &arguments, Duration::from_secs(10 * long))
        };

        let listed = self.mutants.iter().filter_map(|&(mutant, detector)| match detector {
            Detector::Torture(mode, arguments) => Some((mutant, (mode, arguments))),
            _ => None,
        });
        let listed: Vec<_> = listed.collect();
        let modes: BTreeSet<_> = listed.iter().map(|&(_, mode)| mode).collect();
        for mode in modes {
            let output = run(&real[self.torture], None, mode, short);
            assert!(output.is_success, "the real code fails {mode:?}: {}", output.printed);
        }

        let mut late = None;
        let mut survivors = Vec::new();
        for (mutant, mode) in listed {
            let attempts = if late == Some(false) { 1 } else { ATTEMPTS };
            let survives = |_| run(&mutants[self.torture], Some(mutant), mode, long).is_success;
            if (0..attempts).all(survives) {
                late.get_or_insert_with(|| litmus::stores_are_late(Duration::from_secs(30)));
                survivors.push(format!("{mutant} survives {attempts} × {long} s of {mode:?}"));
            }
        }
        if late == Some(false) {
            eprintln!(
                "skipped: the CPUs of this machine delay no stores, so the torture test notices no mutant"
            );
            eprintln!("{}", survivors.join("\n"));
        } else {
            assert!(survivors.is_empty(), "{}", survivors.join("\n"));
        }
    }

    /// Checks that the real code passes the listed tests under Miri, and that Miri finds a data race in each
    /// mutant. Miri takes minutes, so the check runs only if `KNEE_MIRI` in the environment names a nightly
    /// toolchain with Miri.
    ///
    /// # Panics
    /// If the real code fails, or a mutant survives.
    pub fn check_miri(&self) {
        let Some(toolchain) = env::var_os("KNEE_MIRI") else {
            eprintln!("skipped: this test takes minutes; scripts/sanitize miri runs it");
            return;
        };
        let (mut held, mut failures) = (BTreeSet::new(), Vec::new());
        for &(mutant, detector) in self.mutants {
            let Detector::Miri(test) = detector else { continue };
            if held.insert(test)
                && let Err(printed) = interpret(&self.package, &toolchain, None, test)
            {
                failures.push(format!("the real code fails {test}: {printed}"));
            }
            match interpret(&self.package, &toolchain, Some(mutant), test) {
                Err(printed) if printed.contains("Undefined Behavior: Data race") => {}
                Err(printed) => failures.push(format!("{mutant} fails without a race: {printed}")),
                Ok(()) => failures.push(format!("{mutant} survives {test}")),
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

/// Checks that the real code passes the tests in `more` and the test of each job, and that each job's mutant
/// fails that job's test.
fn check(jobs: &[Job], more: Vec<(&Program, &str)>) {
    let mut tests = more;
    for job in jobs {
        if !tests.iter().any(|&(_, test)| test == job.test) {
            tests.push((job.program, job.test));
        }
    }
    let real = in_parallel(&tests, |(program, test)| run_test(program, None, test, LIMIT));
    let mut failures: Vec<_> = tests
        .iter()
        .zip(&real)
        .filter(|(_, run)| !run.is_passed_test())
        .map(|((_, test), run)| format!("the real code fails {test}:\n{}", run.printed))
        .collect();
    let times: BTreeMap<_, _> =
        tests.iter().zip(&real).map(|(&(_, test), run)| (test, run.time)).collect();
    failures.extend(in_parallel(jobs, |job| survives(job, times[job.test])).into_iter().flatten());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn run_test(program: &Program, mutant: Option<&str>, test: &str, limit: Duration) -> Run {
    program.run(mutant, &["--exact", test], limit)
}

/// Runs a job's test with the job's mutant. With the real code, the test takes `time`. Returns `None` if the
/// test notices the mutant; otherwise returns a message about the failure.
fn survives(job: &Job, time: Duration) -> Option<String> {
    let Job { mutant, program, test } = job;
    let mut limit = LEAST_PATIENCE.max(PATIENCE * time);
    for _ in 0..MOST_REPEATS {
        let run = run_test(program, Some(mutant), test, limit);
        if !run.is_timed_out {
            let survives = || format!("{mutant} survives {test}:\n{}", run.printed);
            return (!run.is_failed_test()).then(survives);
        }
        let time = run_test(program, None, test, LIMIT).time;
        if limit >= CREDIBLE * time {
            eprintln!(
                "{mutant} does not finish {test} within {limit:.0?}; the real code takes {time:.1?}"
            );
            return None;
        }
        limit = PATIENCE * time;
    }
    Some(format!(
        "{mutant} is inconclusive in {test}: it reached its time limit, but the machine is too slow"
    ))
}

/// Calls `of` with each item, using all CPUs, and returns the results in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], of: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work = || {
        while let Some((at, item)) = {
            let at = next.fetch_add(1, Relaxed);
            items.get(at).map(|item| (at, item))
        } {
            let result = of(item);
            results.lock().expect("no thread panics while it holds the lock").push((at, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, |cpus| cpus.get()) {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().expect("no thread panics while it holds the lock");
    results.sort_by_key(|&(at, _)| at);
    results.into_iter().map(|(_, result)| result).collect()
}
