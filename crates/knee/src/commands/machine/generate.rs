//! `knee generate`: files generated from the command's own definition.

mod man;
mod schema;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap_complete::Shell;
use clap_complete::env::Shells;
use knee_host::OwnDirectory;
use knee_host::number::plural;

use self::schema::Schema;
use crate::args::complete::COMPLETE;
use crate::exit::ExitStatus;
use crate::file::OutputDirectory;
use crate::stderr::tell;
use crate::stdout;

/// Generate man pages, shell completions or a JSON schema
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee generate man /usr/local/share/man/man1
  knee generate completions bash > /etc/bash_completion.d/knee
  knee generate schema sample")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write the man pages of knee and of each command
    Man {
        /// Directory for the pages
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Print completions for a shell
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
    /// Print the JSON schema of a file or of the output of --json
    Schema {
        /// Document to describe
        #[arg(value_parser = PossibleValuesParser::new(schema::all().map(documented)))]
        file: String,
    },
}

/// The name of a schema on the command line.
fn documented(schema: &Schema) -> PossibleValue {
    PossibleValue::new(schema.name).help(schema.describes)
}

/// Prints the requested file. `knee` defines the whole command line.
pub(crate) fn run(args: Args, knee: clap::Command) -> anyhow::Result<ExitStatus> {
    let mut text = Vec::new();
    match args.what {
        What::Man { dir } => return write_pages(knee, &dir),
        What::Completions { shell } => {
            let shells = Shells::builtins();
            let completer = shells.completer(&shell.to_string()).expect("every shell is built in");
            completer.write_registration(COMPLETE, "knee", "knee", "knee", &mut text)?;
        }
        What::Schema { file } => {
            let schema = schema::all().find(|schema| schema.name == file);
            let schema = schema.expect("clap accepts only these names");
            text = format!("{:#}\n", (schema.of)()).into_bytes();
        }
    }
    stdout::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitStatus::Done)
}

fn write_pages(knee: clap::Command, dir: &Path) -> anyhow::Result<ExitStatus> {
    OwnDirectory::create(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let output = OutputDirectory::open(dir);
    let output = output.with_context(|| format!("cannot write to {}", dir.display()))?;
    let pages = man::pages(knee)?;
    for man::Page { file, text } in &pages {
        output.write(file, text)?;
    }
    tell!("knee: wrote {} to {}", plural(pages.len(), "man page"), dir.display());
    Ok(ExitStatus::Done)
}
