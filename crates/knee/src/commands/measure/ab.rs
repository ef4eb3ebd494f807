//! `knee ab`: compare two programs, servers or testcases in interleaved rounds (ABBA).

mod sides;

use std::path::PathBuf;

use clap::ValueEnum;
use knee_host::number::plural;
use knee_host::{CpuList, Placement, cgroup};
use knee_results::{LatencyRequest, Mode, Order, Request, UntilDecided};
use knee_run::job::{Command, START_TIMEOUT};
use knee_run::plan::Case;
use knee_run::record::{InTurns, Record, RunRecord};
use knee_run::sweep::Ended;
use knee_stats::{Looks, pairs_to_claim};

use self::sides::{Kind, command, sides};
use crate::args::confidence::ConfidenceArgs;
use crate::args::counters::{self, CounterList};
use crate::args::form::FormArgs;
use crate::args::judgement::JudgementArgs;
use crate::args::latency::{LatencyChoice, latency};
use crate::args::modes::Modes;
use crate::args::patience::PatienceArgs;
use crate::args::score::ScoreArgs;
use crate::args::selection::require_interval;
use crate::args::tasks::Tasks;
use crate::args::{
    complete, existing, percentage_below_100, require_one_word, require_utf8, seconds,
    seconds_or_none, whole,
};
use crate::exit::{ExitStatus, bail_usage, ensure_usage, usage};
use crate::interrupt;
use crate::present;
use crate::present::compared::{Comparisons, Form};
use crate::present::left_running;
use crate::present::progress::RunProgress;
use crate::session::{
    COMMAND_SECONDS, INTERVAL, QuietWait, SAMPLES, SERVER_WARMUP, WARMUP, begin, carry_out, random,
    resume, topology,
};
use crate::stderr::tell;

/// Default of --rounds: enough to show a difference at any one of up to 25 points.
const ROUNDS: u32 = 10;

/// Compare programs, servers or testcases in interleaved rounds
///
/// In each round, knee runs both sides in quick succession. If the machine becomes slower or faster
/// during the comparison, the change affects both sides alike and cancels out.
///
/// A side is a command, a server (NAME or FILE.toml), a plug-in (FILE.so) or a testcase (NAME or
/// NAME@KEY=VALUE). knee compares the run times of commands, or with --rate or --read the rates that they
/// print. knee replaces the same placeholders in commands as `knee run`. knee uses a shell only for commands
/// that contain shell syntax. A name of a server or testcase alone is not a command. With --latency, knee
/// compares the latency of servers too.
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  knee ab --before './old/bench -n 9' --after './new/bench -n 9'     times
  knee ab --rate --before './a/bench -t 2' --after './b/bench -t 2'  rates
  knee ab -t 1,2,4 --before './a -j{tasks}' --after './b -j{tasks}'  task counts
  knee ab --before old/mine.so --after new/mine.so -m threads        plug-ins
  knee ab --before read1 --after read1@file=same                     parameters
  knee ab --before nginx --after ./my-nginx.toml                     servers
  knee ab --before redis@connections=8 --after redis@connections=64  numbers of connections
  knee ab --counters --before ./old --after ./new                    and what they execute
  knee ab --until-decided 2% --before ./old --after ./new            as many rounds as it takes
  knee ab --resume runs/2026-11-21T090000Z                           continue

