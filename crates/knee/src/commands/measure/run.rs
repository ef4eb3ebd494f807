//! `knee run`: measure how throughput grows with the task count.

mod floor;
mod outcome;
mod server;
mod sweep;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::ValueEnum;
use knee_host::counters::CounterSet;
use knee_host::number::plural;
use knee_host::shell::word;
use knee_host::text::Screen;
use knee_host::{CpuList, Placement, Topology, cgroup};
use knee_results::{LatencyRequest, Mode, Order, Request};
use knee_run::job::{self, START_TIMEOUT};
use knee_run::noise::{AA_ROUNDS, AA_ROUNDS_AT_LEAST};
use knee_run::plan::Case;
use knee_run::record::{Record, RunRecord};
use knee_run::runner::check_plugin;
use knee_run::sweep::Ended;
use knee_testcases::{CATALOGUE, QUICK};

use self::floor::{MeasuredFloor, require_place};
use crate::args::counters::{self, CounterList};
use crate::args::latency::{LatencyChoice, latency};
use crate::args::modes::Modes;
use crate::args::patience::PatienceArgs;
use crate::args::score::ScoreArgs;
use crate::args::selection::{
    ChosenServer, Selection, described_server, is_description, require_interval,
};
use crate::args::sweep::Sweep;
use crate::args::tasks::Tasks;
use crate::args::view::ViewArgs;
use crate::args::{
    complete, existing, percentage, require_one_word, require_utf8, seconds, seconds_or_none, whole,
};
use crate::exit::{ExitStatus, bail_usage, ensure_usage};
use crate::interrupt;
use crate::present::progress::RunProgress;
use crate::session::{
    COMMAND_SECONDS, INTERVAL, QuietWait, SAMPLES, SERVER_WARMUP, WARMUP, begin, carry_out,
    kept_floors, random, resume, topology,
};
use crate::stderr::tell;

/// Default rounds per point, except in A/A runs.
const ROUNDS: u32 = 5;
/// Interval and warm-up of the quick set, which must finish in under two minutes.
const QUICK_INTERVAL: f64 = 0.1;
const QUICK_WARMUP: f64 = 0.05;

