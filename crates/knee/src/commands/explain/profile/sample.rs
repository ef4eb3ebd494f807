//! `knee profile` itself: taking a capture.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use knee_host::OwnDirectory;
use knee_host::shell::word;
use knee_host::text::Screen;
use knee_profile::Capture;
use knee_profile::sampling::Sampler;
use knee_profile::view::functions::{functions, table};

use super::args::SampleArgs;
use super::locks;
use super::recording::take;
use crate::exit::ExitStatus;
use crate::file::{Output, OutputDirectory};
use crate::interrupt;
use crate::present::profile::{losses, summary};
use crate::session::numbered;
use crate::stderr::{self, tell};
use crate::stdout;

/// Maximum functions to print after sampling.
const SHOWN: usize = 15;
/// Default directory for captures.
const PROFILES: &str = "profiles";

pub(super) fn run(args: &SampleArgs) -> anyhow::Result<ExitStatus> {
    let interrupt = interrupt::poll()?;
    let output = args.output.as_deref().map(Output::begin).transpose()?;
    if args.locks {
        return locks::run(args, output, &interrupt);
    }
    let is_new = output.is_none() && !Path::new(PROFILES).exists();
    let profiles = output.is_none().then(profiles).transpose()?;
    let (capture, left) = take::<Sampler>(args, &interrupt).inspect_err(|_| {
        // A directory with captures stays.
        let _ = is_new.then(|| fs::remove_dir(PROFILES));
    })?;
    let file = match output {
        Some(output) => output.finish(&capture.to_json())?,
        None => keep(&capture, &profiles.expect("without an output, it was opened"))?,
    };
    if !args.how.quiet {
        let table = table(&functions(&capture), SHOWN).render(&Screen::of_stdout());
        let words = format!("{}\n{table}", summary(&capture));
        // Standard output belongs to the command.
        match args.command.is_empty() {
            true => stdout::show(&words)?,
            false => stderr::text(&words),
        }
        losses(&capture);
        tell!(
            "knee: wrote the capture to {}; to see the call tree: knee profile show {}",
            file.display(),
            word(&file)
        );
    }
    left.end(&interrupt)
}

/// Creates the directory for captures, if necessary, and opens it. In the directory of another user, it can be a link of
/// that user.
fn profiles() -> anyhow::Result<OutputDirectory> {
    let dir = Path::new(PROFILES);
    let cannot = || format!("cannot write to the directory {PROFILES}; name another place with -o");
    OwnDirectory::create(dir).with_context(cannot)?;
    OutputDirectory::open(dir).with_context(cannot)
}

/// Writes a capture to a new file in [`PROFILES`].
fn keep(capture: &Capture, profiles: &OutputDirectory) -> anyhow::Result<PathBuf> {
    let mut names = numbered(PROFILES, &capture.machine.started_at, ".json");
    let path = names.find(|file| !file.exists()).expect("some number is unused");
    let name = path.file_name().expect("it is in the directory");
    profiles.write(name, &capture.to_json())?;
    Ok(path)
}
