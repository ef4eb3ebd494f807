//! `knee profile growth`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use knee_host::{Interrupt, OwnDirectory, Topology, auto_tasks, cgroup};
use knee_profile::Capture;
use knee_profile::growth::{growth, table};
use knee_profile::sampling::Sampler;
use knee_report::KNEE_EFFICIENCY;
use knee_results::{Kind, Mode};

use super::args::HowArgs;
use super::repeated::Repeated;
use super::subject::Subject;
use super::testcase::Sampled;
use crate::args::complete;
use crate::args::modes::one_mode;
use crate::args::patience::PatienceArgs;
use crate::args::score::ScoreArgs;
use crate::args::tasks::Tasks;
use crate::args::whole;
use crate::exit::{ExitStatus, bail_usage, ensure_usage, usage};
use crate::file::OutputDirectory;
use crate::interrupt;
use crate::present::profile::losses;
use crate::session::QuietWait;
use crate::session::bench::{Bench, interrupted};
use crate::stderr::tell;
use crate::stdout;

/// Seconds at each task count while knee searches for the knee.
const SEARCH: f64 = 0.3;

/// Rank functions by how much their cost per iteration grows with the task count
///
/// By default, knee samples a testcase at one task, at the knee (the first task count with an
/// efficiency below 80%) and at the maximum task count. For each function, knee compares the cost
/// per iteration: the CPU time that all tasks spend in the function, divided by their iterations.
/// Growth is the cost that the tasks impose on each other. knee names the callers of the functions
/// whose cost grew. knee also shows the off-CPU time of the tasks.
///
/// knee samples a server only while it is under load, and compares the cost per request. The
/// task count of a server is its number of CPUs. By default, knee compares one CPU with the largest
/// count that leaves the load CPUs of its own. On a machine with two or three CPUs, knee compares one
/// CPU with two; the load then shares them or has too few of its own.
///
/// With a command after --, knee runs this command as `knee run` does: once on as many CPUs as there are
/// tasks if it contains {tasks} or {cpus}, otherwise one copy per task. knee compares the cost per run, or,
/// with --rate or --read, the cost of one of the units whose rate the command prints. A short command runs
/// again until knee has sampled long enough. By default, knee compares one task with as many as there are
/// CPUs.
#[derive(clap::Args)]
#[command(
    override_usage = "knee profile growth [OPTIONS] NAME | FILE.toml
       knee profile growth [OPTIONS] -- CMD...
       knee profile growth [OPTIONS] --from FILE FILE...",
    after_help = "Examples:
  knee profile growth mmap1 -m threads           at 1 task, the knee, all CPUs
  knee profile growth page_fault1 -t 1,4,16      at these task counts
  knee profile growth nginx                      a server, by cost per request
  knee profile growth mmap1 -m threads -o mmap1  keep the captures in mmap1/
  knee profile growth -- make -j{tasks}          a command, by cost per run
  knee profile growth --read 'tps = #' -- ./bench.sh -n {tasks}
  knee profile growth --from 1.json 16.json      compare existing captures
  knee profile growth mmap1 --json | jq '.rows[0]'"
)]
pub(super) struct Args {
    /// Testcase or server (see `knee list`), or a file that describes a server
    #[arg(value_name = "NAME | FILE.toml", add = complete::testcase_or_server())]
    testcase: Option<String>,

    /// Task counts, such as 1,4,16 [default: 1, the knee and the count of CPUs;
    /// for a server or a command: see the description in --help]
    #[arg(short, long, value_name = "LIST")]
    tasks: Option<Tasks>,

    /// Task mode: processes or threads [default: processes if the testcase supports them]
    #[arg(short, long, value_parser = one_mode())]
    mode: Option<Mode>,

    /// Seconds to sample at each task count; for a command, also the value of {seconds}
    #[arg(short, long, value_name = "SECONDS", default_value = "3", value_parser = crate::args::seconds)]
    duration: f64,

    /// Existing captures of a testcase, server or command to compare, instead of new captures
    #[arg(long, value_name = "FILE", num_args = 2.., conflicts_with_all = ["testcase", "command", "tasks", "mode", "output"])]
    from: Vec<PathBuf>,