/// Measure how throughput grows with the task count
///
/// Without names, knee measures a quick set that covers every family of kernel services. knee
/// measures a server under load. Name a built-in server, such as nginx, or a file that describes
/// your own. The task count of a server is its number of CPUs; the load gets the other CPUs. With a
/// command after --, knee measures this command. If the command contains {tasks} or {cpus}, knee
/// runs it once per round, on as many CPUs as the point has tasks. Otherwise knee runs one copy per
/// task. knee replaces {tasks} with the task count, {cpus} with the CPUs of the command, such as
/// 0-3, {seconds} with --interval, {dir} with an empty directory, and {port} with a free TCP port.
/// After each round, knee ends the processes that the command left running.
///
/// knee measures each point (testcase, mode, task count) in several rounds, each in a fresh process. The
/// rounds of all points are interleaved in random order. knee computes confidence intervals from
/// the rounds. The record contains the raw samples.
#[derive(clap::Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Testcases and servers: names, globs, NAME@KEY=VALUE or family:NAME (see `knee list`), or files
    /// that describe a server. SERVER@connections=N has another number of connections
    #[arg(value_name = "NAME | GLOB | family:NAME | FILE.toml", add = complete::testcases())]
    words: Vec<String>,

    /// Run every testcase
    #[arg(long, conflicts_with = "words")]
    all: bool,

    /// Command to measure, with its arguments; see above
    #[arg(last = true, value_name = "CMD",
          conflicts_with_all = ["words", "all", "plugin", "mode", "samples", "warmup", "start_timeout",
                                "aa", "latency"])]
    command: Vec<String>,

    #[command(flatten)]
    score: ScoreArgs,

    /// Shared object of an unmodified will-it-scale testcase; can be repeated
    #[arg(long, value_name = "FILE.so")]
    plugin: Vec<PathBuf>,

    /// Task mode: processes, threads of one process, or both (separate curves)
    #[arg(short, long, value_enum, default_value = "both")]
    mode: Modes,

    /// Task counts, such as 1,2,4 or 1-8 or 8-64:8 (8 to 64 in steps of 8). auto selects powers of
    /// two, the CPU count, and the core count of each level (L3, NUMA node, package, machine) [default:
    /// auto; with --sweep: the largest of auto]
    #[arg(short, long, value_name = "LIST | auto", allow_hyphen_values = true)]
    tasks: Option<Tasks>,

    /// Measure servers with these numbers of connections, such as connections=1,8,64, instead of those
    /// of their descriptions
    #[arg(long, value_name = "connections=LIST")]
    sweep: Option<Sweep>,

    /// Rounds per point, each in a fresh process [default: 5; with --aa: 10]
    #[arg(short, long, value_name = "N",
          value_parser = whole::<u32>(1..=100_000))]
    rounds: Option<u32>,

    /// Samples per round, for testcases
    #[arg(short, long, value_name = "N", default_value_t = SAMPLES,
          value_parser = whole::<u64>(1..=1_000_000))]
    samples: u64,

    /// Seconds per sample of testcases [default: 0.2; for the quick set: 0.1] or servers [default: 1]. For a
    /// command: the value of {seconds} [default: 1]
    #[arg(long, value_name = "S", value_parser = seconds)]
    interval: Option<f64>,

    /// Seconds before the first sample of a round, for testcases [default: 0.1; for the quick set: 0.05] and
    /// servers [default: 0.2]
    #[arg(long, value_name = "S", value_parser = seconds_or_none)]
    warmup: Option<f64>,

    /// Target precision: knee adds rounds to a point until the 95% interval is within P% of the
    /// median. knee checks after 8, 11, 16, 23, 32 rounds and so on, and widens the intervals to make up
    /// for the repeated checks
    #[arg(long, value_name = "P%", value_parser = percentage)]
    precision: Option<f64>,

    /// With --precision, seconds of measurement after which knee stops adding rounds to a point
    #[arg(long, value_name = "S", default_value = "60", requires = "precision",
          value_parser = seconds)]
    max_time: f64,

    #[command(flatten)]
    patience: PatienceArgs,

    /// Measure latency. For servers, knee sends requests on a schedule after each round, at P% of the
    /// rate just measured [default: 70%]; =off skips this. For testcases, knee times each iteration,
    /// which lowers the rates [default: off]
    #[arg(long, value_name = "P% | on | off", num_args = 0..=1, require_equals = true,
          default_missing_value = "on", value_parser = latency)]
    latency: Option<LatencyChoice>,

    /// Count events of the processors and the kernel, per operation. This lowers the rates somewhat. LIST:
    /// cycles, instructions, llc-misses, cache-misses, branch-misses, context-switches,
    /// cpu-migrations, page-faults, task-clock [default: all but cache-misses and branch-misses]
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true,
          default_missing_value = counters::DEFAULT, value_parser = counters::counters)]
    counters: Option<CounterList>,

    /// Maximum seconds that a testcase may take to start
    #[arg(long, value_name = "S", default_value_t = START_TIMEOUT,
          value_parser = seconds)]
    start_timeout: f64,

    /// Order of the points within a round
    #[arg(long, value_enum, default_value = "shuffled")]
    order: Ordering,

    /// Seed of the order and all other random choices [default: random]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX))]
    seed: Option<u64>,

    /// Order in which tasks take CPUs: cores, smt, compact, scatter or none (see `knee topology`)
    #[arg(long, value_name = "PLACEMENT", default_value = "cores")]
    placement: Placement,

    /// Use only these CPUs, such as 0-3,8
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,

    /// Directory in which testcases create files [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Directory to write the record to [default: runs/TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Continue the run recorded in DIR, with its original options
    #[arg(long, value_name = "DIR",
          conflicts_with_all = ["wait_quiet", "words", "all", "command", "rate", "read", "plugin", "mode", "tasks", "sweep", "rounds",
                                "samples", "interval", "warmup", "precision", "max_time", "patience", "start_timeout",
                                "order", "seed", "placement", "cpus", "dir", "output", "aa", "latency", "counters"])]
    resume: Option<PathBuf>,

    /// Measure this machine's noise floor (A/A): how much results differ when nothing changes.
    /// knee saves the noise floor, and flags smaller differences in later runs
    #[arg(long)]
    aa: bool,

    /// Do not show progress
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    view: ViewArgs,
}

