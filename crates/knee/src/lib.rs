//! knee: find the core count at which a system stops scaling.

// Full builds report dead code. In the others, a few functions are left that only missing commands use.
#![cfg_attr(not(all(feature = "explain", feature = "prove")), allow(dead_code))]

mod args;
mod cli;
mod commands;
mod exit;
mod file;
mod filter;
mod input;
mod interrupt;
mod parts;
mod present;
mod progress;
mod session;
mod stderr;
mod stdout;
mod writing;

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::CompleteEnv;
use knee_host::Interrupt;
use knee_host::process::keeper;
use knee_host::text::excerpt;

use crate::args::{complete, patience};
use crate::cli::{Cli, Command};
#[cfg(feature = "explain")]
use crate::commands::explain;
#[cfg(feature = "prove")]
use crate::commands::prove;
use crate::commands::{machine, measure};
use crate::exit::ExitStatus;
use crate::stderr::tell;

/// Joins an error and its causes. Omits a cause with which the text before it already ends, and cuts
/// long quotations.
fn message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.ends_with(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    excerpt(&message).into_owned()
}

/// Runs the command that the arguments of this process name.
pub fn main() -> ExitCode {
    // Internal commands, checked first because every round starts the runner or keepers.
    keeper::enable();
    match std::env::args_os().nth(1) {
        Some(arg) if arg == knee_run::runner::SUBCOMMAND => {
            std::process::exit(knee_run::runner::main(knee_testcases::CATALOGUE))
        }
        #[cfg(feature = "prove")]
        Some(arg) if arg == knee_agent::SUBCOMMAND => std::process::exit(knee_agent::main()),
        _ => {}
    }
    CompleteEnv::with_factory(|| complete::with_safe_paths(Cli::command()))
        .var(complete::COMPLETE)
        .complete();
    if std::env::args_os().len() == 1 {
        return match stdout::print(&cli::start()) {
            Ok(()) => ExitStatus::Done,
            Err(error) => ExitStatus::of(&error),
        }
        .into();
    }
    if let Some(seconds) = patience::detached_seconds(std::env::args_os()) {
        tell!("knee: --wait-quiet does not take the next argument; use --wait-quiet={seconds}");
        return ExitStatus::Usage.into();
    }
    if let Err(error) = interrupt::watch() {
        tell!("knee: cannot watch for signals: {error}");
        return ExitStatus::Environment.into();
    }
    let result = match Cli::of_process().command {
        Command::List(args) => measure::list::run(args),
        Command::Run(args) => measure::run::run(&args),
        Command::Show(args) => measure::show::run(args),
        Command::Compare(args) => measure::compare::run(args),
        Command::Ab(args) => measure::ab::run(&args),
        Command::History(args) => measure::history::run(&args),
        Command::Fit(args) => measure::fit::run(&args),
        #[cfg(feature = "explain")]
        Command::Profile(args) => explain::profile::run(&args),
        #[cfg(feature = "explain")]
        Command::Machine(args) => explain::machine::run(&args),
        #[cfg(all(feature = "explain", feature = "prove"))]
        Command::Predict(args) => explain::predict::run(&args),
        Command::Report(args) => measure::report::run(&args),
        Command::Load(args) => measure::load::run(&args),
        #[cfg(feature = "prove")]
        Command::Commute(args) => prove::commute::run(&args),
        #[cfg(feature = "prove")]
        Command::Kernel(args) => prove::kernel::run(&args),
        #[cfg(feature = "prove")]
        Command::Qemu(args) => prove::qemu::run(&args),
        Command::Jobs(args) => machine::jobs::run(&args),
        Command::Topology(args) => machine::topology::run(args),
        Command::Doctor(args) => machine::doctor::run(args),
        Command::WillItScale(args) => measure::will_it_scale::run(args),
        Command::Generate(args) => machine::generate::run(args, Cli::grouped()),
    };
    end(result).into()
}

/// The exit status of a command. Prints its error, if any.
fn end(result: anyhow::Result<ExitStatus>) -> ExitStatus {
    if matches!(result, Ok(ExitStatus::Done | ExitStatus::Interrupted(_))) {
        return result.unwrap_or(ExitStatus::Done);
    }
    // Ctrl-C also reaches the programs that knee runs, which makes them fail.
    if let Some(signal) = interrupt::unnoticed() {
        tell!("knee: {}", interrupt::message());
        return ExitStatus::Interrupted(signal);
    }
    result.unwrap_or_else(|error| {
        tell!("knee: {}", message(&error));
        // After a signal, results may not get out any more: a hang-up closes the terminal.
        Interrupt::last().map_or_else(|| ExitStatus::of(&error), ExitStatus::Interrupted)
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use std::io;

    #[test]
    fn a_repeated_cause_is_printed_once() {
        let full = || io::Error::other("the disk is full");
        let error: anyhow::Result<()> = Err(full()).context("cannot write a.json");
        assert_eq!(super::message(&error.unwrap_err()), "cannot write a.json: the disk is full");
        let error: anyhow::Result<()> = Err(full()).context("no a.json: the disk is full");
        assert_eq!(super::message(&error.unwrap_err()), "no a.json: the disk is full");
    }
}
