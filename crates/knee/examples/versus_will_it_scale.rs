//! Runs will-it-scale's own binaries and `knee will-it-scale` alternately, and prints the ratio of
//! their rates. See docs/benchmarks.md.
//!
//! ```text
//! cargo build --release
//! cargo run --release -p knee --example versus_will_it_scale -- DIR_OF_BINARIES [ROUNDS [TESTCASE...]]
//! ```

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use knee_stats::{median, median_interval};
use rustix::process::{Pid, Signal, kill_process_group};

/// The cheapest operation of each service, where a slow harness would show most.
const TESTCASES: [&str; 12] = [
    "getppid1",
    "sched_yield",
    "lseek1",
    "read1",
    "pread1",
    "open1",
    "mmap1",
    "page_fault1",
    "pthread_mutex1",
    "context_switch1",
    "futex1",
    "brk1",
];
/// One-second samples that are thrown away, and those that count, of each invocation.
const WARMUP: usize = 1;
const SAMPLES: usize = 1;

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(peer) = args.next() else {
        eprintln!("usage: versus_will_it_scale DIR_OF_BINARIES [ROUNDS [TESTCASE...]]");
        std::process::exit(2);
    };
    let rounds: usize = args.next().map_or(6, |n| n.parse().expect("ROUNDS is a number"));
    let named: Vec<String> = args.collect();
    let chosen =
        TESTCASES.iter().filter(|name| named.is_empty() || named.iter().any(|n| n == *name));
    let example = std::env::current_exe().expect("this program has a path");
    let knee = example.parent().and_then(Path::parent).expect("target/release").join("knee");

    println!(
        "| testcase | mode | tasks | will-it-scale, op/s | knee, op/s | ratio | 95% interval |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | --- |");
    for testcase in chosen {
        for mode in ["processes", "threads"] {
            for tasks in ["1", "2"] {
                let name = format!("{testcase}_{mode}");
                let theirs = || {
                    // Into a pipe it would print nothing for minutes.
                    let binary = Path::new(&peer).join(&name);
                    rate(Command::new("stdbuf").arg("-oL").arg(binary).args(["-t", tasks]))
                };
                let ours = || rate(Command::new(&knee).args(["will-it-scale", &name, "-t", tasks]));
                let mut pairs = Vec::new();
                for round in 0..rounds {
                    // ABBA: a drift of the machine favours neither.
                    pairs.push(if round % 2 == 0 {
                        let a = theirs();
                        (a, ours())
                    } else {
                        let b = ours();
                        (theirs(), b)
                    });
                }
                let (theirs, ours): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
                let ratios: Vec<f64> = pairs.iter().map(|(theirs, ours)| ours / theirs).collect();
                let interval = median_interval(&ratios, 0.95).expect("there are rounds");
                println!(
                    "| {testcase} | {mode} | {tasks} | {:.0} | {:.0} | {:.3} | {:.3} to {:.3} |",
                    median(&theirs).expect("there are rounds"),
                    median(&ours).expect("there are rounds"),
                    interval.median,
                    interval.low,
                    interval.high,
                );
            }
        }
    }
}

/// The mean of the totals of one invocation, which is ended once it has printed enough of them.
fn rate(command: &mut Command) -> f64 {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let totals: Vec<f64> = lines
        .map_while(Result::ok)
        .filter_map(|line| line.rsplit_once("total:")?.1.parse().ok())
        .take(WARMUP + SAMPLES)
        .collect();
    // Its tasks too, which would otherwise run on for up to a second.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
    assert_eq!(totals.len(), WARMUP + SAMPLES, "{command:?} ended early");
    totals[WARMUP..].iter().sum::<f64>() / SAMPLES as f64
}
