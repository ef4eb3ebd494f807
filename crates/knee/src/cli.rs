//! The command line: commands and their groups. Each command defines its arguments in its own file.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use knee_host::text::plain;

#[cfg(feature = "explain")]
use crate::commands::explain;
#[cfg(feature = "prove")]
use crate::commands::prove;
use crate::commands::{machine, measure};
use crate::exit::ExitStatus;
use crate::parts::{HOW_TO_COMPLETE, is_complete, missing, present_lines};
use crate::stderr::{self, tell};

/// Find the core count at which a system stops scaling
///
/// knee measures how the throughput of kernel services and libraries grows with the task count.
#[cfg_attr(
    feature = "explain",
    doc = "It shows which functions and locks cost more with more tasks."
)]
#[cfg_attr(
    feature = "prove",
    doc = "It computes from the definition of an interface which operations can scale, and finds \
           the cache lines that they share in an unmodified kernel."
)]
#[derive(Parser)]
#[command(name = "knee", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    List(measure::list::Args),
    Run(Box<measure::run::Args>),
    Show(measure::show::Args),
    Compare(measure::compare::Args),
    Ab(Box<measure::ab::Args>),
    History(measure::history::Args),
    Fit(measure::fit::Args),
    #[cfg(feature = "explain")]
    Profile(Box<explain::profile::Args>),
    #[cfg(feature = "explain")]
    Machine(explain::machine::Args),
    #[cfg(all(feature = "explain", feature = "prove"))]
    Predict(Box<explain::predict::Args>),
    Report(measure::report::Args),
    Load(Box<measure::load::Args>),
    #[cfg(feature = "prove")]
    Commute(prove::commute::Args),
    #[cfg(feature = "prove")]
    Kernel(prove::kernel::Args),
    #[cfg(feature = "prove")]
    Qemu(prove::qemu::Args),
    Jobs(machine::jobs::Args),
    Topology(machine::topology::Args),
    Doctor(machine::doctor::Args),
    WillItScale(measure::will_it_scale::Args),
    Generate(machine::generate::Args),
}

/// Groups of commands in `knee --help`, in the order in which users need them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Measure", &["run", "list", "show", "ab", "compare", "history", "fit", "report", "load"]),
    ("Explain", &["profile", "predict", "machine"]),
    ("Prove", &["commute", "kernel", "qemu"]),
    ("Many machines", &["jobs"]),
    ("This machine", &["doctor", "topology"]),
    ("Other", &["will-it-scale", "generate", "help"]),
];

/// Description of the command `help`, which clap adds only when it parses.
const HELP: &str = "Print the help of a command";

impl Cli {
    /// The definition of the command line, with grouped commands.
    pub(crate) fn grouped() -> clap::Command {
        // Does not build the command, which would take half the run time of a short command.
        let command = with_negative_numbers(Self::command());
        let command = if is_complete() { command } else { with_present_lines(command) };
        let width = command.get_subcommands().map(|c| c.get_name().len()).max().unwrap_or(0);
        let (heading, name_style) =
            (command.get_styles().get_header(), command.get_styles().get_literal());
        let mut commands = String::new();
        for (group, names) in GROUPS {
            let mut present = names.iter().filter(|name| missing(name).is_none()).peekable();
            if present.peek().is_none() {
                continue;
            }
            let _ = writeln!(commands, "{heading}{group}:{heading:#}");
            for name in present {
                let about = command.find_subcommand(name).and_then(clap::Command::get_about);
                let about = about.map_or(HELP.to_owned(), ToString::to_string);
                let _ = writeln!(commands, "  {name_style}{name:width$}{name_style:#}  {about}");
            }
            commands.push('\n');
        }
        if !is_complete() {
            let _ = writeln!(commands, "{HOW_TO_COMPLETE}\n");
        }
        let heading = format!("{heading}Options:{heading:#}");
        command.help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{commands}{heading}\n{{options}}{{after-help}}"
        ))
    }

    /// The parsed arguments of this process. On an error or `--help`, prints clap's message and
    /// exits.
    pub(crate) fn of_process() -> Self {
        let matches = Self::grouped().try_get_matches();
        matches.and_then(|matches| Self::from_arg_matches(&matches)).unwrap_or_else(|error| {
            if let Some(message) = unknown_command(&error).and_then(missing) {
                tell!("knee: {message}");
                std::process::exit(ExitStatus::Environment.code().into());
            }
            let message = error.render().to_string();
            let has_lines = |argument: OsString| argument.to_string_lossy().contains(['\n', '\t']);
            // clap would print control characters and newlines of an argument.
            if std::env::args_os().any(has_lines) {
                tell!("{}", message.trim_end());
            } else if plain(&message) != message {
                stderr::text(message.trim_end());
            } else {
                error.exit();
            }
            std::process::exit(error.exit_code())
        })
    }
}

