//! A round of a command: runs it once, measures the time, and terminates the processes that it
//! leaves behind.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, ExitStatus, Stdio};
use std::time::Duration;

use knee_host::Interrupt;
use knee_host::clock::seconds;
use knee_host::process::{Ties, last_line, read_tail, readable, reap_group, spawn, wait_readable};
use knee_host::signal::describe_end;
use knee_host::workdir::DeadMansNote;
use knee_results::{MAX_RATE, Mark};
use knee_stats::ungrouped;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process_group, pidfd_open};
use rustix::time::ClockId;

use crate::account::Ledger;
use crate::job::{Command, Failure, FailureKind, Job, Phase, Sample, Score};
use crate::reference;
use crate::stopped::Stopped;

/// A line with one of these characters needs a shell.
const SHELL_CHARACTERS: &str = "|&;<>()$`\\\"'*?[]#~=%!{}\n";
/// How much of the end of the output to keep.
const TAIL_BYTES: usize = 64 << 10;
/// How long an interrupted command may take to exit.
const END_PATIENCE: Duration = Duration::from_millis(500);
/// If other work got more than this share of the CPUs that a command may use, it may have slowed down
/// the command.
const LOST_SHARE: f64 = 0.05;
/// Advice for a command that cannot be started or that fails.
const ADVICE: &str = "run the command by hand to see why";

/// Runs `command` once as `job` says. The sample is the invocation.
pub(crate) fn run(command: &Command, job: &Job, interrupt: &Interrupt) -> Result<Sample, Stopped> {
    let line = command.line.replace(Command::TASKS, &job.tasks.to_string());
    let reference = reference::speed_on(&job.cpus);
    let ledger = Ledger::open(&job.cpus, &[], &[getpid()]);
    let before = seconds(ClockId::MonotonicRaw);
    let mut running = Running::start(&line, command, job)?;
    running.wait(interrupt)?;
    let seconds = seconds(ClockId::MonotonicRaw) - before;
    running.check(&line)?;
    // The command and its descendants have been waited for.
    let account = ledger.and_then(Ledger::close).filter(|_| seconds > Command::SHORTEST_JUDGED);
    let disturbed = account.is_some_and(|(balance, used)| {
        // With a CPU to spare, the command got what it wanted.
        let is_full = used.idle < LOST_SHARE * balance.had;
        is_full && balance.has_lost(LOST_SHARE, job.cpus.len(), &used, 0.0)
    });
    let rate = match command.score {
        Score::Time => 1.0 / seconds,
        Score::Printed => printed_rate(&running.stdout, &line)?,
    };
    Ok(Sample {
        phase: Phase::Measure,
        seconds,
        rates: vec![rate],
        cpu: account.map(|(_, used)| used.shares),
        lost: account.map(|(balance, _)| balance.share()),
        reference,
        // Streaming through memory would evict what the command finds in the caches.
        memory: None,
        marks: vec![Mark::Starved; usize::from(disturbed)],
    })
}

/// A running command. Dropping it terminates its process group.
struct Running {
    child: Child,
    note: Option<DeadMansNote>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Running {
    fn start(line: &str, command: &Command, job: &Job) -> Result<Self, Stopped> {
        let mut words = line.split_whitespace();
        let program = words.next().unwrap_or_default();
        let in_shell = || start("/bin/sh", ["-c", line], command, job);
        let child = if program.is_empty() || line.contains(|c| SHELL_CHARACTERS.contains(c)) {
            in_shell()
        } else {
            match start(program, words, command, job) {
                // It may be a shell builtin.
                Err(error) if error.kind() == io::ErrorKind::NotFound => in_shell(),
                spawned => spawned,
            }
        };
        let child = child.map_err(|error| {
            let reason = format!("cannot start {line}: {error}");
            Failure::new(FailureKind::CannotRun, reason, ADVICE)
        })?;
        let note = DeadMansNote::leave(&job.dir, child.id());
        Ok(Self { child, note, stdout: Vec::new(), stderr: Vec::new() })
    }

    /// Waits until it exits. Reads its output meanwhile, so that it never blocks on a full pipe.
    fn wait(&mut self, interrupt: &Interrupt) -> Result<(), Stopped> {
        let failed = |error: io::Error| Failure::runner(format!("cannot watch a command: {error}"));
        let pid = Pid::from_child(&self.child);
        let exit = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        loop {
            let [ended, interrupted, ..] = readable(
                [
                    Some(exit.as_fd()),
                    Some(interrupt.as_fd()),
                    self.child.stdout.as_ref().map(AsFd::as_fd),
                    self.child.stderr.as_ref().map(AsFd::as_fd),
                ],
                None,
            )
            .map_err(failed)?;
            if interrupted && let Some(signal) = interrupt.take() {
                self.end(&exit);
                return Err(Stopped::Interrupted(signal));
            }
            // A pipe at its end would be ready forever.
            if let Some(pipe) = &mut self.child.stdout
                && read_tail(pipe, &mut self.stdout, TAIL_BYTES)
            {
                self.child.stdout = None;
            }
            if let Some(pipe) = &mut self.child.stderr
                && read_tail(pipe, &mut self.stderr, TAIL_BYTES)
            {
                self.child.stderr = None;
            }
            if ended {
                return Ok(());
            }
        }
    }

    /// Asks the whole group to exit.
    fn end(&self, exit: &impl AsFd) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
        wait_readable(exit, END_PATIENCE);
    }