const EXAMPLES: &str = "\
Examples:
  knee run                                 the quick set, under two minutes
  knee run mmap1 read1@file=same           two testcases
  knee run family:lock -m threads -t 1-8   all locks, threads, 1 to 8 tasks
  knee run page_fault1 --precision 1%      add rounds for a precision of 1%
  knee run --plugin ./mine.so              a testcase written in C
  knee run nginx memcached                 two servers under load
  knee run ./my-server.toml                your own server
  knee run nginx --latency=50%             latency of nginx at half of its rate
  knee run nginx --sweep connections=1,8,64,512
  knee run mmap1 --latency                 the time of each iteration
  knee run mmap1 --counters                cycles and faults of each iteration
  knee run -- make -B -j{tasks}            your own program, by its run time
  knee run --read 'tps = #' -- pgbench -S -T {seconds} -c {tasks} bench
  knee run --aa                            the noise floor of this machine
  knee run mmap1 --format json | jq .curves

Exit status:
  0  success, even if other work disturbed points
  3  a testcase cannot run
  4  a testcase died
  5  too noisy for --precision, or for --wait-quiet to begin";

#[derive(Clone, Copy, ValueEnum)]
enum Ordering {
    AsGiven,
    Shuffled,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let interrupt = interrupt::poll()?;
    let (mut writer, mut run, finished) = match &args.resume {
        Some(dir) => {
            let resumed = resume(dir)?;
            if resumed.1.request.aa {
                require_place(&resumed.1)?;
            }
            resumed
        }
        None => {
            let plan = plan(args)?;
            if args.aa {
                require_place(&plan)?;
            }
            let limit = args.patience.wait_quiet();
            let quiet = QuietWait { limit, is_silent: args.quiet, interrupt: &interrupt };
            begin(plan, args.output.as_deref(), &quiet)?
        }
    };
    let early = args.view.view(None, Screen::of_stderr());
    let progress = RunProgress::new(args.quiet, args.view.format()).with_first_table(early);
    let ended = carry_out(&mut writer, &mut run, &finished, progress, &interrupt)?;
    let dir = writer.dir().to_owned();
    let record = Record::open(&dir)?;
    let is_aa = run.request.aa && ended == Ended::Done;
    let floor = is_aa.then(|| MeasuredFloor::of(&record)).transpose()?;
    match &floor {
        Some(floor) => args.view.print(&record, floor.floors.as_ref())?,
        None => args.view.print(&record, kept_floors(&run).as_ref())?,
    }
    let next = match ended {
        Ended::Interrupted(_) => interrupt::message(),
        Ended::Done => format!("to show it again: knee show {}", word(&dir)),
    };
    tell!("knee: recorded in {}; {next}", dir.display());
    if let Some(floor) = floor {
        floor.keep()?;
    }
    match ended {
        Ended::Interrupted(signal) => Ok(ExitStatus::Interrupted(signal)),
        Ended::Done => outcome::status(&record, args.view.format()),
    }
}

