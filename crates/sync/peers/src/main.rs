//! knee-sync and its peers, measured side by side in one run.

mod barrier;
mod c;
mod harness;
mod idle;
mod live;
mod locks;
mod output;
mod read;
mod reclaim;
mod retire;
mod stall;
mod ways;

use std::fs;
use std::process::ExitCode;

use serde_json::json;

const GROUPS: [&str; 6] = ["read", "retire", "stall", "locks", "barrier", "idle"];

const HELP: &str = "\
Measures knee-sync and its peers side by side, on two CPUs that nobody else should use.

usage: run [OPTIONS]

  --only GROUP   read, retire, stall, locks, barrier or idle; may be repeated [default: all]
  --rounds N     samples of each row, whose median counts [default: 7]
  --json FILE    writes all samples there as well
  --help         this text

Tables go to standard output, progress to standard error. A sample takes four milliseconds with each
number of threads. One in which another program took a CPU is taken again, 20 times at most.
";

/// What was asked for.
struct Options {
    only: Vec<String>,
    rounds: usize,
    json: Option<String>,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("run: {wrong}; see --help");
            return ExitCode::from(2);
        }
    };
    println!("{}", machine());
    let (mut rows, mut stalls) = (Vec::new(), Vec::new());
    for group in GROUPS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == group) {
            continue;
        }
        println!("\n## {group}\n");
        let figures = match group {
            "read" => read::figures(options.rounds),
            "retire" => retire::figures(options.rounds),
            "locks" => locks::figures(options.rounds),
            "barrier" => barrier::figures(options.rounds),
            "idle" => idle::figures(options.rounds),
            _ => {
                let counts = stall::all();
                print!("{}", output::stalls(&counts));
                stalls.extend(output::stalls_json(&counts));
                continue;
            }
        };
        print!("{}", output::figures(&figures));
        let disturbed: usize = figures.iter().map(|of| of.disturbed).sum();
        let all: usize = figures.iter().map(|of| of.samples.len()).sum();
        eprintln!("{group}: {disturbed} of {all} samples were disturbed by other programs");
        rows.extend(output::figures_json(group, &figures));
    }
    if let Some(file) = options.json {
        let all = json!({ "schema": 1, "machine": machine(), "rows": rows, "stalls": stalls });
        if let Err(error) = fs::write(&file, format!("{all:#}\n")) {
            eprintln!("run: {file}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The processor, the number of CPUs and the kernel.
fn machine() -> String {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model =
        processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model);
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cpus} CPUs, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

/// None if help is asked for.
fn options(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options { only: Vec::new(), rounds: 7, json: None };
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{option} needs a value"));
        match option.as_str() {
            "--help" => return Ok(None),
            "--only" => {
                let group = value()?;
                if !GROUPS.contains(&group.as_str()) {
                    return Err(format!("there is no group {group}"));
                }
                options.only.push(group);
            }
            "--rounds" => {
                let rounds = value()?;
                let number = rounds.parse().ok().filter(|&number| number > 0);
                options.rounds = number.ok_or(format!("{rounds} is no number of rounds"))?;
            }
            "--json" => options.json = Some(value()?),
            _ => return Err(format!("there is no option {option}")),
        }
    }
    Ok(Some(options))
}