    /// New or empty directory for the captures; knee names each file after its task count
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Maximum number of functions to print
    #[arg(long, value_name = "N", default_value_t = 15, conflicts_with = "json",
          value_parser = whole::<usize>(0..=usize::MAX))]
    top: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    patience: PatienceArgs,

    #[command(flatten)]
    how: HowArgs,

    #[command(flatten)]
    score: ScoreArgs,

    /// Command to sample, with its arguments; see above
    #[arg(last = true, value_name = "CMD", conflicts_with = "testcase")]
    command: Vec<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(option) = args.score.given()
        && args.command.is_empty()
    {
        bail_usage!("{option} applies only to commands; name a command after --");
    }
    let captures = match &args.testcase {
        Some(name) => take(args, &Source::Named(Subject::of(name, args.mode, &args.how)?))?,
        None if args.from.is_empty() && args.command.is_empty() => {
            bail_usage!(
                "name a testcase or a server, or a command after --; knee list shows testcases and servers"
            )
        }
        None if args.from.is_empty() => {
            let command = Repeated::of(&args.command, &args.score, args.mode, &args.how)?;
            take(args, &Source::Command(command))?
        }
        None => {
            args.from.iter().map(|file| existing_capture(file)).collect::<anyhow::Result<_>>()?
        }
    };
    let mut growth = growth(&captures).map_err(|error| usage(error.to_string()))?;
    if args.json {
        stdout::print_json(&growth)?;
    } else {
        // All captures have the same mode.
        if let Some(work) = captures[0].work.as_ref().filter(|work| work.server.is_none()) {
            growth.testcase = format!("{} {}", growth.testcase, work.point.mode);
        }
        stdout::show_table(&table(&growth, args.top))?;
    }
    captures.iter().for_each(losses);
    Ok(ExitStatus::Done)
}

/// The capture in a file.
fn existing_capture(file: &Path) -> anyhow::Result<Capture> {
    ensure_usage!(
        Kind::of(file).ok().flatten() != Some(Kind::Record),
        "{}: a record of knee run contains rates, but no samples; take captures with knee profile growth NAME -o DIR",
        file.display()
    );
    Ok(Capture::open(file)?)
}

/// What knee samples at several task counts.
enum Source<'a> {
    Named(Subject<'a>),
    Command(Repeated<'a>),
}

impl Source<'_> {
    fn topology(&self) -> &Topology {
        match self {
            Self::Named(subject) => subject.topology(),
            Self::Command(command) => &command.0.topology,
        }
    }

    /// The default task counts.
    fn points(&self, args: &Args, interrupt: &Interrupt) -> anyhow::Result<Vec<u32>> {
        match self {
            Self::Named(Subject::Testcase(sampling)) => points(args, &sampling.bench, interrupt),
            Self::Named(Subject::Server(service)) => service.ends(),
            Self::Command(command) => Ok(command.ends()),
        }
    }
}

/// Takes captures at all task counts, in ascending order.
fn take(args: &Args, source: &Source<'_>) -> anyhow::Result<Vec<Capture>> {
    let interrupt = interrupt::poll()?;
    let cpus = args.how.placement.order(source.topology());
    let limit = args.patience.wait_quiet();
    QuietWait { limit, is_silent: args.how.quiet, interrupt: &interrupt }.wait(&cpus)?;
    let tasks = match &args.tasks {
        Some(tasks) => match tasks.resolve(source.topology(), cgroup::cpu_quota()) {
            tasks if tasks.len() < 2 => {
                bail_usage!("growth needs two or more task counts, such as -t 1,2")
            }
            tasks => tasks,
        },
        None => source.points(args, &interrupt)?,
    };
    let new = args.output.as_deref().filter(|dir| !dir.exists());
    let output = args.output.as_deref().map(output_directory).transpose()?;
    // What is sampled is kept if a signal ends the next sampling.
    let keep = |one: &Sampled<Capture>| match &output {
        Some(output) => output.write(format!("{}.json", one.point.tasks), &one.taken.to_json()),
        None => Ok(()),
    };
    let mut sampled: Vec<Sampled<Capture>> = Vec::new();
    for &tasks in &tasks {
        let one = sample(args, source, tasks, &interrupt, sampled.is_empty());
        let one = one.inspect_err(|_| {
            // A directory with captures stays.
            let _ = new.map(fs::remove_dir);
        })?;
        keep(&one)?;
        sampled.push(one);
    }
    let mut left = ((args.patience.times() - 1.0) * tasks.len() as f64).round() as usize;
    let is_disturbed = |one: &Sampled<_>| one.intervals.are_disturbed();
    while sampled.iter().any(is_disturbed) && left > 0 {
        for one in sampled.iter_mut().filter(|one| is_disturbed(one)).take(left) {
            if !args.how.quiet {
                tell!("knee: other work disturbed {}, so knee samples it again", one.point);
            }
            *one = sample(args, source, one.point.tasks, &interrupt, false)?;
            keep(one)?;
            left -= 1;
        }
    }
    let taken = |one: Sampled<Capture>| {
        one.warn();
        one.taken
    };
    Ok(sampled.into_iter().map(taken).collect())
}

