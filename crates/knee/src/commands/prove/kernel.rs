//! `knee kernel`: kernels for guests.

use clap::Subcommand;
use knee_trace::Package;
use serde_json::json;

use crate::exit::ExitStatus;
use crate::input::kernel::archive;
use crate::stderr::tell;
use crate::stdout;

/// Version of the document.
const SCHEMA: u32 = 1;

/// List Debian's kernels, or fetch one for guests
///
/// knee downloads kernels from the mirror that apt uses on this machine, and keeps them in the
/// user's cache (~/.cache/knee/kernels). knee runs apt with a private configuration and private
/// package lists.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee kernel list                   the kernels of Debian 11 to unstable
  knee kernel fetch trixie           the newest kernel of Debian 13
  knee kernel fetch 6.1              the newest 6.1 kernel
  knee commute check stat rename --kernel \"$(knee kernel fetch 6.12)\"")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the available kernels by release, newest last
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch a kernel if it is missing, and print its path
    Fetch {
        /// Release (bookworm), package (6.1.0-18-amd64) or the first numbers of a version (6.1)
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    tell!("knee: reading apt's package lists, which are updated at most once a day");
    let archive = archive()?;
    let text = match &args.command {
        Command::List { json: true } => {
            let kernel = |package: &Package| {
                let Package { name, version, suite, .. } = package;
                json!({ "name": name, "version": version, "release": suite })
            };
            let kernels: Vec<_> = archive.list()?.iter().map(kernel).collect();
            format!("{:#}\n", json!({ "schema": SCHEMA, "kernels": kernels }))
        }
        Command::List { json: false } => {
            let packages = archive.list()?;
            let width = packages.iter().map(|package| package.name.len()).max().unwrap_or(0);
            let line = |package: &Package| {
                format!("{:width$}  {:10}  {}\n", package.name, package.suite, package.version)
            };
            packages.iter().map(line).collect()
        }
        Command::Fetch { name } => format!("{}\n", archive.fetch(name)?.display()),
    };
    stdout::print(&text)?;
    Ok(ExitStatus::Done)
}