Exit status:
  0  success, even if the sides differ
  1  a --fail-on condition matched
  3  a side cannot run
  4  a side failed
  5  too noisy for --fail-on to tell, or for --until-decided to decide in time"
)]
pub(crate) struct Args {
    /// Baseline side: a command, FILE.toml, FILE.so, or `NAME[@KEY=VALUE]`
    #[arg(long, value_name = "CMD", required_unless_present = "resume",
          add = complete::testcase_or_server())]
    before: Option<String>,

    /// Side to compare with the baseline: a command, FILE.toml, FILE.so, or `NAME[@KEY=VALUE]`
    #[arg(long, value_name = "CMD", required_unless_present = "resume",
          add = complete::testcase_or_server())]
    after: Option<String>,

    #[command(flatten)]
    score: ScoreArgs,

    /// Round count; each round measures both sides once
    #[arg(short, long, value_name = "N", default_value_t = ROUNDS,
          value_parser = whole::<u32>(1..=100_000))]
    rounds: u32,

    /// Instead of a fixed round count, measure each point until the sides differ, or are the same
    /// within P%. knee checks after 8, 11, 16, 23, 32 rounds and so on, or later if there are several
    /// points. All verdicts and intervals hold together at the confidence level, in spite of the
    /// repeated checks
    #[arg(long, value_name = "P%", conflicts_with_all = ["rounds", "threshold"],
          value_parser = percentage_below_100)]
    until_decided: Option<f64>,

    /// With --until-decided, seconds of measurement of each side after which knee stops adding rounds
    /// to a point
    #[arg(long, value_name = "S", default_value = "60", requires = "until_decided",
          value_parser = seconds)]
    max_time: f64,

    /// Task counts; knee replaces {tasks} in a command with the task count. The task count of a server is
    /// its number of CPUs [default: auto; for commands: 1]
    #[arg(short, long, value_name = "LIST | auto", allow_hyphen_values = true)]
    tasks: Option<Tasks>,

    #[command(flatten)]
    testcases: TestcaseArgs,

    /// Also compare the latency of servers. After the rate of each round, knee sends requests on a schedule at
    /// P% of this rate [default: off; without a value: 70%]
    #[arg(long, value_name = "P% | on | off", num_args = 0..=1, require_equals = true,
          default_missing_value = "on", value_parser = latency, conflicts_with = "until_decided")]
    latency: Option<LatencyChoice>,

    /// Also count events of the processors and the kernel, per operation; LIST is as for `knee run`
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true,
          default_missing_value = counters::DEFAULT, value_parser = counters::counters)]
    counters: Option<CounterList>,

    /// Order in which the tasks of testcases take CPUs (see `knee topology`)
    #[arg(long, value_name = "PLACEMENT", default_value = "cores")]
    placement: Placement,

    /// Use only these CPUs, such as 0-3,8
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,

    /// Directory to write the record to [default: runs/TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Continue the comparison recorded in DIR, or print it if it is complete
    #[arg(long, value_name = "DIR",
          conflicts_with_all = ["before", "after", "rate", "read", "rounds", "until_decided", "max_time",
                                "wait_quiet", "patience", "tasks", "mode", "samples", "interval",
                                "warmup", "latency", "counters", "placement", "cpus", "output"])]
    resume: Option<PathBuf>,

    #[command(flatten)]
    patience: PatienceArgs,

    #[command(flatten)]
    confidence: ConfidenceArgs,

    #[command(flatten)]
    judgement: JudgementArgs,

    #[command(flatten)]
    form: FormArgs<Format>,

    /// Do not show progress
    #[arg(short, long)]
    quiet: bool,
}

/// Options of testcases. `--interval` also applies to servers and to commands that contain `{seconds}`, and
/// `--warmup` to servers.
#[derive(clap::Args)]
struct TestcaseArgs {
    /// Task mode of testcases: processes, threads or both [default: both]
    #[arg(short, long, value_enum)]
    mode: Option<Modes>,

    #[arg(short, long, value_name = "N",
          value_parser = whole::<u64>(1..=1_000_000),
          help = format!("Samples per round, for testcases [default: {SAMPLES}]"))]
    samples: Option<u64>,

    #[arg(long, value_name = "S", value_parser = seconds,
          help = format!("Seconds per sample of testcases [default: {INTERVAL}] or servers [default: \
                          {COMMAND_SECONDS}]. For commands: the value of {{seconds}} [default: \
                          {COMMAND_SECONDS}]"))]
    interval: Option<f64>,

    #[arg(long, value_name = "S", value_parser = seconds_or_none,
          help = format!("Seconds before the first sample of a round, for testcases [default: {WARMUP}] and \
                          servers [default: {SERVER_WARMUP}]"))]
    warmup: Option<f64>,
}

