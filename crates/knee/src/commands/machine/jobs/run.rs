//! `knee jobs run`: run the jobs of a list.

use std::path::{Path, PathBuf};

use anyhow::Context;
use knee_host::affinity::usable_cpus;
use knee_host::number::plural;
use knee_host::text::Screen;
use knee_host::workdir::WorkDir;

use super::directory::Directory;
use super::engine::Engine;
use super::kubernetes::Manifest;
use super::list::{self, STDIN};
use super::local::Local;
use super::machine::Machine;
use super::queue::Queue;
use super::slurm::Slurm;
use super::{pool, slurm, ssh};
use crate::args::whole;
use crate::exit::{ExitStatus, bail_usage, ensure_usage};
use crate::interrupt;
use crate::present::jobs::{Job, json, text};
use crate::progress::{Amount, Progress};
use crate::stderr::tell;
use crate::stdout;

/// Run the jobs of a list, repeat those that fail, and collect their results
///
/// Each line of the list is a command for sh. Empty lines and lines that begin with # are ignored.
/// A job finds the directory for its results in $KNEE_OUT, and its number in $KNEE_JOB. A job that
/// ends with status 0 is done.
///
/// DIR/results contains the results, and DIR/jobs the output and the status of each job. If knee is
/// interrupted, the running jobs end. If knee is killed, jobs on this machine and on ssh hosts end,
/// but array jobs of Slurm run on. --resume runs the jobs that are not done.
///
/// On this machine and in Slurm, jobs run in the current directory. With Slurm, all nodes must see
/// this directory and DIR under the same path. With ssh, jobs run in the home directory of the
/// host, and knee copies the results to DIR when a job ends. A host must accept ssh without a
/// password, and have the programs that the jobs call, such as knee.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee jobs run list -o out                      on this machine, a job per CPU
  knee jobs run list -o out --resume             the jobs that are not done yet
  knee jobs run list -o out --on ssh:alpha,me@beta
  knee jobs run list -o out --on ssh:alpha,beta --exclusive    measurements
  SBATCH_PARTITION=long knee jobs run list -o out --on slurm
  knee jobs run list --on k8s --image my/knee --claim out | kubectl apply -f -

Exit status:
  3  some jobs did not run or left no status
  4  some jobs failed")]
pub(super) struct Args {
    /// List of jobs: a file with a shell command per line; - is standard input
    #[arg(value_name = "LIST", required_unless_present = "resume")]
    list: Option<PathBuf>,

    /// Where jobs run: local (processes on this machine), ssh:HOST,HOST, slurm (array jobs), or k8s
    /// (print the manifest of an indexed job of Kubernetes)
    #[arg(long, value_name = "ENGINE", default_value = "local")]
    on: Engine,

    /// Maximum number of jobs at a time: on each machine (local, ssh), in each array of 1000 jobs
    /// (slurm), or in total (k8s) [default: the number of CPUs of each machine; no limit with slurm
    /// and k8s]
    #[arg(short, long, value_name = "N", value_parser = whole::<usize>(1..=10_000))]
    jobs: Option<usize>,

    /// Run one job at a time on each machine, for jobs that measure
    #[arg(long)]
    exclusive: bool,

    /// Directory for the results, the output and the state of the jobs
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// If the --output directory contains jobs, run only those that are not done
    #[arg(long, requires = "output")]
    resume: bool,

    /// Maximum number of retries of a failed job
    #[arg(long, value_name = "N", default_value = "2", value_parser = whole::<u32>(0..=100))]
    retries: u32,

    /// Container image with the programs that the jobs call, for k8s
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Persistent volume claim for the results, for k8s
    #[arg(long, value_name = "NAME")]
    claim: Option<String>,

    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,

    /// Do not show progress
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if args.on == Engine::Kubernetes {
        return manifest(args);
    }
    ensure_usage!(
        args.image.is_none() && args.claim.is_none(),
        "--image and --claim belong to --on k8s"
    );
    ensure_usage!(
        !args.exclusive || args.jobs.is_none() || args.on == Engine::Slurm,
        "--exclusive runs one job at a time on each machine; leave out --jobs"
    );
    let Some(output) = &args.output else {
        bail_usage!(
            "--output DIR is required: the directory for the results and the state of the jobs"
        );
    };
    let directory = Directory::open(output, listed(args, output)?, args.resume)?;
    interrupt::set_next_to_this_command(if args.resume { "" } else { " --resume" });
    let left: Vec<usize> =
        directory.jobs().map(|(job, _)| job).filter(|&job| !directory.is_done(job)).collect();
    let count = directory.jobs().count();
    let done = count - left.len();
    if args.resume {
        tell!("knee: {done} of {} in {} are done", plural(count, "job"), output.display());
    }
    let queue = Queue::new(left.iter().copied(), args.retries);
    let signal = match left.len() {
        0 => None,
        left => work(args, &directory, &queue, left, done)?,
    };
    finish(args, output, &directory, &queue, signal)
}

