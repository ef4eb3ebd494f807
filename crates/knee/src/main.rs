//! knee: find the core count at which a system stops scaling.

mod cli;
mod commands;
mod exit;
mod pace;
mod present;
mod stderr;
mod stdout;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::exit::ExitStatus;
use crate::stderr::tell;

/// An error and its causes, but for those that the one before has said already.
fn said(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.ends_with(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

fn main() -> ExitCode {
    // First, because it runs for every round, and these are no commands for people.
    match std::env::args_os().nth(1) {
        Some(arg) if arg == knee_run::runner::SUBCOMMAND => {
            std::process::exit(knee_run::runner::main(knee_testcases::CATALOGUE))
        }
        Some(arg) if arg == knee_host::process::suspended::SUBCOMMAND => {
            std::process::exit(knee_host::process::suspended::main())
        }
        Some(arg) if arg == knee_agent::SUBCOMMAND => std::process::exit(knee_agent::main()),
        _ => {}
    }
    let result = match Cli::parse().command {
        Command::List(args) => commands::list::run(args),
        Command::Run(args) => commands::run::run(&args),
        Command::Show(args) => commands::show::run(args),
        Command::Compare(args) => commands::compare::run(args),
        Command::Ab(args) => commands::ab::run(&args),
        Command::History(args) => commands::history::run(&args),
        Command::Fit(args) => commands::fit::run(&args),
        Command::Profile(args) => commands::profile::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Commute(args) => commands::commute::run(&args),
        Command::Kernel(args) => commands::kernel::run(&args),
        Command::Qemu(args) => commands::qemu::run(&args),
        Command::Topology(args) => commands::topology::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::WillItScale(args) => commands::will_it_scale::run(args),
        Command::Generate(args) => commands::generate::run(args),
    };
    let status = result.unwrap_or_else(|error| {
        tell!("knee: {}", said(&error));
        ExitStatus::of(&error)
    });
    status.into()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use std::io;

    #[test]
    fn a_cause_is_said_once() {
        let full = || io::Error::other("the disk is full");
        let error: anyhow::Result<()> = Err(full()).context("cannot write a.json");
        assert_eq!(super::said(&error.unwrap_err()), "cannot write a.json: the disk is full");
        let error: anyhow::Result<()> = Err(full()).context("no a.json: the disk is full");
        assert_eq!(super::said(&error.unwrap_err()), "no a.json: the disk is full");
    }
}
