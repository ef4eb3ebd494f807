//! knee-sync and its peers, measured side by side in one run.

mod barrier;
mod c;
mod idle;
mod live;
mod locks;
mod output;
mod read;
mod reclaim;
mod retire;
mod stall;
mod ways;

use std::process::ExitCode;

use serde_json::json;
use side_by_side::{Options, figures_json, figures_table, machine, tell_disturbed};

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

fn main() -> ExitCode {
    Options::run(HELP, &GROUPS, |options| {
        let (mut rows, mut stalls) = (Vec::new(), Vec::new());
        for group in GROUPS.into_iter().filter(|group| options.wants(group)) {
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
            print!("{}", figures_table(&figures));
            tell_disturbed(group, &figures);
            rows.extend(figures_json(group, &figures));
        }
        json!({ "schema": 1, "machine": machine(), "rows": rows, "stalls": stalls })
    })
}