/// The jobs of the list, if it has to be read. Standard input cannot be read again to resume.
fn listed(args: &Args, output: &Path) -> anyhow::Result<Option<Vec<String>>> {
    match &args.list {
        Some(list) if list == Path::new(STDIN) && args.resume && output.exists() => Ok(None),
        list => list.as_deref().map(list::read).transpose(),
    }
}

/// Runs the jobs of the queue. Returns the signal that ended the work, if any.
fn work(
    args: &Args,
    directory: &Directory,
    queue: &Queue,
    left: usize,
    done: usize,
) -> anyhow::Result<Option<i32>> {
    let arrays = slurm::submitted(directory);
    ensure_usage!(
        arrays.is_empty() || args.on == Engine::Slurm,
        "Slurm may still run jobs of {} (array jobs {}); use --on slurm, which cancels them first",
        directory.path().display(),
        arrays.join(",")
    );
    let seats = if args.exclusive { Some(1) } else { args.jobs };
    // The sockets of ssh connections, removed at the end, also if knee is killed.
    let mut sockets = None;
    let mut machines: Vec<Box<dyn Machine + '_>> = Vec::new();
    match &args.on {
        Engine::Ssh(hosts) => {
            let parent = std::env::temp_dir();
            let cannot = || format!("cannot create a directory in {}", parent.display());
            let work = sockets.insert(WorkDir::create(&parent).with_context(cannot)?);
            let dir = work.begin_round().with_context(cannot)?;
            for host in ssh::connect(hosts, seats, left, directory, &dir)? {
                machines.push(Box::new(host));
            }
        }
        Engine::Local => {
            let cpus = usable_cpus().context("cannot determine the usable CPUs")?.len();
            let seats = seats.unwrap_or(cpus).min(left);
            machines.push(Box::new(Local { directory, seats }));
        }
        Engine::Slurm | Engine::Kubernetes => {}
    }
    let mut slurm = match args.on {
        Engine::Slurm => Some(Slurm::new(directory, args.jobs, args.exclusive)?),
        _ => None,
    };
    let interrupt = interrupt::poll()?;
    let mut progress = Progress::new(args.quiet).resumed_at(done as u64);
    let show = || {
        let counts = queue.counts();
        let of = (done + counts.ended + counts.running + counts.waiting) as u64;
        let amount = Amount { done: (done + counts.ended) as u64, of, unit: "jobs" };
        progress.show(&amount, || format!("{} running", counts.running));
    };
    let ended = match &mut slurm {
        Some(slurm) => slurm.run(queue, &interrupt, show),
        None => pool::run(&machines, directory, queue, &interrupt, show),
    };
    machines.iter_mut().for_each(|machine| machine.leave());
    ended
}

/// Prints the outcome.
fn finish(
    args: &Args,
    output: &Path,
    directory: &Directory,
    queue: &Queue,
    signal: Option<i32>,
) -> anyhow::Result<ExitStatus> {
    let job = |(number, command)| {
        let end = directory.end(number);
        let is_failed = end.as_ref().is_some_and(|end| end.status != 0);
        let message = is_failed.then(|| directory.last_line(number)).flatten();
        Job { number, command, attempts: queue.attempts(number), end, message }
    };
    let jobs: Vec<Job<'_>> = directory.jobs().map(job).collect();
    let done = jobs.iter().filter(|job| job.is_done()).count();
    let failed = jobs.iter().filter(|job| job.is_failed()).count();
    match args.json {
        true => stdout::print_json(&json(&jobs, output))?,
        false => stdout::print(&text(&jobs, output, &Screen::of_stdout()))?,
    }
    if let Some(signal) = signal {
        let done = format!("{done} of {}", plural(jobs.len(), "job"));
        tell!("knee: {}", interrupt::message_after(&done));
        return Ok(ExitStatus::Interrupted(signal));
    }
    Ok(match jobs.len() - done - failed {
        0 if failed == 0 => ExitStatus::Done,
        0 => ExitStatus::TestcaseDied,
        waiting => {
            let waiting = plural(waiting, "job");
            tell!("knee: {waiting} did not run or left no status; run them with --resume");
            ExitStatus::Environment
        }
    })
}

/// Prints the manifest for Kubernetes.
fn manifest(args: &Args) -> anyhow::Result<ExitStatus> {
    let (Some(list), Some(image), Some(claim)) = (&args.list, &args.image, &args.claim) else {
        bail_usage!(
            "--on k8s needs a LIST, --image with the programs that the jobs call, and --claim, the \
             persistent volume claim for their results"
        );
    };
    ensure_usage!(
        args.output.is_none() && !args.json,
        "--on k8s prints a manifest, and writes results to the volume of --claim; leave out \
         --output and --json"
    );
    let commands = list::read(list)?;
    let manifest = Manifest {
        commands: &commands,
        image,
        claim,
        most: args.jobs,
        is_exclusive: args.exclusive,
        retries: args.retries,
    };
    stdout::print_json(&manifest.json()?)?;
    Ok(ExitStatus::Done)
}
