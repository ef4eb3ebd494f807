//! knee-vm and other maps of address spaces, measured side by side in one run.

mod map;
mod peers;
mod rows;
mod tree;

use std::process::ExitCode;

use serde_json::json;
use side_by_side::{Options, figures_json, figures_table, machine, measure, tell_disturbed};

const GROUPS: [&str; 3] = ["map", "look", "fault"];

const HELP: &str = "\
Measures knee-vm and other maps of address spaces side by side, on two CPUs that nobody else should
use. The others are behind one lock, as kernels have them, and have no page tables: knee-vm has.

usage: run [OPTIONS]

  --only GROUP   map, look or fault; may be repeated [default: all]
  --rounds N     samples of each row, whose median counts [default: 7]
  --json FILE    writes all samples there as well
  --help         this text

Tables go to standard output, progress to standard error.
";

fn main() -> ExitCode {
    Options::run(HELP, &GROUPS, |options| {
        let mut all = Vec::new();
        for group in GROUPS.into_iter().filter(|group| options.wants(group)) {
            println!("\n## {group}\n");
            let rows = rows::of(group);
            let figures = measure(group, &rows.iter().collect::<Vec<_>>(), options.rounds, 0);
            print!("{}", figures_table(&figures));
            tell_disturbed(group, &figures);
            all.extend(figures_json(group, &figures));
        }
        json!({ "schema": 1, "machine": machine(), "rows": all })
    })
}
