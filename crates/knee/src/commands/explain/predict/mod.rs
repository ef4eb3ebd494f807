//! `knee predict`: the curve of a testcase on a machine that is not there.

mod alone;
mod change;
mod guest;
mod workload;

use std::path::PathBuf;

use clap_complete::engine::ArgValueCandidates;
use knee_agent::Operation;
use knee_host::auto_tasks_on;
use knee_host::suggest::{nearest, question};
use knee_predict::Machine;
use knee_predict::simulate::{
    Inputs, MOST_ITERATIONS, Plan, Point, Range, Simulator, Uncertainty, assumptions,
};
use knee_results::Mode;

use self::change::Changes;
use self::guest::{Request, trace};
use crate::args::complete::described;
use crate::args::modes::one_mode;
use crate::args::tasks::Tasks;
use crate::args::whole;
use crate::exit::{ExitStatus, bail_usage, usage};
use crate::input::emulator::emulator;
use crate::input::kernel::kernels;
use crate::input::machine::machine;
use crate::present::commute::cost::list;
use crate::present::predict::{Alone, Curve, Next, Prediction, json, text};
use crate::progress::{Amount, Progress};
use crate::stderr::tell;
use crate::{interrupt, stdout};

/// Factor of the time of an iteration for kernels other than the first one. Their instructions are counted, but may take
/// longer or shorter on average. For the first kernel, this range is half as wide.
const OTHER_KERNEL: Range = Range::new(0.9, 1.1);

/// Predict the curve of a testcase on another machine
///
/// knee traces the testcase in a guest with an unmodified kernel: which cache lines and locks its
/// iterations take, and where. Then knee simulates many CPUs that repeat these iterations, with the
/// transfer times of the machine (see `knee machine list`). The time of an iteration on one CPU is
/// measured here, or given by --at. Each prediction has a 90% band and names what limits it.
///
/// Where tasks would sleep, retry or interrupt each other, knee prints only a bound. With several kernels, knee also
/// prints the ratio of their curves, in which errors of the machine's figures cancel. docs/predicting.md
/// describes the model, compares it with published curves, and says what it cannot do.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee predict open1 --kernel trixie --machine genoa-2x96
  knee predict open1 --kernel bookworm --kernel trixie --machine skylake-2x26
  knee predict open1 pipe1 --kernel trixie --machine machine.toml -t 1-8
  knee predict open1 --kernel trixie --machine sapphire-rapids-2x24 --at 2.0M
  knee predict open1 --kernel trixie --machine genoa-2x96 --without label.count
  knee predict --list                     the testcases that knee can predict

Exit status:
  4  a guest ended before knee had traced every testcase")]
pub(crate) struct Args {
    /// Testcases (see --list)
    #[arg(value_name = "TESTCASE", required_unless_present = "list", add = predictable())]
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

    /// Iterations per second of one task on the machine, with the first kernel, such as 2.0M
    /// [default: the rate on this machine]
    #[arg(long, value_name = "RATE", value_parser = alone::rate)]
    at: Option<f64>,

    /// Predict without the lines and locks whose names contain this
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,

    /// Predict with one copy of these lines and locks for each task
    #[arg(long, value_name = "NAME")]
    split: Vec<String>,

    /// Predict with these lines and locks taken only once in N iterations
    #[arg(long, value_name = "NAME=N", value_parser = batch)]
    batch: Vec<(String, usize)>,

    /// Number of traced iterations of each of the guest's CPUs
    #[arg(short, long, value_name = "N", default_value_t = 200,
          value_parser = whole::<u32>(1..=10_000))]
    rounds: u32,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// List the testcases that knee can predict
    #[arg(long, conflicts_with_all = ["testcases", "machine", "json"])]
    list: bool,
}

