//! `knee generate`: files generated from the command's own definition.

mod man;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use clap_complete::env::Shells;
use knee_host::OwnDirectory;
use knee_host::number::plural;
use knee_run::noise::noise_schema;
use knee_run::record::{run_schema, sample_schema};
use knee_trace::findings::{check_schema, diff_schema, explain_schema, matrix_schema, test_schema};
use serde_json::Value;

use crate::args::complete::COMPLETE;
use crate::exit::ExitStatus;
use crate::stderr::tell;
use crate::{file, stdout};

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
        /// Document to describe. Files: run (run.json), sample (a line of samples.jsonl), noise
        /// (noise.json), server (the description of a server), check (check.json), check-test (a line
        /// of tests.jsonl), capture (`knee profile`). Output of --json: check-matrix (`knee commute
        /// matrix DIR`), check-diff (`knee commute diff`), check-explain (`knee commute explain`),
        /// lock-waits (`knee profile --locks`)
        #[arg(value_parser = PossibleValuesParser::new(SCHEMAS.map(|(name, _)| name)))]
        file: String,
    },
}

/// Returns a JSON schema.
type Schema = fn() -> Value;

/// The documents with a schema.
const SCHEMAS: [(&str, Schema); 11] = [
    ("run", run_schema),
    ("sample", sample_schema),
    ("noise", noise_schema),
    ("server", knee_run::server::schema),
    ("check", check_schema),
    ("check-test", test_schema),
    ("check-matrix", matrix_schema),
    ("check-diff", diff_schema),
    ("check-explain", explain_schema),
    ("capture", knee_profile::capture::schema),
    ("lock-waits", knee_profile::locks::schema),
];

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
            let schema = SCHEMAS.iter().find(|(name, _)| *name == file);
            let (_, schema) = schema.expect("clap accepts only these names");
            text = format!("{:#}\n", schema()).into_bytes();
        }
    }
    stdout::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitStatus::Done)
}

fn write_pages(knee: clap::Command, dir: &Path) -> anyhow::Result<ExitStatus> {
    OwnDirectory::create(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let pages = man::pages(knee)?;
    for man::Page { file, text } in &pages {
        file::write(&dir.join(file), text)?;
    }
    tell!("knee: wrote {} to {}", plural(pages.len(), "man page"), dir.display());
    Ok(ExitStatus::Done)
}
