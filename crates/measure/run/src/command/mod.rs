//! A round of a command: runs it once, or a copy per task, measures the time, and ends the processes
//! that it leaves running.

pub(crate) mod rate;
mod running;
pub(crate) mod words;

use std::net::TcpListener;

use knee_host::clock::seconds;
use knee_host::{CpuList, Interrupt};
use knee_results::{Counts, Mark};
use rustix::process::getpid;
use rustix::time::ClockId;

use self::running::Running;
use crate::account::{CountedEvents, Ledger, TICK};
use crate::job::{Command, Failure, FailureKind, Job, Phase, Sample, Score};
use crate::observer::RoundObserver;
use crate::stopped::Stopped;

/// If other work got more than this share of the CPUs that a command may use, it may have slowed down
/// the command.
const LOST_SHARE: f64 = 0.05;

/// Runs `command` once as `job` says. The first sample is the invocation, or all copies together.
pub(crate) fn run(
    command: &Command,
    job: &Job,
    interrupt: &Interrupt,
    observer: &mut dyn RoundObserver,
) -> Result<[Sample; 2], Stopped> {
    let places = places(command, job);
    let mut cpus: Vec<u32> = places.iter().flatten().copied().collect();
    cpus.sort_unstable();
    cpus.dedup();
    // Kept until each copy has its port, so that no two copies get the same one.
    let mut kept = Vec::new();
    let lines = places.into_iter().map(|cpus| Ok((filled(command, job, &cpus, &mut kept)?, cpus)));
    let lines = lines.collect::<Result<Vec<_>, Failure>>()?;
    drop(kept);
    let reference = knee_reference::speed_on(&cpus);
    let mut running = Running::hold(lines, command, job)?;
    let mut counted = CountedEvents::of_programs(job.counters.as_ref(), &running.programs())?;
    let ledger = Ledger::open(&cpus, &running.processes(), &[getpid()]);
    observer.ready(&running.keepers()).map_err(Stopped::ByReceiver)?;
    observer.begin().map_err(Stopped::ByReceiver)?;
    let before = seconds(ClockId::MonotonicRaw);
    running.release()?;
    let seconds = running.wait(interrupt, observer)? - before;
    observer.end().map_err(Stopped::ByReceiver)?;
    let counts = counted.as_mut().map(CountedEvents::since_last);
    // The rates are those of these seconds.
    let counters = counts.map(|counts| Counts { seconds, ..counts });
    let rates = running.copies.iter().map(|copy| match command.score {
        // The work is done when the last copy ends.
        Score::Time => Ok(1.0 / seconds),
        Score::Printed => rate::printed(&copy.stdout, &copy.line, command.read.as_deref()),
    });
    let rates = rates.collect::<Result<Vec<f64>, Failure>>()?;
    // Afterwards, the command and its descendants have been waited for.
    let left_running = running.end();
    let account = ledger.and_then(Ledger::close);
    let is_short = seconds <= Command::SHORT;
    let disturbed = account.is_some_and(|(balance, used, own)| {
        // A command that leaves CPUs idle was not short of CPU time.
        let is_full = used.idle < LOST_SHARE * balance.had;
        let inexact = if is_short { TICK } else { 0.0 };
        // The time of a tiny command is that of its start.
        let is_tiny = own < TICK;
        is_full && !is_tiny && balance.has_lost(LOST_SHARE, cpus.len(), &used, inexact)
    });
    // Shares of so few ticks would mean little.
    let account = account.filter(|_| !is_short);
    let sample = Sample {
        phase: Phase::Measure,
        seconds,
        rates,
        cpu: account.map(|(_, used, _)| used.shares),
        lost: account.map(|(balance, ..)| balance.share()),
        reference,
        // Streaming through memory would evict what the command finds in the caches.
        memory: None,
        server: None,
        latency: None,
        latency_failure: None,
        counters,
        marks: vec![Mark::Starved; usize::from(disturbed)],
        left_running: Vec::new(),
    };
    let reference = knee_reference::speed_on(&cpus);
    let round =
        Sample { phase: Phase::Round, reference, counters: None, left_running, ..sample.clone() };
    Ok([sample, round])
}