/// The run that the arguments describe on this machine.
fn plan(args: &Args) -> anyhow::Result<RunRecord> {
    let cases = cases(args)?;
    let rounds = args.rounds.unwrap_or(if args.aa { AA_ROUNDS } else { ROUNDS });
    ensure_usage!(
        !args.aa || rounds >= AA_ROUNDS_AT_LEAST,
        "-r {rounds}: --aa compares two groups of rounds with each other; use -r \
             {AA_ROUNDS_AT_LEAST} or more"
    );
    let topology = topology(args.cpus.as_ref())?;
    if let Some(output) = &args.output {
        require_utf8("-o", output)?;
    }
    let (option, dir) = match &args.dir {
        Some(dir) => ("--dir", existing("--dir", dir)?),
        None => ("TMPDIR", existing("TMPDIR", &std::env::temp_dir())?),
    };
    require_one_word(option, &dir, &cases)?;
    let is_server = cases.iter().any(Case::is_server);
    let (quick, is_command) = (is_quick(args), is_server || !args.command.is_empty());
    let cpus = args.placement.order(&topology);
    let latency = latency_of(args, &cases)?;
    let counters = counters_of(args)?;
    let default = |of_command, of_quick, of_testcases| match (is_command, quick) {
        (true, _) => of_command,
        (false, true) => of_quick,
        (false, false) => of_testcases,
    };
    let request = Request {
        modes: if is_command { vec![Mode::Processes] } else { args.mode.modes() },
        tasks: tasks(args, &cases, &cpus, &topology),
        rounds,
        samples: if is_command { 1 } else { args.samples },
        interval: args.interval.unwrap_or(default(COMMAND_SECONDS, QUICK_INTERVAL, INTERVAL)),
        warmup: args.warmup.unwrap_or(match is_server {
            true => SERVER_WARMUP,
            false => default(0.0, QUICK_WARMUP, WARMUP),
        }),
        start_timeout: args.start_timeout,
        precision: args.precision,
        until_decided: None,
        max_time: args.max_time,
        patience: args.patience.times(),
        order: match args.order {
            Ordering::AsGiven => Order::AsGiven,
            Ordering::Shuffled => Order::Shuffled,
        },
        seed: args.seed.unwrap_or_else(random),
        placement: args.placement,
        cpus,
        latency,
        counters,
        dir,
        aa: args.aa,
    };
    require_interval(&cases, request.interval)?;
    Ok(RunRecord::new(request, cases))
}

/// The task counts to measure on `cpus`, which are in the order of the placement.
fn tasks(args: &Args, cases: &[Case], cpus: &[u32], topology: &Topology) -> Vec<u32> {
    let quota = cgroup::cpu_quota();
    let chosen = args.tasks.clone().unwrap_or_default();
    let all = chosen.resolve_for(cases, cpus, topology, quota);
    match (&args.sweep, &args.tasks) {
        (Some(_), None) => sweep::task_count(&all, args.quiet),
        _ => all,
    }
}

/// Which latency the run measures.
fn latency_of(args: &Args, cases: &[Case]) -> anyhow::Result<Option<LatencyRequest>> {
    if args.aa {
        ensure_usage!(
            !LatencyChoice::is_asked(args.latency),
            "--aa finds the noise floor of rates that are measured without --latency; leave out --aa or \
             --latency"
        );
        return Ok(None);
    }
    if cases.iter().any(Case::is_server) {
        let has_generator = cases.iter().any(Case::has_generator);
        return LatencyChoice::of_servers(args.latency, has_generator);
    }
    let request = LatencyChoice::of_testcases(args.latency)?;
    ensure_usage!(
        request.is_none() || cases.iter().all(Case::is_built_in),
        "--latency: a plug-in counts its own iterations, so knee cannot time them; leave out --latency"
    );
    Ok(request)
}

/// Which events the run counts.
fn counters_of(args: &Args) -> anyhow::Result<Option<CounterSet>> {
    ensure_usage!(
        !args.aa || args.counters.is_none(),
        "--aa finds the noise floor of rates that are measured without --counters; leave out --aa or \
         --counters"
    );
    args.counters.as_ref().map(counters::set).transpose()
}

fn is_quick(args: &Args) -> bool {
    args.words.is_empty() && args.command.is_empty() && !args.all && args.plugin.is_empty()
}