/// Lets every option take a negative number, which its parser refuses with a reason. Otherwise, clap
/// takes `-1` for an unknown option.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow = |arg: clap::Arg| {
        let takes_number = !arg.is_positional() && arg.get_action().takes_values();
        if takes_number { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(allow).mut_subcommands(with_negative_numbers)
}

/// Leaves out the lines after the options that name a command that this build lacks.
fn with_present_lines(command: clap::Command) -> clap::Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(present_lines(&text)),
        None => command,
    };
    command.mut_subcommands(with_present_lines)
}

/// The command that `error` is about, if there is no such command.
fn unknown_command(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) => Some(name),
        _ => None,
    }
}

/// The text that `knee` prints if it has no arguments.
pub(crate) fn start() -> String {
    let text = present_lines(START);
    if is_complete() { text } else { format!("{text}\n{HOW_TO_COMPLETE}\n") }
}

const START: &str = concat!(
    "knee ",
    env!("CARGO_PKG_VERSION"),
    ": find the core count at which a system stops scaling

  knee run                        measure: a quick set of testcases
  knee profile growth mmap1       explain: what costs more with more tasks
  knee commute check open close   prove: which cache lines two calls share
  knee doctor                     check what knee can do on this machine

knee --help lists the commands; knee help COMMAND shows options and examples.
"
);

const AFTER_HELP: &str = "\
Examples:
  knee run                               measure a quick set of testcases
  knee run mmap1 'page_fault*'           measure some testcases, in both modes
  knee compare runs/A runs/B             find what changed between two runs
  knee ab --before ./old --after ./new   find out which program is faster
  knee profile growth mmap1              rank what costs more with more tasks
  knee commute check open close          find cache lines that two calls share

Environment:
  TMPDIR           directory for files of testcases [default: /tmp]
  XDG_STATE_HOME   directory of the noise floor [default: ~/.local/state]
  XDG_CACHE_HOME   cache of knee kernel and knee qemu [default: ~/.cache]
  PATH             directories of cc, QEMU, apt-get and other tools
  KNEE_QEMU        QEMU for guests (see knee qemu --help)
  COLUMNS          width of tables [default: width of the terminal]
  LC_ALL, LC_CTYPE, LANG
                   without UTF-8 in the locale, knee prints only ASCII
  NO_COLOR         if set, knee prints no colours
  CLICOLOR_FORCE   if set, knee prints colours to pipes too

Files:
  runs/TIME                        records of knee run and knee ab
  profiles/TIME.json               captures of knee profile
  $XDG_STATE_HOME/knee/noise.json  noise floor of knee run --aa
  $XDG_CACHE_HOME/knee             files of knee kernel and knee qemu

Exit status:
  0         success
  1         a --fail-on condition matched, or a commute check failed
  2         usage error: an option, a name or a combination is invalid
  3         a file, program or permission is missing, or a file is unusable
  4         a testcase, a model or a guest failed
  5         too noisy to decide, as for --fail-on or --precision
  129, 130, 143  interrupted (SIGHUP, SIGINT, SIGTERM); knee keeps the results";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_start_page_fit_80_columns_and_are_ascii() {
        fn check(command: &mut clap::Command) {
            for line in command.render_long_help().to_string().lines() {
                // A usage line is not wrapped.
                let fits = line.chars().count() <= 80 || line.starts_with("Usage: ");
                assert!(fits && line.is_ascii(), "{}: {line}", command.get_name());
            }
            command.get_subcommands_mut().for_each(check);
        }
        let mut command = Cli::grouped().term_width(80);
        command.build();
        check(&mut command);
        assert!(start().lines().all(|line| line.len() <= 80 && line.is_ascii()));
    }

    #[test]
    fn every_command_is_in_exactly_one_help_group() {
        let names = GROUPS.iter().flat_map(|(_, names)| *names).copied();
        let mut grouped: Vec<&str> = names.filter(|name| missing(name).is_none()).collect();
        let mut command = Cli::command();
        command.build();
        let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }
}
