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
use crate::file::Output;
use crate::interrupt;
use crate::present::profile::{losses, summary};
use crate::session::{check_default, numbered};
use crate::stderr::{self, tell};
use crate::{file, stdout};

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
    if output.is_none() {
        check_default(PROFILES)?;
        OwnDirectory::create(Path::new(PROFILES))
            .with_context(|| format!("cannot create the directory {PROFILES}; use -o FILE"))?;
    }
    let (capture, left) = take::<Sampler>(args, &interrupt).inspect_err(|_| {
        // A directory with captures stays.
        let _ = is_new.then(|| fs::remove_dir(PROFILES));
    })?;
    let file = keep(&capture, output)?;
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

/// Writes a capture to the requested file, or to a new file in `PROFILES`.
fn keep(capture: &Capture, output: Option<Output>) -> anyhow::Result<PathBuf> {
    let json = capture.to_json();
    match output {
        Some(output) => output.finish(&json),
        None => {
            let mut names = numbered(PROFILES, &capture.machine.started_at, ".json");
            let path = names.find(|file| !file.exists()).expect("some number is unused");
            // Another user may have made a link since.
            check_default(PROFILES)?;
            file::write(&path, &json)?;
            Ok(path)
        }
    }
}
