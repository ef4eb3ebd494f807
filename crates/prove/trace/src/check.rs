//! Tests in guests: what the calls returned, and which lines of memory they shared.
//!
//! Tests are dealt to as many guests as the machine has CPUs for. A guest that panics, hangs, resets
//! itself or dies takes only the test with it that it was in; the next ones go on in a fresh guest.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use knee_agent::{CONSOLE, DISK, MSR, Outcome, Plan, Report, msr_parameter};
use knee_commute::Test;

use crate::calibration::{Calibration, Fault};
use crate::channel::Channel;
use crate::datum::{Datum, Resolver};
use crate::disk::Disk;
use crate::error::GuestError;
use crate::functions::Functions;
use crate::guest::{End, Event, Guest, GuestOptions};
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::modules::module;
use crate::process::Tracing;
use crate::qemu::Emulator;
use crate::record::{Record, TestResult, TracedAccess};
use crate::results::Results;

/// How often a test is run whose calls share something else each time. What they do not share in one
/// run they need not share, so a run without conflicts is the last, and so is one with the same as the
/// one before: hardly another would tell more.
const MOST_RUNS: u32 = 3;
/// How often a test is run whose calls share something by position only, until they share nothing: in
/// the next run objects lie elsewhere.
const MOST_PLACEMENTS: u32 = 6;
/// Tests that are worth a guest of their own: to boot takes as long as some hundred tests.
const TESTS_PER_GUEST: usize = 300;
/// Guests in a row that may end before they have begun a test.
const FALSE_STARTS: u32 = 2;
/// Module of the driver that agents want: see `apart` of crate knee-agent.
const DRIVER: &str = "msr";
/// Checked tests that wait to be told.
const MOST_WAITING: usize = 1000;

/// A test that has been run.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Its id.
    pub id: String,
    /// What the calls returned; nothing if the guest did not survive it.
    pub outcome: Result<Outcome, End>,
    /// Its runs under the eyes of the plugin.
    pub runs: Vec<TestResult>,
    /// Every access of its run, if that was asked for.
    pub trace: Vec<TracedAccess>,
}

/// Why tests were not checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The guest could not be started or listened to.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// The agent or the binding could not do its work.
    #[error("the test agent failed: {0}")]
    Agent(String),
    /// This QEMU shows what is not so.
    #[error("{qemu} failed its calibration: {fault}. Its verdicts cannot be trusted; {remedy}")]
    Calibration {
        /// The QEMU.
        qemu: String,
        /// The trial that went wrong, and how.
        fault: Fault,
        /// What to do.
        remedy: &'static str,
    },
    /// The guest or the program ended before it had begun a test.
    #[error("it ended before the first test: {0}")]
    NotUp(End),
    /// A line is no test.
    #[error("line {line} is not a test: {source}")]
    NoTest {
        /// Its number, from 1 on.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// A test that has to be run, with its number among all.
struct Job {
    nr: usize,
    test: Test,
    plan: Plan,
}

type Told = (usize, Checked, Arc<Functions>);

/// How to check.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// The guests.
    pub guest: GuestOptions,
    /// What files are on; without, on tmpfs.
    pub disk: Option<Disk>,
    /// Every access of the first test is kept, and each is run once.
    pub trace: bool,
}

