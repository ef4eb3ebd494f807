//! Runs tests of a library under QEMU, in a program that binds the library to a model.
//!
//! The program reads its tests from standard input, and reports its mappings and the results of the calls on
//! standard output (see the knee-bind crate). The program runs either in QEMU's user mode, where the host's
//! kernel executes its system calls, or in a guest, whose kernel is not traced. The guest is for hosts whose
//! user-mode QEMU does not support plugins. If the program dies, hangs or exits during a test, that event is
//! the outcome of the test, and the remaining tests run in a new process.

mod event;
mod files;
mod guest;
mod repeat;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use knee_agent::Outcome;
use knee_bind::calibration::trials;
use knee_bind::{GUEST, MESSAGE_PREFIX, Message};
use knee_commute::Test;

use self::event::{ProgramEvent, end, silent};
use self::guest::{Packed, ProgramGuest};
use crate::calibration::{Calibration, Fault};
use crate::check::{CheckError, Checked};
use crate::error::GuestError;
use crate::guest::End;
use crate::kernel::Kernel;
use crate::process::{Launch, Qemu, QemuEvent, Tracing, memory_file};
use crate::qemu::{Emulator, QEMU_USER, qemu_user_version};
use crate::record::Record;
use crate::results::Results;
use crate::symbols::ProgramNames;

/// Environment variable for programs that run for a prediction. If such a program panics, the message is
/// short, because it has no backtrace.
const NO_BACKTRACE: (&str, &str) = ("RUST_BACKTRACE", "0");
/// Maximum length of a message of a program, in bytes. Messages name a mapping, or say what the calls of a test returned.
const LONGEST_MESSAGE: usize = 64 << 10;
/// Part of the panic message of a guest's kernel that has run out of memory (mm/oom_kill.c).
const OUT_OF_MEMORY: &str = "Out of memory";

pub use self::repeat::{Traced, time_program, trace_program};

/// Checks whether this machine's user-mode QEMU can trace programs. A positive answer is cached.
///
/// # Errors
/// User-mode QEMU is not installed ([`GuestError::NoQemu`]) or does not support plugins
/// ([`GuestError::NoPlugins`]). In both cases, programs can still run in a guest.
pub fn user_mode() -> Result<(), GuestError> {
    Launch::program(Command::new(QEMU_USER)).trace(Tracing::default())
}

/// What runs a program.
#[derive(Clone, Copy)]
pub enum ProgramHost<'k> {
    /// QEMU's user mode, which must support plugins ([`user_mode`]).
    UserMode,
    /// A guest with this kernel in this QEMU. The guest takes several seconds to boot.
    Guest(&'k Kernel, &'k Emulator),
}

/// Runs `tests`, each a line of JSON, in a program whose `main` calls `knee_bind::main`. Calls
/// `report` for each test, in the order of the lines, until `report` returns `Break`. A program counts as
/// hung if it prints nothing for as long as `patience`.
pub fn check_program(
    host: ProgramHost<'_>,
    program: &Path,
    tests: &[u8],
    patience: Duration,
    mut report: impl FnMut(Checked, &ProgramNames) -> ControlFlow<()>,
) -> Result<(), CheckError> {
    let lines: Vec<&[u8]> = tests.split(|byte| *byte == b'\n').collect();
    let mut rest: &[&[u8]] = &lines;
    // Empty lines at the end are not tests.
    while let [before @ .., b""] = rest {
        rest = before;
    }
    let mut names = ProgramNames::default();
    let launcher = Launcher::new(host, program, false)?;
    while !rest.is_empty() {
        let mut process = Process::start(&launcher, rest, patience)?;
        names.restart();
        let mut reported = 0;
        let end = loop {
            if reported == rest.len() {
                return Ok(());
            }
            match process.next(&mut names)? {
                Next::Checked(checked) => {
                    reported += 1;
                    if report(checked, &names).is_break() {
                        return Ok(());
                    }
                }
                Next::End(end) => break end,
            }
        };
        if !process.calibration.as_ref().is_some_and(Calibration::is_over) {
            return Err(CheckError::NotUp(end));
        }
        // Programs do not free memory between tests, so earlier tests may have used up the memory. A
        // new process runs this test again.
        if reported > 0 && matches!(&end, End::Panicked(message) if message.contains(OUT_OF_MEMORY))
        {
            rest = &rest[reported..];
            continue;
        }
        let line = lines.len() - rest.len() + reported;
        let no_test = |source| CheckError::NoTest { line, source };
        let lost: Test = serde_json::from_slice(rest[reported]).map_err(no_test)?;
        let lost = Checked::unobserved(lost.id, Err(end));
        if report(lost, &names).is_break() {
            return Ok(());
        }
        rest = &rest[reported + 1..];
    }
    Ok(())
}

