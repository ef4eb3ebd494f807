//! `knee compare`: compare runs, or files of numbers.

mod args;
mod human;
mod ministat;
mod numbers;
mod records;
mod view;

pub(crate) use self::args::Args;

use anyhow::bail;
use knee_host::text::Screen;
use knee_results::Kind;
use knee_stats::ministat::Reader;

use self::args::Format;
use self::view::{Plot, View};
use crate::exit::{ExitStatus, bail_usage, ensure_usage};
use crate::stdout;

/// Width of a plot when standard output is not a terminal, as in ministat.
const WIDTH: u16 = 74;
/// Total width of the left and right border of a plot, in columns.
const BORDERS: u16 = 2;

pub(crate) fn run(args: Args) -> anyhow::Result<ExitStatus> {
    let kinds = args.files.iter().map(|file| Kind::of(file)).collect::<Result<Vec<_>, _>>()?;
    let stranger = args.files.iter().zip(&kinds).find(|(_, kind)| kind.is_none());
    match (kinds.iter().flatten().next(), stranger) {
        (None, _) => compare_numbers(&args),
        (Some(_), None) => records::run(&args),
        (Some(_), Some((file, _))) if !file.exists() => {
            bail!("{}: no such file or directory", file.display())
        }
        (Some(_), Some((dir, _))) if dir.is_dir() => {
            bail!("{} contains no results of knee run or will-it-scale", dir.display())
        }
        (Some(_), Some((file, _))) => bail_usage!(
            "{}: this is neither a record of knee run nor output of will-it-scale, so knee cannot \
             compare it with a run; compare runs with runs, and files of numbers with files of \
             numbers",
            file.display()
        ),
    }
}

fn compare_numbers(args: &Args) -> anyhow::Result<ExitStatus> {
    let options = &args.numbers;
    let format = args.format();
    if let Some(option) = args.records.given() {
        bail_usage!("{option} applies only to runs, but the arguments are files of numbers");
    }
    ensure_usage!(
        !format.is_for_runs_only(),
        "files of numbers support only --format human and --format ministat"
    );
    let delimiters = options.delimiters.clone().unwrap_or_else(|| " \t".into());
    ensure_usage!(!delimiters.is_empty(), "--delimiters requires at least one character");
    let reader = Reader {
        column: options.column.unwrap_or(1),
        delimiters: delimiters.as_encoded_bytes(),
        longest_line: (format == Format::Ministat).then_some(Reader::MINISTAT_BUFFER),
        takes_groups: format != Format::Ministat,
    };
    let sets = numbers::read_all(&args.files, &reader)?;
    let plot = (!options.summary && !options.no_plot).then(|| Plot {
        width: options.width.or_else(terminal_width).unwrap_or(WIDTH),
        separate: options.separate,
    });
    let view = View {
        confidence: args.confidence.get(),
        comparisons: !options.summary,
        head: !options.quiet,
        plot,
        screen: Screen::of_stdout(),
    };
    match format {
        Format::Ministat => stdout::print(&ministat::render(&sets, &view)?)?,
        _ => stdout::print(&human::render(&sets, &view)?)?,
    }
    Ok(ExitStatus::Done)
}

/// The width of a plot on the terminal; `None` if standard output is not a terminal.
fn terminal_width() -> Option<u16> {
    let stdout = std::io::stdout();
    if !rustix::termios::isatty(&stdout) {
        return None;
    }
    // ministat uses this variable as the width of the plot without its borders.
    let variable = std::env::var("COLUMNS").ok().filter(|columns| !columns.is_empty());
    if let Some(columns) = variable {
        return columns.parse().ok();
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.saturating_sub(BORDERS))
}