/// Runs `tests`, a line of JSON each, in guests with this kernel; tells each, in their order.
pub fn check(
    kernel: &Kernel,
    tests: &[u8],
    options: &CheckOptions,
    mut tell: impl FnMut(Checked, &Functions) -> ControlFlow<()>,
) -> Result<(), CheckError> {
    let (mut jobs, mut waiting) = (Vec::new(), BTreeMap::new());
    let no_functions = Arc::new(Functions::default());
    let lines = tests.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for (nr, line) in lines.enumerate() {
        let no_test = |source| CheckError::NoTest { line: nr + 1, source };
        let test: Test = serde_json::from_slice(line).map_err(no_test)?;
        match Plan::of(&test, false) {
            Ok(plan) => jobs.push(Job { nr, test, plan }),
            Err(why) => {
                let outcome = Ok(Outcome::NotRun(why));
                let checked = Checked { id: test.id, outcome, runs: Vec::new(), trace: Vec::new() };
                waiting.insert(nr, (checked, no_functions.clone()));
            }
        }
    }
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let guests = cpus.min(jobs.len().div_ceil(TESTS_PER_GUEST)).max(1);
    let mut hands: Vec<Vec<Job>> = (0..guests).map(|_| Vec::new()).collect();
    for (at, job) in jobs.into_iter().enumerate() {
        hands[at % guests].push(job);
    }
    // Where there is none, it may be built in, and without it all goes well and slowly.
    let msr = module(kernel, DRIVER).unwrap_or_default();
    thread::scope(|scope| {
        let (to, from) = sync_channel(MOST_WAITING);
        let player = |hand| {
            let (to, msr) = (to.clone(), msr.as_deref());
            scope.spawn(move || play(kernel, hand, options, msr, &to))
        };
        let players: Vec<_> = hands.into_iter().map(player).collect();
        drop(to);
        let mut next = 0;
        let mut stopped = false;
        loop {
            while let Some((checked, functions)) = waiting.remove(&next) {
                next += 1;
                stopped = stopped || tell(checked, &functions).is_break();
            }
            if stopped {
                break;
            }
            let Ok((nr, checked, functions)) = from.recv() else { break };
            waiting.insert(nr, (checked, functions));
        }
        // Who has something to tell notices, and ends its guest.
        drop(from);
        let ends = players.into_iter().map(|player| match player.join() {
            Ok(end) => end,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ends.collect()
    })
}

/// Boots a guest with this kernel, and finds out whether its QEMU shows what CPUs share and nothing else.
/// Each guest of [`check()`] and [`cost`](fn@crate::cost) begins with the same trials.
///
/// # Errors
/// It does not, which is [`CheckError::Calibration`], or there is no guest.
pub fn calibrate(kernel: &Kernel, guest: &GuestOptions) -> Result<(), CheckError> {
    let options = CheckOptions { guest: guest.clone(), ..CheckOptions::default() };
    let msr = module(kernel, DRIVER).unwrap_or_default();
    let mut game = Game::start(kernel, &[], &options, msr.as_deref())?;
    loop {
        match game.next()? {
            Next::End(_) if game.calibration.is_over() => return Ok(()),
            Next::End(end) => return Err(CheckError::NotUp(end)),
            Next::Checked(..) => {}
        }
    }
}

/// A QEMU whose trials went wrong.
pub(crate) fn uncalibrated(emulator: &Emulator, fault: Fault) -> CheckError {
    let version = emulator.version().unwrap_or_default();
    let remedy = "choose another QEMU with KNEE_QEMU";
    CheckError::Calibration { qemu: format!("QEMU {version}"), fault, remedy }
}

/// Has all tests of a hand run, in as many guests as it takes.
fn play(
    kernel: &Kernel,
    mut jobs: Vec<Job>,
    options: &CheckOptions,
    msr: Option<&[u8]>,
    to: &SyncSender<Told>,
) -> Result<(), CheckError> {
    let mut false_starts = 0;
    while !jobs.is_empty() {
        let mut game = Game::start(kernel, &jobs, options, msr)?;
        let end = loop {
            match game.next()? {
                Next::Checked(nr, checked) => {
                    if to.send((nr, checked, game.functions.clone())).is_err() {
                        return Ok(());
                    }
                }
                Next::End(end) => break end,
            }
        };
        let (told, begun, functions) = (game.told, game.channel.begun()?, game.functions.clone());
        drop(game);
        if told == jobs.len() {
            return Ok(());
        }
        if begun == 0 {
            false_starts += 1;
            if false_starts > FALSE_STARTS {
                return Err(CheckError::NotUp(end));
            }
            continue;
        }
        false_starts = 0;
        // Results of tests that were done may have been lost on the way, with the guest.
        let rest = jobs.split_off(begun.clamp(told + 1, jobs.len()));
        for lost in jobs.drain(told..) {
            let outcome = Err(end.clone());
            let checked =
                Checked { id: lost.test.id, outcome, runs: Vec::new(), trace: Vec::new() };
            if to.send((lost.nr, checked, functions.clone())).is_err() {
                return Ok(());
            }
        }
        jobs = rest;
    }
    Ok(())
}

enum Next {
    Checked(usize, Checked),
    End(End),
}

/// A guest with its tests.
struct Game<'a> {
    jobs: &'a [Job],
    /// Each guest has its own: modules need not be at the same addresses in all.
    functions: Arc<Functions>,
    guest: Guest,
    /// From when its kernel's symbols are known.
    resolver: Option<Resolver>,
    calibration: Calibration,
    channel: Channel,
    /// Reports of tests whose results have not all come.
    reports: VecDeque<Report>,
    results: Results,
    /// Runs of the tests that have been told.
    runs: u64,
    /// Tests that have been told.
    told: usize,
    end: Option<End>,
    trace: Vec<TracedAccess>,
    /// How often a test is run at most, and how often the one at hand has been.
    most_runs: u32,
    most_placements: u32,
    runs_now: u32,
    /// What its calls shared in its last run that counts.
    shared_before: Option<Shared>,
}

/// What calls share in a run, whatever the lines are.
#[derive(PartialEq, Eq)]
struct Shared(Vec<Option<Datum>>);

impl Shared {
    /// None of a run that does not count.
    fn of(run: &TestResult) -> Option<Shared> {
        if run.is_disturbed() || run.is_incomplete() {
            return None;
        }
        let lines = run.conflicts.iter().filter(|conflict| !conflict.by_position);
        let mut data: Vec<_> = lines.map(|conflict| conflict.datum.clone()).collect();
        data.sort();
        Some(Shared(data))
    }

    fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Game<'a> {
    fn start(
        kernel: &Kernel,
        jobs: &'a [Job],
        options: &CheckOptions,
        msr: Option<&[u8]>,
    ) -> Result<Game<'a>, CheckError> {
        let plans: Vec<&Plan> = jobs.iter().map(|job| &job.plan).collect();
        let channel = Channel::new(&plans)?;
        // What is shared can be named best while it is there.
        let calibration = Calibration::of(options.guest.cpus);
        let trace = options.trace.then_some(calibration.tests());
        let (pause, without_stack) = (true, !options.trace);
        let tracing = options.guest.tracing;
        let tracing = tracing.map(|tracing| Tracing { pause, trace, without_stack, ..tracing });
        let shared = Some(channel.ram());
        let mut guest = GuestOptions { channel: shared, tracing, ..options.guest.clone() };
        let mut files = Initramfs::new().file("init", 0o755, knee_artefacts::AGENT);
        guest.parameters.push(msr_parameter());
        if let Some(msr) = msr {
            files = files.file(MSR, 0o600, msr);
        }
        if let Some(disk) = &options.disk {
            guest.parameters.extend_from_slice(disk.parameters());
            files = files.file(DISK, 0o600, disk.file());
        }
        Ok(Game {
            jobs,
            functions: Arc::default(),
            guest: Guest::start(kernel, &files.finish(), &guest)?,
            resolver: None,
            runs: calibration.tests(),
            calibration,
            channel,
            reports: VecDeque::new(),
            results: Results::default(),
            told: 0,
            end: None,
            trace: Vec::new(),
            most_runs: if options.trace { 1 } else { MOST_RUNS },
            most_placements: if options.trace { 1 } else { MOST_PLACEMENTS },
            runs_now: 0,
            shared_before: None,
        })
    }

    /// The next test that is done, or the end.
    fn next(&mut self) -> Result<Next, CheckError> {
        loop {
            if let Some((nr, checked)) = self.complete() {
                return Ok(Next::Checked(nr, checked));
            }
            if let Some(end) = &self.end {
                return Ok(Next::End(end.clone()));
            }
            match self.guest.next_event()? {
                Some(Event::Console(line)) => {
                    // The firmware may have begun the line.
                    if let Some((_, said)) = line.split_once(CONSOLE) {
                        return Err(CheckError::Agent(said.to_owned()));
                    }
                }
                Some(Event::Result(Record::Test(result))) if !self.calibration.is_over() => {
                    if result.is_awaited() {
                        self.guest.resume()?;
                    }
                    self.calibration
                        .add(&result)
                        .map_err(|fault| uncalibrated(self.guest.emulator(), fault))?;
                }
                Some(Event::Result(Record::Test(mut result))) => {
                    if let Some(resolver) = &mut self.resolver {
                        resolver.resolve(&mut result);
                    }
                    self.runs_now += 1;
                    let shared = Shared::of(&result);
                    if result.is_awaited() {
                        self.go_on(shared, result.is_conflict_free())?;
                    } else {
                        self.next_test();
                    }
                    self.results.add(result);
                    self.reports.extend(self.channel.reports()?);
                }
                Some(Event::Result(Record::Header(_))) => self.learn()?,
                Some(Event::Result(Record::Access(access))) => self.trace.push(access),
                Some(Event::End(end)) => {
                    self.reports.extend(self.channel.reports()?);
                    self.end = Some(end);
                }
                None => self.end = Some(End::Died("it printed nothing".to_owned())),
            }
        }
    }

    /// Lets a guest go on that waits after a run: it runs the same test again, or the next.
    fn go_on(&mut self, shared: Option<Shared>, is_free: bool) -> Result<(), CheckError> {
        let before = self.shared_before.as_ref();
        let only_by_position = |shared: &Shared| shared.is_nothing() && !is_free;
        let (is_clear, most) = match &shared {
            None => (false, self.most_runs),
            Some(shared) if only_by_position(shared) && before.is_none_or(Shared::is_nothing) => {
                (false, self.most_placements)
            }
            Some(shared) => (shared.is_nothing() || before == Some(shared), self.most_runs),
        };
        let again = self.runs_now < most && !is_clear;
        match again {
            true => self.shared_before = shared.or(self.shared_before.take()),
            false => self.next_test(),
        }
        self.channel.ask_again(again)?;
        Ok(self.guest.resume()?)
    }

    fn next_test(&mut self) {
        (self.runs_now, self.shared_before) = (0, None);
    }

    /// The first test that is reported and all of whose results have come.
    fn complete(&mut self) -> Option<(usize, Checked)> {
        let end = self.runs.saturating_add(self.reports.front()?.seen);
        let mut runs = self.results.take(self.runs..end)?;
        self.runs = end;
        let report = self.reports.pop_front()?;
        let Job { nr, test, plan } = self.jobs.get(report.plan)?;
        for run in &mut runs {
            run.expect_system_calls(plan.system_calls());
        }
        self.told += 1;
        let outcome = Ok(report.done.outcome(test, plan));
        let trace = std::mem::take(&mut self.trace);
        Some((*nr, Checked { id: test.id.clone(), outcome, runs, trace }))
    }

    /// Reads the kernel's symbols.
    fn learn(&mut self) -> Result<(), CheckError> {
        let text = self.channel.kallsyms()?;
        let resolver = Resolver::new(self.guest.ram().clone(), &text);
        self.functions = Arc::new(Functions::of(&text, &resolver));
        self.resolver = Some(resolver);
        Ok(())
    }
}
