//! `knee predict`: the curve of a testcase on a machine that is not there.

mod alone;
mod change;
mod curves;
mod guest;
mod name;
mod outcome;
mod program;
mod saved;
mod workload;

use std::path::{Path, PathBuf};

use clap_complete::engine::ArgValueCandidates;
use knee_agent::Operation;
use knee_host::shell::word;
use knee_host::suggest::{nearest, question};
use knee_host::text::escape_json;
use knee_host::{Interrupt, auto_tasks_on};
use knee_predict::Machine;
use knee_predict::simulate::{CONFIDENCE, Inputs, MOST_ITERATIONS, Uncertainty, assumptions};
use knee_predict::trace::{Trace, Traced};
use knee_results::Mode;
use knee_results::prediction::{Alone, KIND, MOST_CURVES, MOST_POINTS, Predictions, SCHEMA};

use self::change::Changes;
use self::guest::{Request, trace};
use crate::args::complete::described;
use crate::args::modes::one_mode;
use crate::args::tasks::Tasks;
use crate::args::whole;
use crate::exit::{ExitStatus, bail_usage, ensure_usage, usage};
use crate::file::Output;
use crate::input::emulator::emulator;
use crate::input::kernel::kernels;
use crate::input::machine::machine;
use crate::present::commute::cost::list;
use crate::stderr::tell;
use crate::{interrupt, present, stdout};

/// Predict the curve of a testcase or a library on another machine
///
/// knee traces the testcase in a guest with an unmodified kernel: which cache lines and locks its
/// iterations take, and where. Then knee simulates many CPUs that repeat these iterations, with the
/// transfer times of the machine (see `knee machine list`). The time of an iteration on one CPU is
/// measured here, or given by --at. Each prediction has a 90% band and names what limits it.
///
/// With --program, knee traces and measures operations of a library instead: of a program with
/// knee-bind, which runs under QEMU as for `knee commute check`.
///
/// Where tasks that wait for a lock may sleep, knee prints only a bound. With several kernels, knee
/// also prints the ratio of their curves, in which errors of the machine's figures cancel. docs/predicting.md describes the model, compares it with published curves, and says what
/// it cannot do.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee predict open1 --kernel trixie --machine genoa-2x96
  knee predict open1 --kernel bookworm --kernel trixie --machine skylake-2x26
  knee predict open1 pipe1 --kernel trixie --machine machine.toml -t 1-8
  knee predict open1 --kernel trixie --machine sapphire-rapids-2x24 --at 2.0M
  knee predict open1 dup1 --machine genoa-2x96 --at open1=2.0M --at dup1=7.6M
  knee predict open1 --kernel trixie --machine genoa-2x96 --without label.count
  knee predict open1 --kernel trixie --machine genoa-2x96 -o open1.json
  knee report open1.json runs/new         the prediction as a page, beside a run
  knee predict get put --program ./my-map --machine genoa-2x96     a library
  knee predict push+pop --program ./queue --machine genoa-2x96
  knee predict get --program ./map1 --program ./map2 --machine altra-80
  knee predict open1 --kernel trixie --machine genoa-2x96 --save-trace open1.json
  knee predict --trace open1.json --machine milan-2x64 -t 1-128:8
  knee predict --list                     the testcases that knee can predict

Exit status:
  4  a guest or a program ended before knee had traced every testcase")]
pub(crate) struct Args {
    /// Testcases (see --list), or operations of --program
    #[arg(value_name = "TESTCASE", required_unless_present_any = ["list", "trace"],
          add = predictable())]
    testcases: Vec<String>,

    /// Kernel, as for `knee commute check`; repeat the option to compare other kernels with the
    /// first
    #[arg(long = "kernel", value_name = "FILE|RELEASE")]
    kernels: Vec<PathBuf>,

    /// Machine to predict for: a name from `knee machine list`, or a file
    #[arg(long, value_name = "NAME | FILE.toml", required_unless_present = "list")]
    machine: Option<String>,

    /// Task counts, such as 1,2,4 or 1-8 or 8-64:8 [default: powers of two, and the core counts of
    /// the machine's parts]
    #[arg(
        short,
        long,
        value_name = "LIST | auto",
        default_value = "auto",
        hide_default_value = true
    )]
    tasks: Tasks,

    /// Task mode: processes or threads
    #[arg(short, long, value_parser = one_mode(), default_value = "processes")]
    mode: Mode,

    /// Iterations per second of one task on the machine, with the first kernel or program: 2.0M, or
    /// open1=2.0M for one of several testcases [default: the rate on this machine]
    #[arg(long, value_name = "[TESTCASE=]RATE", value_parser = alone::given)]
    at: Vec<alone::Given>,

    /// Predict without the lines and locks whose names contain this
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,

    /// Predict with one copy of these lines and locks for each task
    #[arg(long, value_name = "NAME")]
    split: Vec<String>,

    /// Predict with these lines and locks taken only once in N iterations
    #[arg(long, value_name = "NAME=N", value_parser = batch)]
    batch: Vec<(String, usize)>,

    /// Traced iterations of each CPU of the guest; knee traces more of a testcase with rare work
    #[arg(short, long, value_name = "N", default_value_t = 200,
          value_parser = whole::<u32>(1..=10_000))]
    rounds: u32,

    /// Program that binds a library to a model of its interface (crate knee-bind); the testcases are
    /// then operations of the model, such as get, or several for each iteration, such as push+pop.
    /// Repeat the option to compare other programs with the first one
    #[arg(long, value_name = "FILE", requires = "testcases", conflicts_with = "mode")]
    program: Vec<PathBuf>,

    /// With --program, the number of names, such as keys, from which tasks choose their arguments
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = whole::<u64>(1..=100_000), requires = "program")]
    keys: u64,

    /// With --program, the number of traced threads
    #[arg(long, value_name = "N", default_value_t = program::THREADS,
          value_parser = whole::<usize>(2..=program::THREADS), requires = "program")]
    threads: usize,

    /// New file for the traces, from which --trace predicts other curves
    #[arg(long, value_name = "FILE.json")]
    save_trace: Option<PathBuf>,

    /// Saved traces to predict from, instead of testcases and kernels; repeat the option to compare
    /// the traces of several files
    #[arg(long, value_name = "FILE.json",
          conflicts_with_all = ["testcases", "kernels", "mode", "rounds", "save_trace", "program"])]
    trace: Vec<PathBuf>,

    /// File to write the prediction to, for `knee show` and `knee report`
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// List the testcases that knee can predict
    #[arg(long, conflicts_with_all = ["testcases", "machine", "json", "trace", "output"])]
    list: bool,
}

