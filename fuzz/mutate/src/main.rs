//! Runs knee on mutated input files. Whatever a file contains, knee accepts or refuses it, with a documented
//! exit status and within limits of time and memory.
//!
//! ```text
//! inputs, recording ─▶ readers ─▶ trial ─ mutation, process ─▶ fault ─▶ finding, summary
//! ```
//!
//! The fuzz targets beside this program cover more code in less time, but call the readers directly. This
//! program runs the real binary, with all of its commands and output formats.

mod campaign;
mod fault;
mod finding;
mod inputs;
mod mutation;
mod options;
mod process;
mod random;
mod readers;
mod recording;
mod summary;
mod trial;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use knee_host::Interrupt;
use knee_host::text::Screen;
use knee_host::workdir::WorkDir;

use crate::campaign::Campaign;
use crate::inputs::Inputs;
use crate::options::{HELP, Options};
use crate::process::limit_children;
use crate::readers::{Reader, readers};
use crate::trial::{Places, Trial};

/// A directory on tmpfs: files on a disk would take longer than knee.
const MEMORY: &str = "/dev/shm";
const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn main() -> ExitCode {
    match run() {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("mutate: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn run() -> anyhow::Result<u8> {
    let interrupt = Interrupt::install().context("cannot watch for signals")?;
    let Some(mut options) = Options::parse(std::env::args().skip(1))? else {
        anstream::print!("{HELP}");
        return Ok(0);
    };
    let knee = options.knee.display().to_string();
    options.knee = options.knee.canonicalize().with_context(|| {
        format!("{knee}: build knee with cargo build --release, or name another one with --knee")
    })?;
    // A seed keeps its records, so that its runs can be repeated.
    let fuzz = Path::new(FUZZ).canonicalize()?;
    let recorded = fuzz.join(format!("target/mutate/{}", options.seed));
    recording::record(&options.knee, &recorded)?;
    if let Some(signal) = interrupt.take() {
        fs::remove_dir_all(&recorded)?;
        return Ok(128 + signal as u8);
    }
    let mut readers = selected(readers(&Inputs::new(recorded))?, options.only.as_deref())?;
    let artifacts = fuzz.join("artifacts/mutate");
    let mut work = WorkDir::create(Path::new(MEMORY)).context("cannot create a work directory")?;
    let places = (0..options.jobs).map(|_| Places::create(work.begin_round()?, &readers));
    let places = places.collect::<anyhow::Result<Vec<_>>>()?;
    limit_children().context("cannot limit resources")?;
    for reader in &mut readers {
        let directory = places[0].of(reader);
        reader.prefer(|reader, original| {
            Trial::of_original(reader, original).is_accepted(&options.knee, &directory)
        })?;
    }
    if let Some(run) = options.run {
        let fault = campaign::repeat(&options, &readers, run, &places[0], &artifacts)?;
        return Ok(u8::from(fault.is_some()));
    }
    let ended = Campaign::new(&options, &readers, &artifacts).run(&places, &interrupt);
    anstream::print!("seed {}\n{}", options.seed, ended.summary.text(&Screen::of_stdout()));
    if let Some(error) = ended.error {
        return Err(error);
    }
    Ok(match ended.signal {
        Some(signal) => {
            eprintln!("mutate: interrupted by signal {signal}");
            128 + signal as u8
        }
        None => u8::from(ended.summary.faults() > 0),
    })
}

/// All readers, or the one with this name.
fn selected(mut readers: Vec<Reader>, only: Option<&str>) -> anyhow::Result<Vec<Reader>> {
    let Some(only) = only else { return Ok(readers) };
    let names: Vec<&str> = readers.iter().map(|reader| reader.name).collect();
    if !names.contains(&only) {
        bail!("no reader is named {only}; the readers are {}", names.join(", "));
    }
    readers.retain(|reader| reader.name == only);
    Ok(readers)
}
