//! The command line as a whole; each command's arguments are in its own file.

use clap::{Parser, Subcommand};

use crate::commands;

/// Find the core count at which a system stops scaling.
#[derive(Parser)]
#[command(name = "knee", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    List(commands::list::Args),
    Run(Box<commands::run::Args>),
    Show(commands::show::Args),
    Compare(commands::compare::Args),
    Ab(Box<commands::ab::Args>),
    History(commands::history::Args),
    Fit(commands::fit::Args),
    Profile(Box<commands::profile::Args>),
    Report(commands::report::Args),
    Commute(commands::commute::Args),
    Kernel(commands::kernel::Args),
    Qemu(commands::qemu::Args),
    Topology(commands::topology::Args),
    Doctor(commands::doctor::Args),
    WillItScale(commands::will_it_scale::Args),
    Generate(commands::generate::Args),
}

const AFTER_HELP: &str = "\
Examples:
  knee run                           a tour of every service of this kernel, under two minutes
  knee run mmap1 'page_fault*'       these testcases, as processes and as threads
  knee compare runs/A runs/B         what changed from one run to another
  knee ab --before ./old --after ./new   which is faster? measured in turns
  knee profile growth mmap1          what grows with the cores
  knee list                          what can be measured
  knee doctor                        what works on this machine, and what is missing

Exit status:
  0 done   1 --fail-on says no   2 usage   3 the environment lacks something
  4 a testcase died   130, 143 interrupted; what was measured is kept";
