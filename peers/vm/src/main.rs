//! knee-vm and other maps of address spaces, measured side by side in one run.

mod bytes;
mod designs;
mod map;
mod peers;
mod rows;
mod strategies;
mod tree;

use std::process::ExitCode;

use serde_json::json;
use side_by_side::{Options, figures_json, figures_table, machine, measure, tell_disturbed};

/// What is allocated counts among what designs need.
#[global_allocator]
static ALLOCATOR: bytes::Counting = bytes::Counting;

const GROUPS: [&str; 5] = ["map", "look", "fault", "designs", "bytes"];

const HELP: &str = "\
Measures knee-vm and other maps of address spaces side by side, on two CPUs that nobody else should
use. The others are behind one lock, as kernels have them, and have no page tables: knee-vm has.
Designs are knee-vm's own and older ones of kernels, which knee-vm has as strategies, and bytes is what
these need of memory beside pages and their tables.

usage: run [OPTIONS]

  --only GROUP   map, look, fault, designs or bytes; may be repeated [default: all]
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
            if group == "bytes" {
                let (table, json) = bytes::measure();
                print!("{table}");
                all.extend(json);
                continue;
            }
            let rows = rows::of(group);
            let figures = measure(group, &rows.iter().collect::<Vec<_>>(), options.rounds, 0);
            print!("{}", figures_table(&figures));
            tell_disturbed(group, &figures);
            all.extend(figures_json(group, &figures));
        }
        json!({ "schema": 1, "machine": machine(), "rows": all })
    })
}
