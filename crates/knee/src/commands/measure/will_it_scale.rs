//! `knee will-it-scale`: a drop-in replacement for will-it-scale's binaries in scripts.

use std::io::{self, ErrorKind, Write};

use anyhow::Context;
use knee_host::suggest::{nearest, question_or};
use knee_host::workdir::WorkDir;
use knee_host::{Placement, Topology};
use knee_results::{MAX_TASKS, Mode};
use knee_run::catalogue::Selected;
use knee_run::job::{Failure, Job, LAYOUTS, Phase, START_TIMEOUT};
use knee_run::launch::{Executor, Launcher};
use knee_run::needs::{self, TMPFS};
use knee_run::plan::Case;
use knee_run::stopped::Stopped;
use knee_run::sweep::spare_cpu;
use knee_run::testcase::Need;
use knee_stats::Spread;
use knee_testcases::CATALOGUE;

use crate::args::whole;
use crate::exit::{ExitStatus, bail_usage, usage};
use crate::filter::Content;
use crate::interrupt;
use crate::present::will_it_scale::sample;
use crate::session::random;
use crate::stderr::{tell, tell_of_debug_build};
use crate::stdout;

/// Seconds per sample in the original.
const INTERVAL: f64 = 1.0;
/// Samples that the original discards. It claims to discard five, but discards six.
const DISCARDED: u64 = 6;

/// Behave like a will-it-scale binary: same arguments, same output
///
/// knee divides counts by the measured time. The original assumes that sleep(1) takes exactly one
/// second. Testcases behave as in the original, even if knee's own default differs. As in the
/// original, rates are integers. The rate of a slow operation, such as build1, can therefore be 0.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee will-it-scale mmap1_processes -t 4 -s 5       average five samples
  knee will-it-scale page_fault1_threads -t 2        run until interrupted")]
pub(crate) struct Args {
    /// Testcase and mode: NAME_processes or NAME_threads
    name: String,

    /// Task count
    #[arg(short, long = "tasks", value_name = "N", default_value = "1",
          value_parser = whole::<u32>(1..=MAX_TASKS))]
    tasks: u32,

    /// Number of one-second samples to average; 0 means to run forever
    #[arg(short, long = "samples", value_name = "N", default_value = "0",
          value_parser = whole::<u64>(0..=u64::MAX))]
    samples: u64,

    /// Bind tasks to SMT threads instead of cores
    #[arg(short = 'm')]
    smt: bool,

    /// Do not bind tasks to CPUs
    #[arg(short = 'n')]
    no_affinity: bool,

    /// Print the rate of each task
    #[arg(short = 'v')]
    verbose: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitStatus> {
    let (name, mode) = parse_name(&args.name)?;
    let testcase = CATALOGUE.find(name).ok_or_else(|| {
        let names = nearest(name, CATALOGUE.all().map(|testcase| testcase.name));
        let hint = question_or(&names, "; knee list shows all");
        usage(format!("no testcase is named {name:?}{hint}"))
    })?;
    let case = Case::built_in(&Selected::original(testcase));
    let placement = match (args.smt, args.no_affinity) {
        (true, _) => Placement::Smt,
        (_, true) => Placement::None,
        _ => Placement::Cores,
    };
    let parent = std::env::temp_dir();
    let context = needs::Context { dir: &parent, mode, tasks: args.tasks };
    if let Some(failure) = testcase.needs.iter().find_map(|&n| needs::check(n, &context).err()) {
        return Ok(report(&args, &failure));
    }
    tell_of_debug_build();
    // Installs the handler before creating anything that needs cleanup.
    let interrupt = interrupt::poll()?;
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let on_tmpfs = testcase.needs.contains(&Need::Tmpfs);
    let parent = if on_tmpfs { TMPFS.into() } else { parent };
    let mut work =
        WorkDir::create(&parent).with_context(|| format!("cannot use {}", parent.display()))?;
    let order = placement.order(&Topology::read()?);
    let job = Job {
        case: case.id.clone(),
        source: case.source.clone(),
        mode,
        tasks: args.tasks,
        sampler_cpu: spare_cpu(&order, args.tasks, &case),
        cpus: order,
        pin: placement.pins(),
        warmup: 0.0,
        interval: INTERVAL.max(case.min_interval),
        start_timeout: START_TIMEOUT,
        samples: (args.samples > 0).then_some(args.samples + DISCARDED),
        latency: None,
        counters: None,
        dir: work.begin_round()?,
        layout: random() as u32 % LAYOUTS,
    };
    let mut output = Output {
        out: stdout::stream(Content::Text),
        steps: case.steps,
        samples: args.samples,
        verbose: args.verbose,
        taken: 0,
        total: 0.0,
    };
    let result =
        Launcher.run(&job, &interrupt, &mut |description, measured| match measured.phase {
            Phase::Round => Ok(()),
            Phase::Warmup | Phase::Measure => output.sample(description, &measured.rates),
        });
    match result {
        Ok(_) => Ok(ExitStatus::Done),
        Err(Stopped::Interrupted(signal)) => Ok(ExitStatus::Interrupted(signal)),
        // The reader closed the pipe. SIGPIPE would kill the original.
        Err(Stopped::ByReceiver(error)) if error.kind() == ErrorKind::BrokenPipe => {
            Ok(ExitStatus::Done)
        }
        Err(Stopped::ByReceiver(error)) => Err(error).context("cannot write to standard output"),
        Err(Stopped::Failed(failure)) => Ok(report(&args, &failure)),
    }
}

