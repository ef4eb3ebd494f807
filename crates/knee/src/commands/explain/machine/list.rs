//! `knee machine list`: the machines that knee knows.

use knee_host::text::{Cell, Column, Table};
use knee_predict::Machine;
use knee_predict::machine::Distance;
use serde_json::json;

use crate::exit::ExitStatus;
use crate::present::machine::nanoseconds;
use crate::stdout;

/// List the machines that knee knows
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee machine list          times to move a cache line, by distance
  knee machine list --json   all figures, for a script")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let machines: Vec<Machine> = Machine::all_built_in().map(|(_, machine)| machine).collect();
    if args.json {
        stdout::print_json(&json!({ "schema": 1, "machines": machines }))?;
        return Ok(ExitStatus::Done);
    }
    let columns = ["CPUs", "core", "L3", "socket", "machine"];
    let columns = columns.map(Column::right);
    let mut table = Table::new([Column::left("")].into_iter().chain(columns).collect());
    table.titles();
    for machine in &machines {
        let time =
            |distance| machine.transfer_ns.at(distance).map(|found| nanoseconds(found.value));
        let times = Distance::ALL.map(|distance| Cell::from(time(distance).unwrap_or_default()));
        let first = [Cell::from(machine.name.as_str()), Cell::from(machine.cpus().to_string())];
        table.row(first.into_iter().chain(times).collect());
    }
    table.text(
        "\nTime to move a modified cache line between CPUs of the same core, of the same L3 cache if a \
         socket has several, of the same socket, and of different sockets. For sources: knee machine \
         show NAME",
    );
    stdout::show_table(&table)?;
    Ok(ExitStatus::Done)
}