fn cases(args: &Args) -> anyhow::Result<Vec<Case>> {
    if !args.command.is_empty() {
        sweep::require_servers(args.sweep.as_ref(), "for a command, -t sweeps {tasks}")?;
        let case = args.score.case(&args.command)?;
        let is_used =
            matches!(&case.source, job::Source::Command { command } if command.takes_seconds());
        ensure_usage!(
            args.interval.is_none() || is_used,
            "--interval: {} does not use the interval; insert {} where the seconds belong",
            case.id,
            job::Command::SECONDS
        );
        return Ok(vec![case]);
    }
    // clap does not tell an empty command from none.
    ensure_usage!(
        std::env::args_os().next_back().is_none_or(|last| last != "--"),
        "the command after -- is empty; name a program"
    );
    if let Some(option) = args.score.given() {
        bail_usage!(
            "{option} applies only to commands, and testcases count their own iterations; name a \
             command after --"
        );
    }
    let words: Vec<String> = if args.all {
        CATALOGUE.all().map(|testcase| testcase.name.to_owned()).collect()
    } else if is_quick(args) {
        QUICK.iter().map(|&name| name.to_owned()).collect()
    } else {
        args.words.clone()
    };
    require_equals_signs(args)?;
    let (files, words): (Vec<String>, Vec<String>) =
        words.into_iter().partition(|word| is_description(word));
    let selected = Selection::of(&words, false)?;
    let mut cases: Vec<Case> = selected.testcases.iter().map(Case::built_in).collect();
    let built_in = selected.servers.iter().map(ChosenServer::case);
    let servers = built_in.chain(files.iter().map(|file| described_server(file)));
    let servers = servers.collect::<anyhow::Result<Vec<Case>>>()?;
    if !servers.is_empty() {
        ensure_usage!(cases.is_empty(), "measure servers and other testcases in separate runs");
        server::check_options(&args.plugin, &args.mode.modes(), args.samples)?;
        let mut names = BTreeSet::new();
        if let Some(twice) = servers.iter().find(|server| !names.insert(server.id.to_string())) {
            bail_usage!(
                "two servers are named {}; name each once, or change `name` in a description",
                twice.id
            );
        }
        return match &args.sweep {
            Some(sweep) => sweep::cases(sweep, &servers),
            None => Ok(servers),
        };
    }
    sweep::require_servers(args.sweep.as_ref(), "name a server, such as nginx")?;
    if args.all {
        leave_out_threads(&mut cases, args);
    }
    for path in &args.plugin {
        let path = existing("--plugin", path)?;
        let sha256 = check_plugin(&path)
            .map_err(|failure| anyhow!("--plugin {}; {}", failure.reason, failure.remedy))?;
        let case = Case::plugin(&path, sha256);
        ensure_usage!(
            cases.iter().all(|other| other.id != case.id),
            "--plugin {}: a testcase named {} already exists; rename the file",
            path.display(),
            case.id
        );
        cases.push(case);
    }
    Ok(cases)
}

/// Refuses names that are the value of an option before them.
fn require_equals_signs(args: &Args) -> anyhow::Result<()> {
    let counts_default =
        args.counters.is_some() && args.counters == counters::counters(counters::DEFAULT).ok();
    for word in &args.words {
        let option = match () {
            () if args.latency == Some(LatencyChoice::On) && latency(word).is_ok() => "--latency",
            () if counts_default && counters::counters(word).is_ok() => "--counters",
            () => continue,
        };
        bail_usage!("{word} is not a testcase; as a value of {option}, write {option}={word}");
    }
    Ok(())
}

/// Leaves out the testcases that are only threads if processes were requested, and says so.
fn leave_out_threads(cases: &mut Vec<Case>, args: &Args) {
    if args.mode.modes().contains(&Mode::Threads) {
        return;
    }
    let all = cases.len();
    cases.retain(|case| !case.is_threads_only);
    if !args.quiet {
        let left_out = plural(all - cases.len(), "testcase");
        tell!(
            "knee: left out {left_out} that can run only as threads; measure them with -m threads"
        );
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn args(words: &[&str]) -> Box<Args> {
        let cli = Cli::try_parse_from([&["knee", "run"], words].concat());
        let Command::Run(args) = cli.expect("valid").command else { panic!("another command") };
        args
    }

    #[test]
    fn a_value_without_an_equals_sign_is_no_testcase() {
        for (option, value) in [("--latency", "50%"), ("--counters", "cycles,page-faults")] {
            let refused = cases(&args(&["nginx", option, value])).unwrap_err();
            assert!(refused.to_string().ends_with(&format!("write {option}={value}")), "{refused}");
        }
        assert!(cases(&args(&["nginx", "--latency=50%"])).is_ok());
    }

    #[test]
    fn all_testcases_of_a_mode_support_this_mode() {
        let cases = cases(&args(&["--all", "-m", "processes", "-q"])).unwrap();
        assert!(cases.len() > 50 && cases.iter().all(|case| !case.is_threads_only));
    }
}