fn report(args: &Args, failure: &Failure) -> ExitStatus {
    tell!("knee: {}: {}; {}", args.name, failure.reason, failure.remedy);
    ExitStatus::of_failure(failure.kind)
}

fn parse_name(name: &str) -> anyhow::Result<(&str, Mode)> {
    if let Some(name) = name.strip_suffix("_processes") {
        Ok((name, Mode::Processes))
    } else if let Some(name) = name.strip_suffix("_threads") {
        Ok((name, Mode::Threads))
    } else {
        bail_usage!("{name:?} does not end in _processes or _threads")
    }
}

/// Prints the lines that the original prints, each as soon as its values are known.
struct Output<W> {
    out: W,
    /// Loop steps per operation.
    steps: u64,
    /// Samples to average; 0 means to run forever.
    samples: u64,
    verbose: bool,
    taken: u64,
    total: f64,
}

impl<W: Write> Output<W> {
    fn sample(&mut self, description: &str, steps_per_second: &[f64]) -> io::Result<()> {
        let rates: Vec<f64> =
            steps_per_second.iter().map(|rate| rate / self.steps as f64).collect();
        let Some(spread) = Spread::of(&rates) else { return Ok(()) };
        let out = &mut self.out;
        if self.taken == 0 {
            writeln!(out, "testcase:{description}\nwarmup")?;
        }
        if self.verbose {
            for (task, rate) in rates.iter().enumerate() {
                writeln!(out, "{task:4} -> {rate:.0}")?;
            }
        }
        writeln!(out, "{}", sample(&spread))?;
        self.taken += 1;
        if self.taken == DISCARDED {
            writeln!(out, "measurement")?;
        }
        if self.taken > DISCARDED {
            self.total += spread.total;
        }
        if self.samples > 0 && self.taken == self.samples + DISCARDED {
            writeln!(out, "average:{:.0}", self.total / self.samples as f64)?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_of_several_loop_steps_counts_once() {
        let mut output =
            Output { out: Vec::new(), steps: 25, samples: 2, verbose: true, taken: 5, total: 0.0 };
        for rates in [[25.0, 50.0], [50.0, 100.0], [100.0, 200.0]] {
            output.sample("builds", &rates).unwrap();
        }
        snapbox::assert_data_eq!(
            String::from_utf8(output.out).unwrap(),
            snapbox::str![[r#"
   0 -> 1
   1 -> 2
min:1 max:2 total:3
measurement
   0 -> 2
   1 -> 4
min:2 max:4 total:6
   0 -> 4
   1 -> 8
min:4 max:8 total:12
average:9

"#]]
        );
    }
}