impl Args {
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
    let testcases = operations(&args.testcases)?;
    let (_, machine) = machine(args.machine.as_deref().unwrap_or_default())?;
    let tasks = tasks(&args.tasks, &machine)?;
    // Reports missing figures of the machine before a guest boots.
    Inputs::middle(&machine, 1.0, &Uncertainty::default())?;
    if let (Some(_), [_, other, ..]) = (args.at, &testcases[..]) {
        bail_usage!(
            "--at is the rate of one testcase, but {} is another one; predict one at a time",
            other.name
        );
    }
    let emulator = emulator()?;
    let kernels = kernels(&args.kernels)?;
    let interrupt = interrupt::poll()?;
    let alone = |testcase: &&Operation| match args.at {
        Some(rate) => Ok(Alone { rate, is_measured: false }),
        None => alone::measure(testcase.name, args.mode, &interrupt),
    };
    let alone: Vec<Alone> = testcases.iter().map(alone).collect::<anyhow::Result<_>>()?;
    let request = Request {
        testcases: &testcases,
        mode: args.mode,
        rounds: args.rounds,
        emulator: &emulator,
    };
    // The workloads of all testcases on the first kernel, then those on the second one, and so on.
    let mut recorded = Vec::new();
    for kernel in &kernels {
        recorded.extend(trace(kernel, &request)?);
    }
    let changed = args.changes().apply(&recorded)?;
    let mut progress = Progress::new(false);
    let of = (recorded.len() * tasks.len()) as u64;
    let mut done = 0;
    let mut predictions = Vec::new();
    for (nr, (testcase, alone)) in testcases.iter().zip(alone).enumerate() {
        let iterations = f64::from(testcase.iterations);
        let first = recorded[nr].mean_instructions();
        let mut curves = Vec::new();
        for (kernel, at) in kernels.iter().zip((nr..).step_by(testcases.len())) {
            let slower = recorded[at].mean_instructions() / first;
            let nanoseconds = 1e9 * iterations / alone.rate * slower;
            let mut plan = Plan::new(&changed[at], &machine, nanoseconds);
            if !curves.is_empty() {
                plan.uncertainty.iteration = OTHER_KERNEL;
            }
            let simulator = Simulator::new(plan)?;
            let mut points = Vec::new();
            for &tasks in &tasks {
                progress.show(&Amount { done, of, unit: "points" }, || {
                    format!("{} on {kernel}, {tasks} tasks", testcase.name)
                });
                points.push(simulator.point(tasks)?.counted(iterations));
                done += 1;
                if let Some(signal) = interrupt.take() {
                    tell!("knee: {}", interrupt::message());
                    return Ok(ExitStatus::Interrupted(signal));
                }
            }
            let next = next(plan, points.last(), iterations)?;
            curves.push(Curve { kernel: kernel.to_string(), slower, points, next });
        }
        predictions.push(Prediction {
            testcase: testcase.name,
            mode: args.mode,
            machine: &machine,
            alone,
            curves,
        });
    }
    drop(progress);
    let changes = args.changes().to_string();
    let assumed = assumptions(&machine, &Uncertainty::default());
    match args.json {
        true => stdout::print_json(&json(&predictions, &changes, &assumed))?,
        false => text(&predictions, &changes, &assumed)?,
    }
    Ok(ExitStatus::Done)
}

/// The testcases with these names.
fn operations(names: &[String]) -> anyhow::Result<Vec<&'static Operation>> {
    let mut found: Vec<&Operation> = Vec::new();
    for name in names {
        let Some(testcase) = knee_agent::testcases().find(|known| known.name == *name) else {
            let similar = nearest(name, knee_agent::testcases().map(|known| known.name));
            return Err(usage(format!(
                "knee cannot predict {name:?}{}; knee predict --list shows the testcases that it can",
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

/// The last point without what limits it.
fn next(plan: Plan<'_>, last: Option<&Point>, iterations: f64) -> anyhow::Result<Option<Next>> {
    let Some((last, binding)) = last.and_then(|last| Some((last, last.binding()?))) else {
        return Ok(None);
    };
    let without = plan.workload.without(&binding.name)?;
    let point = Simulator::new(Plan { workload: &without, ..plan })?.point(last.tasks)?;
    Ok(Some(Next { without: binding.name.clone(), point: point.counted(iterations) }))
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
        assert!(refusal("malloc1").contains("knee predict --list"), "{}", refusal("malloc1"));
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
