//! `knee qemu`: QEMUs for guests, in addition to the installed one.

use clap::Subcommand;
use knee_trace::{Emulators, Package};
use serde_json::json;

use crate::exit::ExitStatus;
use crate::stderr::tell;
use crate::stdout;

/// Version of the document.
const SCHEMA: u32 = 1;
/// Marks a fetched QEMU in the list.
const FETCHED: &str = "fetched";

/// List Debian's QEMUs, or fetch one for guests
///
/// knee downloads QEMUs from the mirror that apt uses on this machine. knee runs apt with a private
/// configuration and private package lists. Each QEMU and its libraries take 90 MB in the user's
/// cache (~/.cache/knee/qemu).
///
/// The environment variable KNEE_QEMU selects the QEMU for `knee commute check` and `knee commute
/// cost`. The value is a name that `knee qemu fetch` accepts, or the path of a qemu-system-x86_64.
/// By default, these commands use the installed QEMU.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee qemu list                     the QEMUs of Debian 12 to unstable
  knee qemu fetch trixie             Debian 13's QEMU
  knee qemu fetch 10.0               the newest QEMU 10.0
  KNEE_QEMU=trixie knee commute check stat rename --kernel bookworm
  KNEE_QEMU=$HOME/qemu/build/qemu-system-x86_64 knee commute cost open")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the available QEMUs by release, and mark the fetched ones
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch a QEMU if it is missing, and print its name for KNEE_QEMU
    Fetch {
        /// Release (trixie), full version (10.0.13+ds-0+deb13u1) or its first numbers (10.0)
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    tell!("knee: reading apt's package lists, which are updated at most once a day");
    let emulators = Emulators::of_user()?;
    let text = match &args.command {
        Command::List { json } => {
            let (packages, fetched) = (emulators.list()?, emulators.fetched());
            match json {
                true => document(&packages, &fetched),
                false => table(&packages, &fetched),
            }
        }
        Command::Fetch { name } => {
            let (package, emulator) = emulators.fetch(name)?;
            // If this QEMU cannot run here, the command fails now, not in a later check.
            tell!("knee: QEMU {}", emulator.version()?);
            format!("{}\n", package.version)
        }
    };
    stdout::print(&text)?;
    Ok(ExitStatus::Done)
}

fn document(packages: &[Package], fetched: &[Package]) -> String {
    let qemu = |package: &Package| {
        let (version, release) = (&package.version, &package.suite);
        let is_fetched = is_among(fetched, package);
        json!({ "version": version, "release": release, "fetched": is_fetched })
    };
    let qemus: Vec<_> = packages.iter().map(qemu).collect();
    format!("{:#}\n", json!({ "schema": SCHEMA, "qemus": qemus }))
}

fn table(packages: &[Package], fetched: &[Package]) -> String {
    let width = packages.iter().map(|package| package.version.len()).max().unwrap_or(0);
    let line = |package: &Package| {
        let mark = if is_among(fetched, package) { FETCHED } else { "" };
        let line = format!("{:width$}  {:18}  {mark}", package.version, package.suite);
        line.trim_end().to_owned() + "\n"
    };
    packages.iter().map(line).collect()
}

fn is_among(fetched: &[Package], package: &Package) -> bool {
    let is = |other: &Package| (&other.suite, &other.version) == (&package.suite, &package.version);
    fetched.iter().any(is)
}