impl Args {
    fn of_programs<'a>(&'a self, programs: &'a [PathBuf]) -> anyhow::Result<program::Request<'a>> {
        let kernel = match &self.kernels[..] {
            [] => None,
            [kernel] => Some(kernel.as_path()),
            _ => bail_usage!("--program runs in a guest with one --kernel, but there are several"),
        };
        Ok(program::Request {
            programs,
            iterations: &self.testcases,
            kernel,
            keys: self.keys,
            threads: self.threads,
            rounds: self.rounds,
            at: alone::rates(&self.at, &self.testcases)?,
        })
    }

    fn changes(&self) -> Changes<'_> {
        Changes { without: &self.without, split: &self.split, batch: &self.batch }
    }
}

fn predictable() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        knee_agent::testcases().map(|known| described(known.name, known.about)).collect()
    })
}

/// The name and the number in `NAME=N`.
fn batch(text: &str) -> Result<(String, usize), String> {
    let wrong =
        || format!("must be a name and a number from 1 to {MOST_ITERATIONS}, such as zone.lock=63");
    let (name, number) = text.rsplit_once('=').ok_or_else(wrong)?;
    let number = number.parse().ok().filter(|number| (1..=MOST_ITERATIONS).contains(number));
    Ok((name.to_owned(), number.ok_or_else(wrong)?))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if args.list {
        stdout::show(&list(knee_agent::testcases()))?;
        return Ok(ExitStatus::Done);
    }
    let testcases = match args.program.is_empty() {
        true => operations(&args.testcases)?,
        false => Vec::new(),
    };
    let (_, machine) = machine(args.machine.as_deref().unwrap_or_default())?;
    let tasks = tasks(&args.tasks, &machine)?;
    let sources = [args.kernels.len(), args.program.len(), args.trace.len()];
    ensure_usage!(
        sources.iter().all(|number| *number <= MOST_CURVES),
        "knee compares at most {MOST_CURVES} kernels, programs or files of traces"
    );
    ensure_usage!(
        tasks.len() <= MOST_POINTS,
        "-t has {} task counts, but knee predicts at most {MOST_POINTS}",
        tasks.len()
    );
    // Reports missing figures of the machine before a guest boots.
    Inputs::middle(&machine, 1.0, &Uncertainty::default())?;
    if args.output.as_deref() == Some(Path::new("-")) {
        bail_usage!("-o names a file; to print the prediction as JSON, use --json");
    }
    let output = args.output.as_deref().map(Output::begin).transpose()?;
    args.save_trace.as_deref().map_or(Ok(()), saved::check_new)?;
    let interrupt = interrupt::poll()?;
    let mut traces = match (&args.trace[..], &args.program[..]) {
        ([], []) => traces(args, &testcases, &interrupt)?,
        ([], programs) => program::traces(&args.of_programs(programs)?)?,
        (files, _) => saved::read(files)?,
    };
    if let Some(path) = &args.save_trace {
        traces = saved::write(path, traces)?;
    }
    let changes = args.changes();
    let request = curves::Request { machine: &machine, tasks: &tasks, changes, at: &args.at };
    let predictions = match curves::predict(&traces, &request, &interrupt)? {
        Ok(predictions) => predictions,
        Err(signal) => {
            tell!("knee: {}", interrupt::message());
            return Ok(ExitStatus::Interrupted(signal));
        }
    };
    let predictions = Predictions {
        schema: SCHEMA,
        kind: KIND.to_owned(),
        knee_version: env!("CARGO_PKG_VERSION").to_owned(),
        confidence: CONFIDENCE,
        changes: args.changes().to_string(),
        assumptions: assumptions(
            &machine,
            &Uncertainty::default(),
            traces.iter().map(|trace| &trace.workload),
        ),
        predictions,
    };
    match args.json {
        true => stdout::print_json(&predictions)?,
        false => present::predict::show(&predictions)?,
    }
    if let Some(output) = output {
        let json = serde_json::to_string_pretty(&predictions)? + "\n";
        let file = output.finish(escape_json(&json).as_bytes())?;
        tell!("knee: wrote {}; for a page: knee report {}", file.display(), word(&file));
    }
    Ok(ExitStatus::Done)
}