enum Next {
    Checked(Checked),
    End(End),
}

/// Starts a program, and starts it again whenever it ends before the last test.
struct Launcher<'a> {
    place: Place<'a>,
    /// Whether the plugin reports the accesses to lines that move.
    accesses: bool,
}

/// Where a program runs.
enum Place<'a> {
    UserMode(&'a Path),
    Guest(&'a Kernel, &'a Emulator, Packed),
}

impl<'a> Launcher<'a> {
    fn new(host: ProgramHost<'a>, program: &'a Path, accesses: bool) -> Result<Self, GuestError> {
        let place = match host {
            ProgramHost::UserMode => Place::UserMode(program),
            ProgramHost::Guest(kernel, emulator) => {
                Place::Guest(kernel, emulator, Packed::new(program)?)
            }
        };
        Ok(Self { place, accesses })
    }

    fn start(&self, input: &[u8], patience: Duration) -> Result<Running, GuestError> {
        let tracing = Tracing { accesses: self.accesses, ..Tracing::default() };
        match &self.place {
            Place::UserMode(program) => {
                let mut launch = Launch::program(Command::new(QEMU_USER));
                launch.trace(Tracing { user: true, ..tracing })?;
                let input = Stdio::from(memory_file("knee-tests", input)?);
                let command = launch.command().arg(program).env(GUEST, "0").stdin(input);
                command.envs(self.accesses.then_some(NO_BACKTRACE));
                Ok(Running::UserMode(launch.start(patience)?))
            }
            Place::Guest(kernel, emulator, packed) => {
                let tracing = Tracing { program: true, ..tracing };
                let guest = packed.start(kernel, emulator, input, tracing, patience)?;
                Ok(Running::Guest(Box::new(guest)))
            }
        }
    }
}

/// A running program.
enum Running {
    UserMode(Qemu),
    Guest(Box<ProgramGuest>),
}

impl Running {
    /// The error for a QEMU that failed its calibration.
    fn uncalibrated(&self, fault: Fault) -> CheckError {
        match self {
            Self::UserMode(_) => {
                let qemu = qemu_user_version().unwrap_or_default();
                let remedy = "run the program in a guest, with --kernel bookworm";
                CheckError::Calibration { qemu: format!("qemu-user {qemu}"), fault, remedy }
            }
            Self::Guest(guest) => CheckError::uncalibrated(guest.emulator(), fault),
        }
    }

    /// Starts a step; see [`Qemu::begin_step`].
    fn begin_step(&mut self) {
        match self {
            Self::UserMode(qemu) => qemu.begin_step(),
            Self::Guest(guest) => guest.begin_step(),
        }
    }

    fn next(&mut self) -> Result<ProgramEvent, CheckError> {
        match self {
            Self::UserMode(qemu) => Ok(match qemu.next()? {
                Some(QemuEvent::Line(line)) => ProgramEvent::Line(line),
                Some(QemuEvent::Result(record)) => ProgramEvent::Result(record),
                Some(QemuEvent::Silent(patience)) => ProgramEvent::End(End::Hung(patience)),
                Some(QemuEvent::Endless(limit)) => ProgramEvent::End(End::Endless(limit)),
                Some(QemuEvent::Ended(status, stderr)) => {
                    ProgramEvent::End(end(status, stderr.as_bytes()))
                }
                None => ProgramEvent::End(silent()),
            }),
            Self::Guest(guest) => guest.next(),
        }
    }
}

