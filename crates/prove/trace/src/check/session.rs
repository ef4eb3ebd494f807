//! A session: a guest and its tests, from start to end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use knee_agent::{CONSOLE, DISK, MSR, msr_parameter, outcome};
use knee_commute::Test;
use knee_operations::PAGE;
use knee_operations::trials::Kind;
use knee_plan::{Plan, Report, channel};

use super::checked::Checked;
use super::error::CheckError;
use super::repetition::Repetition;
use crate::calibration::Calibration;
use crate::channel::Channel;
use crate::disk::Disk;
use crate::error::GuestError;
use crate::functions::Functions;
use crate::guest::{End, Event, Guest, GuestOptions, KNEE_CHANNEL_AT};
use crate::guest_kernel::{GuestKernel, Names};
use crate::initramfs::Initramfs;
use crate::process::Tracing;
use crate::record::{Record, TestResult, TracedAccess};
use crate::results::Results;

/// Maximum number of accesses of a traced test. A test makes a few thousand accesses. An access takes about
/// 60 bytes of memory.
const MAX_TRACE: usize = 4_000_000;
/// The memory that knee's own kernel needs in addition to its image, its heap and the channel, in bytes: for
/// its spaces, and for the pages of the tests. Three processes on four CPUs use less than 1 MiB.
const KNEE_FRAMES: u64 = 16 * MIB;
const MIB: u64 = 1 << 20;
/// Interval at which a session that waits for its guest checks whether to stop.
const STOP_PERIOD: Duration = Duration::from_millis(100);

/// How to check.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// How to start the guests.
    pub guest: GuestOptions,
    /// The file system of the tests; `None` for tmpfs.
    pub disk: Option<Disk>,
    /// Whether to keep every access of the first test. If set, each test runs once.
    pub trace: bool,
}

/// A test to run.
pub(super) struct Job {
    /// The test's number among all tests.
    pub(super) nr: usize,
    pub(super) test: Test,
    pub(super) plan: Plan,
}

/// The next event of a session.
pub(super) enum Next {
    /// A completed test, with its number among all tests.
    Checked(usize, Checked),
    /// The guest has ended. This is the last event.
    End(End),
    /// The session must stop.
    Stopped,
}

/// A guest with its tests.
pub(super) struct GuestSession<'a> {
    jobs: &'a [Job],
    /// Each guest has its own functions, because modules may be at different addresses.
    functions: Arc<Functions>,
    guest: Guest,
    names: Names<'a>,
    calibration: Calibration,
    channel: Channel,
    /// Reports of tests whose results have not all arrived.
    reports: VecDeque<Report>,
    results: Results,
    /// The number of runs that the calibration and the completed tests have made.
    runs: u64,
    completed: usize,
    end: Option<End>,
    trace: Vec<TracedAccess>,
    repetition: Repetition,
}

