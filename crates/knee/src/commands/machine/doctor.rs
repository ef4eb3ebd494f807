//! `knee doctor`: what works on this machine, and how to fix the rest.

mod check;
#[cfg(feature = "prove")]
mod guests;
mod host;
#[cfg(feature = "explain")]
mod sampling;
mod tools;

use std::fmt::Write;

use knee_host::text::{Cell, Column, Screen, Style, Table};
use knee_host::{Environment, Topology};
use serde::Serialize;

use check::{Check, Remedy, Status, check};

use crate::exit::ExitStatus;
use crate::stdout;

const EXAMPLES: &str = "\
Examples:
  knee doctor          what works, what is limited or missing, and the fixes
  knee doctor --json   JSON for a script; the exit status is 0 for any result";

/// Check what limits knee on this machine, and suggest fixes
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
    let machine = environment.summary();
    match args.json {
        true => stdout::print_json(&Report { schema: 1, machine, checks })?,
        false => stdout::print(&as_text(&machine, &checks, &Screen::of_stdout()))?,
    }
    Ok(ExitStatus::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    schema: u32,
    machine: String,
    checks: Vec<Check>,
}

/// All checks that apply to this machine, in the order in which a newcomer meets the commands.
fn all(environment: &Environment, topology: Option<&Topology>) -> Vec<Check> {
    let mut all = vec![
        check(
            "CPUs",
            "knee run -t auto measures up to one task per usable CPU",
            topology.map(host::cpus),
        ),
        check(
            "CPU quota",
            "knee run can mistake throttling for a knee",
            host::cpu_quota(environment),
        ),
        check("load", "knee run needs quiet CPUs", host::load(environment)),
        check("stolen time", "knee run needs CPUs that no other guest uses", host::steal()),
        check("governor", "knee run needs a steady CPU frequency", host::governor(environment)),
        check(
            "turbo",
            "knee run shows worse scaling if turbo speeds up a single task",
            host::turbo(environment),
        ),
        check("SMT", "knee run places tasks on cores before SMT siblings", host::smt(environment)),
        check(
            "isolated CPUs",
            "knee run has the least noise on isolated CPUs",
            host::isolated_cpus(environment),
        ),
        check(
            "clock source",
            "knee run measures intervals with this clock",
            host::clock(environment),
        ),
        check(
            "NUMA balancing",
            "knee run needs memory and tasks that stay on their NUMA node",
            host::numa_balancing(environment),
        ),
        check(
            "open files",
            "knee run needs many open files for the testcases poll2 and poll3",
            host::open_files(environment),
        ),
        check(
            "huge pages",
            "knee run needs huge pages for zero_fill2, and testcases with @pages=system use them",
            host::huge_pages(environment),
        ),
        check(
            "/dev/shm",
            "knee run needs a tmpfs for the testcases build1 and fallocate1",
            host::shared_memory(),
        ),
        check(
            "loopback",
            "knee run needs the loopback interface for the testcases of TCP",
            host::loopback(),
        ),
        check(
            "counters",
            "knee run --counters shows why a testcase stops scaling",
            host::counters(),
        ),
        check(
            "noise floor",
            "knee run flags differences that are smaller than the noise floor",
            host::noise_floor(environment),
        ),
    ];
    #[cfg(feature = "explain")]
    all.extend(sampling::checks());
    all.push(check(
        "C compiler",
        "knee run needs a compiler for build1, and you need one for --plugin files",
        tools::compiler(),
    ));
    #[cfg(feature = "prove")]
    all.extend(guests::checks());
    all.into_iter().flatten().collect()
}

fn as_text(machine: &str, checks: &[Check], screen: &Screen) -> String {
    let dim = Style::DIM;
    let mut table = Table::new(["", "", ""].map(Column::left).to_vec());
    for Check { name, needed_for, finding } in checks {
        let (word, colour) = match finding.status {
            Status::Ok => ("ok", Style::GREEN),
            Status::Limited => ("limited", Style::YELLOW),
            Status::Missing => ("missing", Style::RED),
        };
        let word = Cell::new(word, colour);
        table.row(vec![word, (*name).into(), finding.detail.as_str().into()]);
        let Some(remedy) = &finding.remedy else { continue };
        let (word, remedy) = match remedy {
            Remedy::Command(command) => ("fix: ", command),
            Remedy::Statement(statement) => ("note:", statement),
        };
        for (word, text) in [("why: ", *needed_for), (word, remedy)] {
            let text = format!("{dim}{word}{dim:#} {text}");
            table.row(vec![Cell::default(), Cell::default(), text.into()]);
        }
    }
    let mut text = screen.wrap(&format!("{machine}\n\n"), "  ") + &table.render(screen);
    let count = |status| checks.iter().filter(|check| check.finding.status == status).count();
    let (ok, limited, missing) =
        (count(Status::Ok), count(Status::Limited), count(Status::Missing));
    let _ = writeln!(text, "\n{ok} ok, {limited} limited, {missing} missing");
    text
}

#[cfg(test)]
mod tests {
    use super::check::{Finding, command, limited, missing, ok, statement};
    use super::*;
    use clap::CommandFactory;
    use snapbox::str;

    #[test]
    fn only_a_check_that_is_not_ok_has_a_remedy() {
        let environment = Environment::capture(&std::env::temp_dir());
        for check in all(&environment, Topology::read().ok().as_ref()) {
            let Finding { status, detail, remedy } = &check.finding;
            assert_eq!(*status == Status::Ok, remedy.is_none(), "{check:?}");
            assert!(!detail.is_empty() && !check.needed_for.is_empty(), "{check:?}");
        }
    }

    #[test]
    fn every_check_names_an_existing_command() {
        let environment = Environment::capture(&std::env::temp_dir());
        let knee = crate::cli::Cli::command();
        for check in all(&environment, Topology::read().ok().as_ref()) {
            let named = check.needed_for.strip_prefix("knee ").expect("names a command");
            let name = named.split([' ', ':']).next().unwrap();
            assert!(knee.find_subcommand(name).is_some(), "{check:?}");
        }
    }

    #[test]
    fn doctor_explains_only_what_is_not_ok() {
        let checks = [
            check("compiler", "knee run compiles", ok("cc 12.2")),
            check(
                "/dev/shm",
                "knee run needs a tmpfs",
                missing("not mounted", command("sudo mount -t tmpfs tmpfs /dev/shm")),
            ),
            check("load", "knee run needs quiet CPUs", limited("3.0 on 2 CPUs", statement("wait"))),
        ]
        .map(Option::unwrap);
        let text = as_text("Linux 6.1 · 2 CPUs", &checks, &Screen::UNLIMITED);
        let plain = knee_host::text::plain(&text).to_string();
        snapbox::assert_data_eq!(
            plain,
            str![[r#"
Linux 6.1 · 2 CPUs

ok       compiler  cc 12.2
missing  /dev/shm  not mounted
                   why:  knee run needs a tmpfs
                   fix:  sudo mount -t tmpfs tmpfs /dev/shm
limited  load      3.0 on 2 CPUs
                   why:  knee run needs quiet CPUs
                   note: wait

1 ok, 1 limited, 1 missing

"#]]
        );
    }

    #[test]
    fn json_states_the_kind_of_the_remedy() {
        let check = check("load", "x", limited("y", command("uptime")));
        let value = serde_json::to_value(check).unwrap();
        assert_eq!(value["status"], "limited");
        assert_eq!(value["remedy"], serde_json::json!({ "command": "uptime" }));
    }
}