impl TestcaseArgs {
    /// Refuses options that do not apply to sides of this kind.
    fn check(&self, kind: Kind) -> anyhow::Result<()> {
        let options = [
            (self.mode.is_some(), "--mode", "testcases"),
            (self.samples.is_some(), "--samples", "testcases"),
            (self.warmup.is_some() && kind == Kind::Commands, "--warmup", "testcases and servers"),
        ];
        let given = options.into_iter().find(|(is_given, ..)| *is_given);
        if let Some((_, option, to)) = given.filter(|_| kind != Kind::Testcases) {
            bail_usage!("{option} applies only to {to}, but both sides are {kind}");
        }
        Ok(())
    }
}

/// The output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Table with verdicts in words
    Human,
    /// Table for a pull request or a mailing list
    Markdown,
    /// All results, as JSON
    Json,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let interrupt = interrupt::poll()?;
    let (mut writer, mut run, finished) = match &args.resume {
        Some(dir) => {
            let record = Record::open(dir)?;
            ensure_usage!(
                record.run.request.order == Order::InTurns,
                "--resume {}: this is a record of knee run, not of knee ab; use {}",
                dir.display(),
                record.run.resume_command(dir)
            );
            if record.run.complete {
                return show(args, &record);
            }
            resume(dir)?
        }
        None => {
            let limit = args.patience.wait_quiet();
            let quiet = QuietWait { limit, is_silent: args.quiet, interrupt: &interrupt };
            begin(plan(args)?, args.output.as_deref(), &quiet)?
        }
    };
    let progress = RunProgress::new(args.quiet, present::Format::Json);
    let ended = carry_out(&mut writer, &mut run, &finished, progress, &interrupt)?;
    let notes = [left_running::of_run(&run), left_running::of_servers(&run)];
    notes.into_iter().flatten().for_each(|note| tell!("knee: {note}"));
    let dir = writer.dir().to_owned();
    let judged = show(args, &Record::open(&dir)?)?;
    let again = run.resume_command(&dir);
    let next = match ended {
        Ended::Interrupted(_) => interrupt::message(),
        Ended::Done if run.failures.is_empty() => {
            format!("to show it again: {again}")
        }
        Ended::Done => format!("to measure what failed again: {again}"),
    };
    tell!("knee: recorded in {}; {next}", dir.display());
    Ok(match (ended, ExitStatus::of_failures(&run.failures)) {
        (Ended::Interrupted(signal), _) => ExitStatus::Interrupted(signal),
        (Ended::Done, ExitStatus::Done) => judged,
        (Ended::Done, failed) => failed,
    })
}

fn show(args: &Args, record: &Record) -> anyhow::Result<ExitStatus> {
    let options = args.judgement.options_for(&record.run, &args.confidence);
    let InTurns { before, after, compared } = InTurns::of(record, &options)?.ok_or_else(|| {
        usage(format!("{}: the record does not have two sides to compare", record.dir.display()))
    })?;
    let comparisons = Comparisons { before: &before, options, compared: vec![(&after, compared)] };
    comparisons.print(match args.form.format(Format::Json, Format::Markdown) {
        Format::Human => Form::Table { all_notes: args.form.detail },
        Format::Markdown => Form::Markdown,
        Format::Json => Form::Json,
    })?;
    let is_open = comparisons.compared.iter().any(|(_, c)| c.verdicts().inconclusive > 0);
    Ok(match args.judgement.judge(&comparisons.compared) {
        ExitStatus::Done if options.looks.is_some() && is_open => ExitStatus::TooNoisy,
        judged => judged,
    })
}

