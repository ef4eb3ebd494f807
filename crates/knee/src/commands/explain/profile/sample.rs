//! `knee profile` itself: taking a capture.

use std::path::{Path, PathBuf};

use anyhow::Context;
use knee_host::text::Screen;
use knee_profile::Capture;
use knee_profile::sampling::Sampler;
use knee_profile::view::functions::{functions, table};

use super::args::SampleArgs;
use super::locks;
use super::recording::take;
use crate::exit::{ExitStatus, ensure_usage};
use crate::interrupt;
use crate::present::profile::{losses, summary};
use crate::session::numbered;
use crate::stderr::tell;
use crate::{file, stdout};

/// Maximum functions to print after sampling.
const SHOWN: usize = 15;
/// Default directory for captures.
const PROFILES: &str = "profiles";

pub(super) fn run(args: &SampleArgs) -> anyhow::Result<ExitStatus> {
    let interrupt = interrupt::poll()?;
    if args.locks {
        return locks::run(args, &interrupt);
    }
    prepare(args.output.as_deref())?;
    let (capture, left) = take::<Sampler>(args, &interrupt)?;
    let file = keep(&capture, args.output.as_deref())?;
    if !args.how.quiet {
        let table = table(&functions(&capture), SHOWN).render(&Screen::of_stdout());
        let words = format!("{}\n{table}", summary(&capture));
        // Standard output belongs to the command.
        match args.command.is_empty() {
            true => stdout::show(&words)?,
            false => tell!("{words}"),
        }
        losses(&capture);
        tell!(
            "knee: wrote the capture to {0}; to see the call tree: knee profile show {0}",
            file.display()
        );
    }
    left.end(&interrupt)
}

/// Checks before sampling that knee can write the capture.
fn prepare(output: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = output else {
        return std::fs::create_dir_all(PROFILES)
            .with_context(|| format!("cannot create the directory {PROFILES}; use -o FILE"));
    };
    ensure_usage!(!file.is_dir(), "-o {} is a directory; name a file in it", file.display());
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    ensure_usage!(
        dir.is_none_or(Path::is_dir),
        "-o {}: its directory does not exist",
        file.display()
    );
    Ok(())
}

/// Writes a capture to the requested file, or to a new file in `PROFILES`.
fn keep(capture: &Capture, output: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = output.map(Path::to_owned).unwrap_or_else(|| {
        let mut names = numbered(PROFILES, &capture.machine.started_at, ".json");
        names.find(|file| !file.exists()).expect("some number is unused")
    });
    file::write(&path, &capture.to_json())?;
    Ok(path)
}