/// A process of the program, which runs the remaining tests.
struct Process {
    running: Running,
    /// `None` until the program has reported its trials.
    calibration: Option<Calibration>,
    /// The number of tests that the program was given.
    expected: usize,
    /// Completed tests that wait for the rest of their results: id, outcome, number of runs.
    done: VecDeque<(String, Outcome, u64)>,
    results: Results,
    /// The number of runs that the calibration and the reported tests have made.
    runs: u64,
}

impl Process {
    fn start(
        launcher: &Launcher<'_>,
        tests: &[&[u8]],
        patience: Duration,
    ) -> Result<Process, CheckError> {
        let mut running = launcher.start(&tests.join(&b'\n'), patience)?;
        running.begin_step();
        Ok(Process {
            running,
            calibration: None,
            expected: tests.len(),
            done: VecDeque::new(),
            results: Results::default(),
            runs: 0,
        })
    }

    /// Waits until the next test is completed, or the process ends or hangs.
    fn next(&mut self, names: &mut ProgramNames) -> Result<Next, CheckError> {
        loop {
            if self.is_calibrated()?
                && let Some(mut checked) = self.complete()
            {
                self.running.begin_step();
                names.look_up(&mut checked.runs);
                return Ok(Next::Checked(checked));
            }
            match self.running.next()? {
                ProgramEvent::Line(line) => self.handle_line(&line, names)?,
                ProgramEvent::Result(Record::Test(result)) => self.results.add(result)?,
                ProgramEvent::Result(_) => {}
                ProgramEvent::End(end) => return Ok(Next::End(end)),
            }
        }
    }

    fn handle_line(&mut self, line: &str, names: &mut ProgramNames) -> Result<(), CheckError> {
        let Some(message) = line.strip_prefix(MESSAGE_PREFIX) else { return Ok(()) };
        if message.len() > LONGEST_MESSAGE {
            let (length, most) = (message.len(), LONGEST_MESSAGE);
            let why =
                format!("the program sends a message of {length} bytes; knee reads at most {most}");
            return Err(CheckError::Agent(why));
        }
        match serde_json::from_str(message) {
            Ok(Message::Mapping(mapping)) => names.learn(&mapping),
            Ok(Message::Trials(made)) if made == trials() => {
                self.calibration.get_or_insert_with(|| Calibration::of_program(made));
            }
            Ok(Message::Trials(_) | Message::Done { .. } | Message::Timed { .. })
                if self.calibration.is_none() =>
            {
                return Err(other_version());
            }
            Ok(Message::Trials(_) | Message::Timed { .. }) => {}
            Ok(Message::Thread(stack)) => names.learn_thread(stack),
            Ok(Message::Done { .. }) if self.done.len() == self.expected => {
                let why = "the program reports more tests than it was given";
                return Err(CheckError::Agent(why.to_owned()));
            }
            Ok(Message::Done { id, outcome, seen }) => self.done.push_back((id, outcome, seen)),
            Err(_) => return Err(CheckError::Agent(message.to_owned())),
        }
        Ok(())
    }

    /// Judges the trials once the results of all trials have arrived. Returns whether these results have
    /// arrived. Results are numbered from 0, and the results of the trials come first.
    fn is_calibrated(&mut self) -> Result<bool, CheckError> {
        let Some(calibration) = &mut self.calibration else { return Ok(false) };
        if !calibration.is_over() {
            let Some(results) = self.results.take(0..calibration.tests()) else { return Ok(false) };
            self.runs = calibration.tests();
            for result in &results {
                calibration.add(result).map_err(|fault| self.running.uncalibrated(fault))?;
            }
        }
        Ok(true)
    }

    /// The first completed test, if all of its results have arrived.
    fn complete(&mut self) -> Option<Checked> {
        let end = self.runs.saturating_add(self.done.front()?.2);
        let runs = self.results.take(self.runs..end)?;
        self.runs = end;
        let (id, outcome, _) = self.done.pop_front()?;
        Some(Checked { runs, ..Checked::unobserved(id, Ok(outcome)) })
    }
}

/// The error for a program that was built with another version of knee-bind.
const OTHER_VERSION: &str = "the program uses another version of knee-bind; rebuild it";

fn other_version() -> CheckError {
    CheckError::Agent(OTHER_VERSION.to_owned())
}