/// The run that the arguments describe on this machine.
fn plan(args: &Args) -> anyhow::Result<RunRecord> {
    let given = |side: &Option<String>| side.clone().expect("clap requires both sides");
    let (cases, kind) = sides(&given(&args.before), &given(&args.after), &args.score)?;
    if let (Some(option), Kind::Servers | Kind::Testcases) = (args.score.given(), kind) {
        bail_usage!("{option} applies only to commands, but both sides are {kind}");
    }
    args.testcases.check(kind)?;
    let latency = latency_of(args.latency, &cases, kind)?;
    let takes_seconds = |case: &Case| command(case).is_some_and(Command::takes_seconds);
    ensure_usage!(
        args.testcases.interval.is_none()
            || kind != Kind::Commands
            || cases.iter().any(takes_seconds),
        "--interval: neither command uses the interval; insert {} where the seconds belong",
        Command::SECONDS
    );
    let topology = topology(args.cpus.as_ref())?;
    let cpus = args.placement.order(&topology);
    let (tasks, quota) = (args.tasks.clone(), cgroup::cpu_quota());
    let tasks = match kind {
        Kind::Commands => tasks.map_or(vec![1], |tasks| tasks.resolve(&topology, quota)),
        Kind::Testcases | Kind::Servers => {
            tasks.unwrap_or_default().resolve_for(&cases, &cpus, &topology, quota)
        }
    };
    let deaf = |case: &&Case| command(case).is_some_and(|command| !command.takes_tasks());
    let deaf: Vec<&Case> = cases.iter().filter(deaf).collect();
    if let (Some(_), [case, ..]) = (&args.tasks, &deaf[..]) {
        bail_usage!(
            "-t: {} does not use the task count; insert {} where the task count belongs",
            case.id,
            Command::TASKS
        );
    }
    if let [case] = &deaf[..] {
        bail_usage!(
            "{}: only the other command uses the task count, so the commands would run on different CPUs; \
             insert {} into both or into neither",
            case.id,
            Command::TASKS
        );
    }
    let modes = match kind {
        // The requested modes that both sides support.
        Kind::Testcases => {
            let modes = args.testcases.mode.unwrap_or(Modes::Both).modes();
            cases.iter().fold(modes, |modes, case| case.modes(&modes))
        }
        Kind::Commands | Kind::Servers => vec![Mode::Processes],
    };
    let confidence = args.confidence.get().percent() / 100.0;
    let points = tasks.len() * modes.len();
    let until_decided = args.until_decided.map(|within| UntilDecided { within, confidence });
    let rounds = match until_decided {
        Some(_) => Looks::new(confidence, points, 1).first(),
        None => enough(args, points)?,
    };
    if let Some(output) = &args.output {
        require_utf8("-o", output)?;
    }
    let dir = existing("TMPDIR", &std::env::temp_dir())?;
    require_one_word("TMPDIR", &dir, &cases)?;
    let (samples, interval, warmup) = match kind {
        Kind::Testcases => (SAMPLES, INTERVAL, WARMUP),
        Kind::Commands => (1, COMMAND_SECONDS, 0.0),
        Kind::Servers => (1, COMMAND_SECONDS, SERVER_WARMUP),
    };
    let request = Request {
        modes,
        tasks,
        rounds,
        samples: args.testcases.samples.unwrap_or(samples),
        interval: args.testcases.interval.unwrap_or(interval),
        warmup: args.testcases.warmup.unwrap_or(warmup),
        start_timeout: START_TIMEOUT,
        precision: None,
        until_decided,
        max_time: args.max_time,
        patience: args.patience.times(),
        order: Order::InTurns,
        seed: random(),
        placement: args.placement,
        cpus,
        latency,
        counters: args.counters.as_ref().map(counters::set).transpose()?,
        dir,
        aa: false,
    };
    require_interval(&cases, request.interval)?;
    Ok(RunRecord::new(request, cases.into()))
}

/// Which latency the comparison measures: none, unless the user asks for it.
fn latency_of(
    choice: Option<LatencyChoice>,
    cases: &[Case],
    kind: Kind,
) -> anyhow::Result<Option<LatencyRequest>> {
    if !LatencyChoice::is_asked(choice) {
        return Ok(None);
    }
    ensure_usage!(
        kind == Kind::Servers,
        "--latency applies only to servers, but both sides are {kind}"
    );
    LatencyChoice::of_servers(choice, cases.iter().all(Case::has_generator))
}

/// The requested rounds; an error if they are too few to claim a difference at any of the `points`.
fn enough(args: &Args, points: usize) -> anyhow::Result<u32> {
    let least = pairs_to_claim(points, args.confidence.get().percent() / 100.0);
    if args.rounds >= least {
        return Ok(args.rounds);
    }
    bail_usage!(
        "-r {}: too few rounds to show any difference at {}% confidence across {}; use -r \
         {least} or more",
        args.rounds,
        args.confidence.get().percent(),
        plural(points, "point")
    )
}
