//! `knee doctor`: what works on this machine, and how to fix the rest.

mod check;
mod host;
mod tools;

use std::fmt::Write;

use clap::builder::styling::{AnsiColor, Style};
use knee_host::text::{Cell, Column, Screen, Table};
use knee_host::{Environment, Topology};
use serde::Serialize;

use check::{Check, Remedy, Status};

use crate::exit::ExitStatus;
use crate::stdout;

const EXAMPLES: &str = "\
Examples:
  knee doctor          what works, what is limited or missing, and the fixes
  knee doctor --json   JSON for a script; the exit status is 0 for any result";

/// Check this machine and suggest fixes for what limits knee
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitStatus> {
    let environment = Environment::capture(&std::env::temp_dir());
    let checks = all(&environment, Topology::read().ok().as_ref());
    let text = if args.json {
        let machine = environment.summary();
        serde_json::to_string_pretty(&Report { schema: 1, machine, checks })? + "\n"
    } else {
        as_text(&environment.summary(), &checks, &Screen::of_stdout())
    };
    stdout::print(&text)?;
    Ok(ExitStatus::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    schema: u32,
    machine: String,
    checks: Vec<Check>,
}

/// All checks, in the order in which a newcomer meets the parts of knee.
fn all(environment: &Environment, topology: Option<&Topology>) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.extend(topology.map(host::cpus));
    checks.push(host::cpu_quota(environment));
    checks.push(host::load(environment));
    checks.push(host::steal());
    checks.push(host::governor(environment));
    checks.push(host::turbo(environment));
    checks.push(host::smt(environment));
    checks.push(host::isolated_cpus(environment));
    checks.push(host::clock(environment));
    checks.extend(host::numa_balancing(environment));
    checks.push(host::open_files(environment));
    checks.push(host::huge_pages(environment));
    checks.push(host::shared_memory());
    checks.push(host::sampling());
    checks.push(tools::compiler());
    checks.push(tools::qemu());
    checks.push(tools::qemu_user());
    checks.extend(tools::calibration());
    checks
}

fn as_text(machine: &str, checks: &[Check], screen: &Screen) -> String {
    let dim = Style::new().dimmed();
    let mut table = Table::new(["", "", ""].map(Column::left).to_vec());
    for check in checks {
        let (word, colour) = match check.status {
            Status::Ok => ("ok", AnsiColor::Green),
            Status::Limited => ("limited", AnsiColor::Yellow),
            Status::Missing => ("missing", AnsiColor::Red),
        };
        let word = Cell::new(word, colour.on_default());
        table.row(vec![word, check.name.into(), check.detail.as_str().into()]);
        let Some(remedy) = &check.remedy else { continue };
        let (word, remedy) = match remedy {
            Remedy::Command(command) => ("fix: ", command),
            Remedy::Statement(statement) => ("note:", statement),
        };
        for (word, text) in [("for: ", check.needed_for), (word, remedy)] {
            let text = format!("{dim}{word}{dim:#} {text}");
            table.row(vec![Cell::default(), Cell::default(), text.into()]);
        }
    }
    let mut text = screen.wrap(&format!("{machine}\n\n"), "  ") + &table.render(screen);
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let (ok, limited, missing) =
        (count(Status::Ok), count(Status::Limited), count(Status::Missing));
    let _ = writeln!(text, "\n{ok} ok, {limited} limited, {missing} missing");
    text
}

#[cfg(test)]
mod tests {
    use super::check::{command, statement};
    use super::*;
    use clap::CommandFactory;
    use snapbox::str;

    #[test]
    fn whatever_is_not_ok_says_what_to_do_and_the_rest_does_not() {
        let environment = Environment::capture(&std::env::temp_dir());
        for check in all(&environment, Topology::read().ok().as_ref()) {
            assert_eq!(check.status == Status::Ok, check.remedy.is_none(), "{check:?}");
            assert!(!check.detail.is_empty() && !check.needed_for.is_empty(), "{check:?}");
        }
    }

    #[test]
    fn doctor_named_commands_that_do_not_exist() {
        let environment = Environment::capture(&std::env::temp_dir());
        let knee = crate::cli::Cli::command();
        for check in all(&environment, Topology::read().ok().as_ref()) {
            let named = check.needed_for.strip_prefix("knee ").expect("names a command");
            let name = named.split([' ', ':']).next().unwrap();
            assert!(knee.find_subcommand(name).is_some(), "{check:?}");
        }
    }

    #[test]
    fn the_page_explains_only_what_is_not_ok() {
        let checks = [
            Check::ok("compiler", "build1", "cc 12.2"),
            Check::ok("/dev/shm", "knee run: testcases on tmpfs", "not mounted")
                .missing(command("sudo mount -t tmpfs tmpfs /dev/shm")),
            Check::ok("load", "every measurement: quiet CPUs", "3.0 on 2 CPUs")
                .limited(statement("wait")),
        ];
        let text = as_text("Linux 6.1 · 2 CPUs", &checks, &Screen::UNLIMITED);
        let plain = anstream::adapter::strip_str(&text).to_string();
        snapbox::assert_data_eq!(
            plain,
            str![[r#"
Linux 6.1 · 2 CPUs

ok       compiler  cc 12.2
missing  /dev/shm  not mounted
                   for:  knee run: testcases on tmpfs
                   fix:  sudo mount -t tmpfs tmpfs /dev/shm
limited  load      3.0 on 2 CPUs
                   for:  every measurement: quiet CPUs
                   note: wait

1 ok, 1 limited, 1 missing

"#]]
        );
    }

    #[test]
    fn json_names_the_kind_of_the_remedy() {
        let check = Check::ok("load", "x", "y").limited(command("uptime"));
        let value = serde_json::to_value(check).unwrap();
        assert_eq!(value["status"], "limited");
        assert_eq!(value["remedy"], serde_json::json!({ "command": "uptime" }));
    }
}