impl<'a> GuestSession<'a> {
    /// Starts a guest. `msr` is the module of the MSR driver, if the kernel has one.
    pub(super) fn start(
        kernel: &'a GuestKernel,
        jobs: &'a [Job],
        options: &CheckOptions,
        msr: Option<&[u8]>,
    ) -> Result<GuestSession<'a>, CheckError> {
        let plans: Vec<&Plan> = jobs.iter().map(|job| &job.plan).collect();
        let calibration = match kernel {
            GuestKernel::Linux(_) => Calibration::of(options.guest.cpus),
            GuestKernel::Knee(_) => Calibration::of_kinds(&Kind::WITHOUT_FILES, options.guest.cpus),
        };
        let trace = options.trace.then_some(calibration.tests());
        // Shared data are easiest to name while they still exist, so the guest pauses after conflicts.
        let (pause, without_stack) = (true, !options.trace);
        let tracing = options.guest.tracing;
        let tracing = tracing.map(|tracing| Tracing { pause, trace, without_stack, ..tracing });
        let mut guest = GuestOptions { tracing, ..options.guest.clone() };
        let (mut guest, channel) = match kernel {
            GuestKernel::Linux(kernel) => {
                let channel = Channel::new(&plans)?;
                guest.channel = Some(channel.ram());
                let mut files = Initramfs::new().file("init", 0o755, knee_artefacts::AGENT);
                guest.parameters.push(msr_parameter());
                if let Some(msr) = msr {
                    files = files.file(MSR, 0o600, msr);
                }
                if let Some(disk) = &options.disk {
                    guest.parameters.extend_from_slice(disk.parameters());
                    files = files.file(DISK, 0o600, disk.file());
                }
                (Guest::start(kernel, &files.finish(), &guest)?, channel)
            }
            GuestKernel::Knee(kernel) => {
                let (content, bytes) = channel(&plans, 0);
                let needed = (bytes as u64).div_ceil(MIB);
                let available =
                    u64::from(guest.memory).saturating_sub((KNEE_CHANNEL_AT + KNEE_FRAMES) / MIB);
                if needed > available {
                    return Err(CheckError::TooLarge { tests: jobs.len(), needed, available });
                }
                let parameters = format!("check={}", bytes.div_ceil(PAGE));
                let guest = Guest::start_knee(kernel, &parameters, &content, &guest)?;
                let channel = Channel::of_guest(&guest, KNEE_CHANNEL_AT, &plans);
                (guest, channel)
            }
        };
        guest.begin_step();
        Ok(GuestSession {
            jobs,
            functions: Arc::default(),
            guest,
            names: Names::of(kernel),
            runs: calibration.tests(),
            calibration,
            channel,
            reports: VecDeque::new(),
            results: Results::default(),
            completed: 0,
            end: None,
            trace: Vec::new(),
            repetition: match options.trace {
                true => Repetition::once(),
                false => Repetition::until_known(),
            },
        })
    }

    /// The functions of the guest's kernel; empty until its symbols are known.
    pub(super) fn functions(&self) -> &Arc<Functions> {
        &self.functions
    }

    /// Whether all trials of the calibration have passed.
    pub(super) fn is_calibrated(&self) -> bool {
        self.calibration.is_over()
    }

    /// The number of completed tests.
    pub(super) fn completed(&self) -> usize {
        self.completed
    }

    /// The number of tests that the guest has begun.
    pub(super) fn begun(&self) -> Result<usize, CheckError> {
        Ok(self.channel.begun()?)
    }

    /// Waits until a test has been completed, the guest has ended, or `stop` is set.
    pub(super) fn next(&mut self, stop: &AtomicBool) -> Result<Next, CheckError> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(Next::Stopped);
            }
            if let Some((nr, checked)) = self.complete() {
                return Ok(Next::Checked(nr, checked));
            }
            if let Some(end) = &self.end {
                return Ok(Next::End(end.clone()));
            }
            match self.guest.poll(STOP_PERIOD)? {
                Poll::Pending => {}
                Poll::Ready(Some(event)) => self.handle(event)?,
                Poll::Ready(None) => self.end = Some(End::Died("it printed nothing".to_owned())),
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), CheckError> {
        match event {
            Event::Console(line) => {
                self.names.learn(&line);
                // The firmware may have printed text before the message on the same line.
                if let Some((_, message)) = line.split_once(CONSOLE) {
                    return Err(CheckError::Agent(message.to_owned()));
                }
            }
            Event::Result(Record::Test(result)) if !self.calibration.is_over() => {
                if result.is_awaited() {
                    self.guest.resume()?;
                }
                self.calibration
                    .add(&result)
                    .map_err(|fault| CheckError::uncalibrated(self.guest.emulator(), fault))?;
            }
            Event::Result(Record::Test(result)) => self.add_run(result)?,
            Event::Result(Record::Header(_)) => self.read_symbols()?,
            Event::Result(Record::Access(access)) if self.trace.len() < MAX_TRACE => {
                self.trace.push(access);
            }
            Event::Result(Record::Access(_)) => return Err(GuestError::TooMany("accesses").into()),
            // Only measurements of costs use deferred work.
            Event::Result(Record::Deferred(_)) => {}
            Event::End(end) => {
                self.reports.extend(self.channel.reports()?);
                self.end = Some(end);
            }
        }
        Ok(())
    }

    /// Adds a run. If the guest pauses after this run, tells the guest whether to run the test again,
    /// and resumes the guest.
    fn add_run(&mut self, mut result: TestResult) -> Result<(), CheckError> {
        self.names.resolve(&mut result);
        let again = self.repetition.wants_another(&result);
        if result.is_awaited() {
            self.channel.set_run_again(again)?;
            self.guest.resume()?;
        }
        self.results.add(result)?;
        self.reports.extend(self.channel.reports()?);
        Ok(())
    }

    /// The first reported test, if all of its results have arrived.
    fn complete(&mut self) -> Option<(usize, Checked)> {
        let end = self.runs.saturating_add(self.reports.front()?.seen);
        let mut runs = self.results.take(self.runs..end)?;
        self.runs = end;
        let report = self.reports.pop_front()?;
        let Job { nr, test, plan } = self.jobs.get(report.plan)?;
        for run in &mut runs {
            run.expect_system_calls(plan.system_calls());
        }
        self.completed += 1;
        self.guest.begin_step();
        let outcome = Ok(outcome(&report.done, test, plan));
        let trace = std::mem::take(&mut self.trace);
        let layouts = self.names.take_layouts();
        Some((*nr, Checked { id: test.id.clone(), outcome, runs, trace, layouts }))
    }

    fn read_symbols(&mut self) -> Result<(), CheckError> {
        let functions = self.names.functions(Some(&self.channel), self.guest.ram())?;
        self.functions = Arc::new(functions);
        Ok(())
    }
}
