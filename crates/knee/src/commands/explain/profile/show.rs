//! `knee profile show`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use knee_host::shell::word;
use knee_host::text::{Screen, plain};
use knee_profile::import;
use knee_profile::locks::LockWaits;
use knee_profile::view::flame::flame;
use knee_profile::view::folded::{Counted, FoldedOptions, folded};
use knee_profile::view::functions::{functions, table};
use knee_profile::view::pprof::pprof;
use knee_profile::view::speedscope::speedscope;
use knee_profile::view::tree::{LEAST_SHARE, Root, tree};

use crate::exit::{ExitStatus, bail_usage, usage};
use crate::filter::Content;
use crate::present::profile::{lock_waits, losses, summary, wait_losses};
use crate::{file, stdout};

/// Show a capture as a call tree, a flame graph, a table or a file for other tools
///
/// The input is a capture of `knee profile`, a perf.data file of `perf record`, the text of `perf
/// script`, or folded stacks. For the output of `knee profile --locks`, knee prints a table.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee profile show last.json                           the call tree
  knee profile show last.json --root do_munmap          callees of a function
  knee profile show last.json --callers _raw_spin_lock  callers of a function
  knee profile show last.json --format functions
  knee profile show last.json --format flame -o last.svg  for a browser
  knee profile show last.json --format folded | grep mmap
  knee profile show last.json --format speedscope -o last.speedscope.json
  knee profile show last.json --format pprof -o last.pb.gz && go tool pprof -top last.pb.gz
  perf script | knee profile show -                     a perf recording")]
pub(super) struct Args {
    /// Capture file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Output format
    #[arg(long, value_enum, default_value = "tree")]
    format: Format,

    /// Function to use as the root of the tree, with all of its call sites merged
    #[arg(long, value_name = "FUNCTION", conflicts_with = "callers")]
    root: Option<String>,

    /// Function whose callers the tree shows
    #[arg(long, value_name = "FUNCTION")]
    callers: Option<String>,

    /// Count nanoseconds or cycles instead of samples in folded stacks
    #[arg(long)]
    weight: bool,

    /// Annotate functions in folded stacks for flame graph tools: `_[k]` marks kernel
    /// functions, `_[i]` inlined functions
    #[arg(long)]
    annotate: bool,

    /// Smallest share to show in the tree
    #[arg(long, value_name = "P%", default_value_t = format!("{}%", 100.0 * LEAST_SHARE),
          value_parser = share)]
    least: String,

    /// Output file; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Call tree as text: function(share samples/all)
    Tree,
    /// Functions by self and inclusive time
    Functions,
    /// Flame graph, an SVG for a browser, with search and zoom
    Flame,
    /// Folded stacks, one per line, for flame graph tools and grep
    Folded,
    /// File for speedscope
    Speedscope,
    /// File for pprof
    Pprof,
}

fn share(text: &str) -> Result<String, String> {
    crate::args::percentage(text).map(|_| text.to_owned())
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if args.format != Format::Tree && (args.root.is_some() || args.callers.is_some()) {
        bail_usage!("--root and --callers require --format tree");
    }
    if args.format != Format::Folded && (args.weight || args.annotate) {
        bail_usage!("--weight and --annotate require --format folded");
    }
    let capture = match import::open(&args.file) {
        Ok(capture) => capture,
        Err(error) => {
            return match lock_waits(&args.file)? {
                Some(waits) => show_waits(args, &waits),
                None => Err(error.into()),
            };
        }
    };
    let root = match (&args.root, &args.callers) {
        (Some(name), _) => Root::Function(name),
        (_, Some(name)) => Root::Callers(name),
        _ => Root::All,
    };
    losses(&capture);
    let text = match args.format {
        Format::Folded => {
            let counted = if args.weight { Counted::Weight } else { Counted::Samples };
            let options = FoldedOptions { annotate: args.annotate, counted };
            return write_lines(args, Content::Text, |out| folded(&capture, options, out));
        }
        Format::Speedscope => {
            return write_lines(args, Content::Json, |out| speedscope(&capture, out));
        }
        Format::Flame => {
            let graph = flame(&capture);
            return write_lines(args, Content::Text, |out| out.write_all(graph.as_bytes()));
        }
        Format::Pprof => return write_binary(args, &pprof(&capture)),
        Format::Functions => {
            let table = table(&functions(&capture), usize::MAX).render(&screen(args));
            format!("{}\n{table}", summary(&capture))
        }
        Format::Tree => {
            let least = crate::args::percentage(&args.least).map_err(usage)?;
            let tree = tree(&capture, root).with_context(|| {
                format!(
                    "no sample contains the function {:?}; to list all functions: knee profile \
                     show {} --format functions",
                    args.root.as_ref().or(args.callers.as_ref()).map_or("", String::as_str),
                    word(&args.file)
                )
            })?;
            tree.text(least)
        }
    };
    write_text(args, &text)
}

/// Shows the output of `knee profile --locks`.
fn show_waits(args: &Args, waits: &LockWaits) -> anyhow::Result<ExitStatus> {
    if args.format != Format::Tree || args.root.is_some() || args.callers.is_some() {
        bail_usage!(
            "lock waits are always printed as a table; omit --format, --root and --callers"
        );
    }
    wait_losses(waits);
    let table = knee_profile::locks::table(waits, usize::MAX).render(&screen(args));
    write_text(args, &table)
}

/// Where `--output` goes.
fn screen(args: &Args) -> Screen {
    if is_stdout(args) { Screen::of_stdout() } else { Screen::UNLIMITED }
}

fn is_stdout(args: &Args) -> bool {
    args.output == Path::new("-")
}

/// Writes text for people, wrapped to fit the terminal.
fn write_text(args: &Args, text: &str) -> anyhow::Result<ExitStatus> {
    match is_stdout(args) {
        true => stdout::show(text)?,
        false => file::write(&args.output, plain(text).as_bytes())?,
    }
    Ok(ExitStatus::Done)
}

/// Writes text for other programs, line by line.
fn write_lines(
    args: &Args,
    content: Content,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<ExitStatus> {
    match (is_stdout(args), content) {
        (true, _) => stdout::write_with(content, |out| Ok(write(out)?))?,
        (false, Content::Json) => file::write_with(&args.output, content, write)?,
        (false, _) => file::write_with(&args.output, Content::Plain, write)?,
    }
    Ok(ExitStatus::Done)
}

fn write_binary(args: &Args, bytes: &[u8]) -> anyhow::Result<ExitStatus> {
    match is_stdout(args) {
        true => stdout::print_binary(bytes)?,
        false => file::write(&args.output, bytes)?,
    }
    Ok(ExitStatus::Done)
}
