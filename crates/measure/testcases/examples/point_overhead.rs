//! What a point costs beside its samples: start-up, tear-down, and memory. See docs/benchmarks.md.
//!
//! ```text
//! cargo run --release -p knee-testcases --example point_overhead
//! ```

use std::time::Instant;

use knee_host::workdir::WorkDir;
use knee_host::{Interrupt, Placement, Topology};
use knee_results::{CaseId, Mode};
use knee_run::job::{Job, Phase, START_TIMEOUT, Source};
use knee_run::launch::{Executor, Launcher};
use knee_run::runner;
use knee_stats::median;
use knee_testcases::CATALOGUE;

const ROUNDS: usize = 7;
/// Long enough for a turn of each of many tasks.
const INTERVAL: f64 = 0.5;

fn main() {
    // The launcher starts this same program again as a runner.
    if std::env::args().nth(1).as_deref() == Some(runner::SUBCOMMAND) {
        std::process::exit(runner::main(CATALOGUE));
    }
    let interrupt = Interrupt::install().expect("signals can be watched");
    let order = Placement::Cores.order(&Topology::read().expect("there are CPUs"));
    let mut work = WorkDir::create(&std::env::temp_dir()).expect("there is room for files");

    println!("| testcase | mode | tasks | start-up and tear-down, ms |");
    println!("| --- | --- | ---: | ---: |");
    for name in ["getppid1", "page_fault1", "context_switch1"] {
        for mode in [Mode::Processes, Mode::Threads] {
            for tasks in [1, 2, 64] {
                let mut overhead = || {
                    let dir = work.begin_round().expect("there is room for files");
                    let job = Job {
                        case: CaseId::new(name),
                        source: Source::BuiltIn {},
                        mode,
                        tasks,
                        cpus: order.clone(),
                        pin: true,
                        sampler_cpu: None,
                        warmup: 0.0,
                        interval: INTERVAL,
                        start_timeout: START_TIMEOUT,
                        samples: Some(1),
                        latency: None,
                        counters: None,
                        dir: dir.clone(),
                        layout: 0,
                    };
                    let start = Instant::now();
                    let mut measured = 0.0;
                    Launcher
                        .run(&job, &interrupt, &mut |_, sample| {
                            if sample.phase == Phase::Measure {
                                measured += sample.seconds;
                            }
                            Ok(())
                        })
                        .expect("the round completes");
                    let all = start.elapsed().as_secs_f64();
                    work.end_round(&dir).expect("the directory can be removed");
                    (all - measured) * 1e3
                };
                let rounds: Vec<f64> = (0..ROUNDS).map(|_| overhead()).collect();
                let median = median(&rounds).expect("there are rounds");
                println!("| {name} | {mode} | {tasks} | {median:.1} |");
            }
        }
    }
}