/// The traces of all testcases on the first kernel, then those on the second one, and so on.
fn traces(
    args: &Args,
    testcases: &[&'static Operation],
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<Trace>> {
    let names: Vec<&str> = testcases.iter().map(|testcase| testcase.name).collect();
    let given = alone::rates(&args.at, &names)?;
    let emulator = emulator()?;
    let kernels = kernels(&args.kernels)?;
    let alone = |(name, given): (&&str, Option<f64>)| match given {
        Some(rate) => Ok(Alone { rate, measured_on: None }),
        None => alone::measure(name, args.mode, interrupt),
    };
    let alone: Vec<Alone> = names.iter().zip(given).map(alone).collect::<anyhow::Result<_>>()?;
    let (mode, rounds) = (args.mode, args.rounds);
    let request = Request { testcases, mode, rounds, emulator: &emulator };
    let mut traces = Vec::new();
    for kernel in &kernels {
        let workloads = trace(kernel, &request)?.into_iter();
        traces.extend(workloads.zip(testcases).zip(&alone).map(|((workload, testcase), alone)| {
            Trace {
                testcase: testcase.name.to_owned(),
                mode,
                of: Traced::Kernel(kernel.to_string()),
                iterations: testcase.iterations,
                alone: Some(alone.clone()),
                workload,
            }
        }));
    }
    Ok(traces)
}

/// The testcases with these names.
fn operations(names: &[String]) -> anyhow::Result<Vec<&'static Operation>> {
    let mut found: Vec<&Operation> = Vec::new();
    for name in names {
        let Some(testcase) = knee_agent::testcases().find(|known| known.name == *name) else {
            let similar = nearest(name, knee_agent::testcases().map(|known| known.name));
            return Err(usage(format!(
                "knee cannot predict {name:?}{}; knee predict --list shows the testcases that it \
                 can",
                question(&similar)
            )));
        };
        if !found.iter().any(|other| other.name == testcase.name) {
            found.push(testcase);
        }
    }
    Ok(found)
}

/// The task counts on the machine.
fn tasks(asked: &Tasks, machine: &Machine) -> anyhow::Result<Vec<u32>> {
    let all = machine.cpus();
    let tasks = asked.or_auto(|| auto_tasks_on(&machine.all_cpus()));
    match tasks.iter().find(|tasks| **tasks > all) {
        Some(tasks) => Err(usage(format!(
            "-t {tasks}: {} has only {all} CPUs, and knee predicts one task for each",
            machine.name
        ))),
        None => Ok(tasks),
    }
}

#[cfg(test)]
mod tests {
    use knee_testcases::CATALOGUE;

    use super::*;

    #[test]
    fn every_predictable_testcase_can_be_measured() {
        for known in knee_agent::testcases() {
            let selected = CATALOGUE.select(&[&known.name.to_owned()]).expect(known.name);
            assert_eq!(selected.len(), 1, "{}", known.name);
        }
    }

    #[test]
    fn an_unknown_testcase_has_a_suggestion() {
        let refusal = |name: &str| match operations(&[name.to_owned()]) {
            Ok(_) => panic!("{name} is known"),
            Err(error) => error.to_string(),
        };
        assert!(refusal("opne1").contains("open1"), "{}", refusal("opne1"));
        assert!(refusal("malloc2").contains("knee predict --list"), "{}", refusal("malloc2"));
        let twice = operations(&["open1".to_owned(), "open1".to_owned()]).expect("it is known");
        assert_eq!(twice.len(), 1);
    }

    #[test]
    fn auto_means_the_parts_of_the_machine_and_more_tasks_than_cpus_are_refused() {
        let machine = Machine::built_in("genoa-2x96").expect("it is built in");
        let auto = tasks(&Tasks::default(), &machine).unwrap();
        assert_eq!(auto, [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384]);
        let refusal = tasks(&"1,385".parse().unwrap(), &machine).unwrap_err().to_string();
        assert!(refusal.contains("only 384 CPUs"), "{refusal}");
    }

    #[test]
    fn a_batch_has_a_name_and_a_number() {
        assert_eq!(batch("zone.lock=63"), Ok(("zone.lock".to_owned(), 63)));
        assert_eq!(batch("a=b=2"), Ok(("a=b".to_owned(), 2)));
        for wrong in ["zone.lock", "zone.lock=0", "zone.lock=x", "zone.lock=9999"] {
            assert!(batch(wrong).is_err(), "{wrong}");
        }
    }
}