/// The CPUs that each process of the command may use.
fn places(command: &Command, job: &Job) -> Vec<Vec<u32>> {
    let tasks = job.tasks as usize;
    match (command.copies, job.pin) {
        (true, true) => (0..tasks).map(|nr| vec![job.cpus[nr % job.cpus.len()]]).collect(),
        (true, false) => vec![job.cpus.clone(); tasks],
        (false, true) if command.takes_tasks() => {
            vec![job.cpus[..tasks.min(job.cpus.len())].to_vec()]
        }
        (false, _) => vec![job.cpus.clone()],
    }
}

/// The line of a process that may use `cpus`. A port in it is free once the listeners in `kept` are closed.
fn filled(
    command: &Command,
    job: &Job,
    cpus: &[u32],
    kept: &mut Vec<TcpListener>,
) -> Result<String, Failure> {
    let mut line = command.line.replace(Command::TASKS, &job.tasks.to_string());
    let cpus: CpuList = cpus.iter().copied().collect();
    line = line.replace(Command::CPUS, &cpus.to_string());
    line = line.replace(Command::SECONDS, &job.interval.to_string());
    line = line.replace(Command::DIR, &job.dir.to_string_lossy());
    if line.contains(Command::PORT) {
        let (listener, port) = listener()?;
        line = line.replace(Command::PORT, &port.to_string());
        kept.push(listener);
    }
    Ok(line)
}

/// A listener on a TCP port that the kernel chooses, and this port.
pub(crate) fn listener() -> Result<(TcpListener, u16), Failure> {
    let bound = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| {
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    });
    bound.map_err(|error| {
        let reason = format!("cannot find a free TCP port: {error}");
        let remedy = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "end the programs that use up the ports; `ss -tanp` lists them"
            }
            _ => "ip link set lo up",
        };
        Failure::new(FailureKind::CannotRun, reason, remedy)
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use knee_results::{CaseId, Mode};

    use super::*;
    use crate::job::Source;

    fn job(tasks: u32, pin: bool) -> Job {
        Job {
            case: CaseId::new("a"),
            source: Source::BuiltIn {},
            mode: Mode::Processes,
            tasks,
            cpus: vec![0, 2, 1, 3],
            pin,
            sampler_cpu: None,
            warmup: 0.0,
            interval: 2.0,
            start_timeout: 1.0,
            samples: Some(1),
            latency: None,
            counters: None,
            dir: PathBuf::from("/private"),
            layout: 0,
        }
    }

    #[test]
    fn a_command_gets_the_first_cpus_of_the_placement_and_a_copy_gets_one() {
        let command = |line: &str, copies| Command { copies, ..Command::timed(line, "/") };
        let sweeping = command("make -j{tasks}", false);
        assert_eq!(places(&sweeping, &job(3, true)), [vec![0, 2, 1]]);
        assert_eq!(places(&sweeping, &job(8, true)), [vec![0, 2, 1, 3]]);
        assert_eq!(places(&sweeping, &job(2, false)), [vec![0, 2, 1, 3]]);
        assert_eq!(places(&command("make", false), &job(1, true)), [vec![0, 2, 1, 3]]);
        let copies = places(&command("./solve", true), &job(5, true));
        assert_eq!(copies, [vec![0], vec![2], vec![1], vec![3], vec![0]]);
        assert_eq!(places(&command("./solve", true), &job(2, false)), [[0, 2, 1, 3]; 2]);
    }

    #[test]
    fn placeholders_are_replaced() {
        let command =
            Command::timed("./a -t {tasks} -c {cpus} -s {seconds} -d {dir}/{tasks} -p {port}", "/");
        let mut kept = Vec::new();
        let mut filled = || filled(&command, &job(3, true), &[0, 2, 1], &mut kept).unwrap();
        let (first, second) = (filled(), filled());
        let (line, port) = first.rsplit_once(' ').unwrap();
        assert_eq!(line, "./a -t 3 -c 0-2 -s 2 -d /private/3 -p");
        assert!(port.parse::<u16>().unwrap() > 0);
        assert_ne!(first, second, "each copy has a port of its own");
    }
}