/// Creates the directory for the captures, if necessary, and opens it. It must not contain anything yet.
fn output_directory(dir: &Path) -> anyhow::Result<OutputDirectory> {
    if dir.read_dir().is_ok_and(|mut files| files.next().is_some()) {
        bail_usage!("-o {}: the directory is not empty; name another one", dir.display());
    }
    OwnDirectory::create(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    OutputDirectory::open(dir).with_context(|| format!("cannot write to {}", dir.display()))
}

/// Samples at one task count.
fn sample(
    args: &Args,
    source: &Source<'_>,
    tasks: u32,
    interrupt: &Interrupt,
    describes: bool,
) -> anyhow::Result<Sampled<Capture>> {
    let (seconds, quiet) = (args.duration, args.how.quiet);
    if !quiet {
        tell!(
            "knee: {}",
            match source {
                Source::Named(subject) => subject.describe(tasks, seconds),
                Source::Command(command) => command.describe(tasks, seconds),
            }
        );
    }
    let describes = !quiet && describes;
    let sampled = match source {
        Source::Named(subject) => {
            subject.sample::<Sampler>(tasks, seconds, interrupt, describes)?
        }
        Source::Command(command) => command.sample(tasks, seconds, interrupt, describes)?,
    };
    match sampled.interrupted {
        // An interrupted capture has no iteration count to compare.
        Some(signal) => Err(interrupted(signal)),
        None => Ok(sampled),
    }
}

/// The default task counts: 1, the knee and the maximum of `-t auto`, after short measurements at each
/// task count, of which disturbed ones are repeated.
fn points(args: &Args, bench: &Bench, interrupt: &Interrupt) -> anyhow::Result<Vec<u32>> {
    let all = auto_tasks(&bench.topology, cgroup::cpu_quota());
    let &[first, .., last] = &all[..] else { return Ok(vec![1, 2]) };
    if all.len() == 2 {
        return Ok(all);
    }
    if !args.how.quiet {
        tell!("knee: searching for the knee of {}", bench.case.id);
    }
    let Search { knee, disturbed } = search(&all, |tasks| {
        for _ in 0..args.patience.times() as usize {
            if let Some(rate) = bench.rate(tasks, SEARCH, interrupt)? {
                return Ok(Some(rate));
            }
        }
        Ok(None)
    })?;
    if !disturbed.is_empty() {
        let counts: Vec<String> = disturbed.iter().map(u32::to_string).collect();
        tell!(
            "knee: other work disturbed the search for the knee at the task counts {}, so the knee may \
             be elsewhere; reduce other load, or select task counts with -t",
            counts.join(", ")
        );
    }
    Ok([first].into_iter().chain(knee).chain([last]).collect())
}

/// Where a testcase stops scaling, as far as undisturbed measurements show.
#[derive(Debug, PartialEq)]
struct Search {
    /// The knee, if it is neither the first nor the last task count.
    knee: Option<u32>,
    /// Task counts that were left out.
    disturbed: Vec<u32>,
}

/// Measures the rates at `counts` until one of them is the knee. The rate of a disturbed one is `None`.
fn search(
    counts: &[u32],
    mut rate: impl FnMut(u32) -> anyhow::Result<Option<f64>>,
) -> anyhow::Result<Search> {
    let mut disturbed = Vec::new();
    let mut alone = None;
    for &tasks in counts.split_last().map_or(counts, |(_, others)| others) {
        let Some(rate) = rate(tasks)? else {
            disturbed.push(tasks);
            // Without the first rate, no efficiency is known.
            if alone.is_none() {
                break;
            }
            continue;
        };
        let alone = *alone.get_or_insert(rate / f64::from(tasks));
        if rate < KNEE_EFFICIENCY * alone * f64::from(tasks) {
            return Ok(Search { knee: Some(tasks), disturbed });
        }
    }
    Ok(Search { knee: None, disturbed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rates: &[(u32, Option<f64>)]) -> (Option<u32>, Vec<u32>) {
        let counts: Vec<u32> = rates.iter().map(|(tasks, _)| *tasks).collect();
        let rate = |tasks| Ok(rates.iter().find(|(n, _)| *n == tasks).unwrap().1);
        let Search { knee, disturbed } = search(&counts, rate).unwrap();
        (knee, disturbed)
    }

    #[test]
    fn the_knee_is_the_first_inefficient_task_count_before_the_last() {
        let rates = [(1, Some(10.0)), (2, Some(19.0)), (4, Some(20.0)), (8, Some(9.0))];
        assert_eq!(found(&rates), (Some(4), vec![]));
        assert_eq!(found(&rates[..3]), (None, vec![]));
    }

    #[test]
    fn a_disturbed_task_count_is_not_the_knee() {
        let rates = [(1, Some(10.0)), (2, None), (4, Some(20.0)), (8, Some(9.0))];
        assert_eq!(found(&rates), (Some(4), vec![2]));
        let rates = [(1, None), (2, Some(19.0)), (4, Some(20.0)), (8, Some(9.0))];
        assert_eq!(found(&rates), (None, vec![1]), "there is no efficiency");
    }
}
