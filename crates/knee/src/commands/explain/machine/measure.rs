//! `knee machine measure`: the figures of this machine.

use std::path::{Path, PathBuf};

use anyhow::Context;
use knee_host::CpuList;
use knee_host::environment::Environment;
use knee_host::number::percent;
use knee_host::shell::word;
use knee_predict::machine::check_name;
use knee_predict::measure::{Measured, Plan, Step, measure};
use knee_run::quiet::OtherWork;

use crate::args::patience::WaitQuietArgs;
use crate::args::seconds;
use crate::exit::ExitStatus;
use crate::file::Output;
use crate::progress::{Amount, Progress};
use crate::session::{QuietWait, topology};
use crate::stderr::tell;
use crate::{interrupt, present, stdout};

/// Measure what it costs the CPUs of this machine to communicate
///
/// The result is a file that `knee machine show` and `knee report` read. Other programs disturb the
/// measurement: knee says so if they used more than 2% of the CPUs.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee machine measure                       into machine.toml, in about a minute
  knee machine measure --cpus 0-15 -o -      part of the machine, to standard output
  knee machine measure --wait-quiet          wait until other programs rest")]
pub(crate) struct Args {
    /// File to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "machine.toml")]
    output: PathBuf,

    /// Name of the machine [default: its host name]
    #[arg(long, value_name = "NAME", value_parser = machine_name)]
    name: Option<String>,

    /// CPUs to use, such as 0-3,8 [default: all]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,

    /// Seconds for the transfers between all pairs of CPUs. A pair gets at most 0.1 s, so few CPUs
    /// take less
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    seconds: f64,

    #[command(flatten)]
    until_quiet: WaitQuietArgs,

    /// Suppress the progress and the table
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let is_stdout = args.output == Path::new("-");
    let output = (!is_stdout).then(|| Output::begin(&args.output)).transpose()?;
    let topology = topology(args.cpus.as_ref())?;
    let cpus: Vec<u32> = topology.usable().iter().collect();
    let limit = args.until_quiet.limit();
    if limit.is_some() {
        let interrupt = interrupt::poll()?;
        let is_silent = args.quiet;
        QuietWait { limit, is_silent, interrupt: &interrupt }.wait(&cpus)?;
    }
    let here = Environment::capture(Path::new("/tmp"));
    let plan = Plan {
        topology: &topology,
        seconds: args.seconds,
        name: args.name.clone().unwrap_or_else(|| as_name(&here.hostname)),
        title: here.cpu_model.clone().unwrap_or_else(|| here.architecture.clone()),
        source: format!(
            "knee {} machine measure, {}: {}",
            here.knee_version,
            here.started_at,
            here.summary()
        ),
    };
    let mut progress = Progress::new(args.quiet);
    let mut show = |Step { done, of, about }: Step| {
        progress.show(&Amount { done, of, unit: "measurements" }, || about.to_owned());
    };
    let mut measured = None;
    let others = OtherWork::during(&cpus, || measured = Some(measure(&plan, &mut show)));
    // Without accounts of CPU time, nothing has run.
    let measured = measured.unwrap_or_else(|| measure(&plan, &mut show));
    drop(progress);
    let measured = measured.context("cannot measure this machine")?;
    let Measured { machine, missing } = &measured;
    let text = machine.to_toml(&comment(missing));
    let written = match output {
        None => {
            stdout::print(&text)?;
            None
        }
        Some(output) => Some(output.finish(text.as_bytes())?),
    };
    if let (Some(file), false) = (&written, args.quiet) {
        present::machine::show(machine)?;
        tell!(
            "knee: wrote {}; for a page with a map of the CPUs: knee report {}",
            file.display(),
            word(file)
        );
    }
    if !args.quiet {
        for what in missing {
            tell!("knee: not measured: {what}");
        }
    }
    if let Some(others) = others.filter(|work| !work.is_quiet()) {
        tell!(
            "knee: other work used {} of the CPUs meanwhile, so these figures may be wrong; stop it, or \
             measure again with --wait-quiet",
            percent(others.share)
        );
    }
    Ok(ExitStatus::Done)
}

fn machine_name(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned())
}

/// The comment at the beginning of the file.
fn comment(missing: &[String]) -> String {
    let missing: String = missing.iter().map(|what| format!("\nNot measured: {what}.")).collect();
    format!(
        "Written by knee machine measure. The range of a figure contains the middle 80%.{missing}"
    )
}

/// The host name as the name of a machine.
fn as_name(hostname: &str) -> String {
    let valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String =
        hostname.chars().map(|c| if valid(c) { c.to_ascii_lowercase() } else { '-' }).collect();
    if name.is_empty() { "machine".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_becomes_the_name_of_a_machine() {
        assert_eq!(as_name("Host_1.example.org"), "host_1.example.org");
        assert_eq!(as_name("größe 1"), "gr--e-1");
        assert_eq!(as_name(""), "machine");
    }
}