    /// Kills the whole group and reaps it.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        // Its descendants are killed before it is reaped, because its group number may be reused
        // afterwards.
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::KILL);
        self.note = None;
        let status = self.child.wait();
        reap_group(group);
        status
    }

    /// Returns a failure unless it exited successfully.
    fn check(&mut self, line: &str) -> Result<(), Failure> {
        let status = self.reap().map_err(|e| Failure::runner(format!("wait: {e}")))?;
        if status.success() {
            return Ok(());
        }
        let how = describe_end(status.signal(), status.code());
        let said = last_line(&self.stderr).map_or(String::new(), |line| format!(": {line}"));
        // The statuses of a shell for a missing program and for a file that is not a program.
        let missing = matches!(status.code(), Some(126 | 127));
        let kind = if missing { FailureKind::CannotRun } else { FailureKind::Died };
        Err(Failure::new(kind, format!("{line} {how}{said}"), ADVICE))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After it has been waited for, its number may be reused; std records that it was.
        if self.note.is_none() && self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        let _ = self.reap();
    }
}

fn start<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
    what: &Command,
    job: &Job,
) -> io::Result<Child> {
    let mut command = process::Command::new(program);
    command
        .current_dir(&what.dir)
        .args(args)
        .env("KNEE_PADDING", "x".repeat(job.layout as usize))
        .stdin(Stdio::null())
        .stdout(if what.score == Score::Printed { Stdio::piped() } else { Stdio::null() })
        .stderr(Stdio::piped())
        .process_group(0);
    let ties = Ties { cpus: job.cpus.clone(), ..Ties::bound() };
    let child = spawn(&mut command, ties)?;
    let (stdout, stderr) = (child.stdout.as_ref(), child.stderr.as_ref());
    for pipe in [stdout.map(AsFd::as_fd), stderr.map(AsFd::as_fd)].into_iter().flatten() {
        rustix::io::ioctl_fionbio(pipe, true)?;
    }
    Ok(child)
}

fn printed_rate(output: &[u8], line: &str) -> Result<f64, Failure> {
    let refused = |reason: String| {
        let remedy = "make the command print its rate as its last number, without a unit prefix, or \
            omit --rate";
        Failure::new(FailureKind::Died, format!("{line} {reason}"), remedy)
    };
    let text = String::from_utf8_lossy(output);
    match last_number(&text) {
        None => Err(refused("printed no number".to_owned())),
        // A record with a greater rate could not be read back.
        Some(rate) if rate > 0.0 && rate <= MAX_RATE => Ok(rate),
        Some(rate) => Err(refused(format!("printed {rate}, which is not a valid rate"))),
    }
}

/// The last number that stands by itself, or after a sign such as `:` or `=`, or before a unit that
/// is separated by a blank or a slash. `1,234,567` is one number. `1.2M`, `12ms` and `v3` are not
/// numbers, because the meaning of the letters is unknown.
fn last_number(text: &str) -> Option<f64> {
    let apart = |c: char| c.is_whitespace() || ":;=/()[]{}<>\"'".contains(c);
    text.split(apart).rev().find_map(|word| {
        let word = word.trim_end_matches(['.', ',', '!']);
        number(word).or_else(|| word.rsplit(',').find_map(number))
    })
}

fn number(word: &str) -> Option<f64> {
    let plain = if word.contains(',') { ungrouped(word)? } else { word.to_owned() };
    // Rust also parses words such as inf and nan as numbers.
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    if has_digit { plain.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_the_rate() {
        assert_eq!(last_number("testcase:mmap1\naverage:1310849\n"), Some(1310849.0));
        assert_eq!(last_number("min:1 max:2 total=3.5e6 ops/s"), Some(3.5e6));
        assert_eq!(last_number("rate: -3."), Some(-3.0));
        assert_eq!(last_number("1,234,567 in all"), Some(1234567.0));
        assert_eq!(last_number("12,345.5/s"), Some(12345.5));
        assert_eq!(last_number("columns 7,8"), Some(8.0));
        assert_eq!(last_number("got 12"), Some(12.0));
        assert_eq!(last_number("took 12.5ms."), None);
        assert_eq!(last_number("1.2M and v1.2.3 and nan"), None);
        assert_eq!(last_number("p99 of mmap1"), None);
        assert_eq!(last_number("- . + e5"), None);
        assert_eq!(last_number(""), None);
    }

    #[test]
    fn a_rate_too_large_for_a_record_is_rejected() {
        assert_eq!(printed_rate(b"1e9\n", "x").unwrap(), 1e9);
        for rate in ["0", "-3", "1e40", "1e999"] {
            let failure = printed_rate(rate.as_bytes(), "x").unwrap_err();
            assert!(failure.reason.ends_with("which is not a valid rate"), "{failure:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_output_makes_it_panic(text: String) {
            let _ = last_number(&text);
        }
    }
}
