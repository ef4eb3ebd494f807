//! `knee profile --locks`.

use knee_host::Interrupt;
use knee_host::text::escape_json;
use knee_profile::locks::table;
use knee_profile::sampling::LockSampler;

use super::args::SampleArgs;
use super::recording::take;
use crate::exit::ExitStatus;
use crate::file::Output;
use crate::present::profile::wait_losses;
use crate::stderr::tell;
use crate::stdout;

/// Maximum lock sites to print.
const SHOWN: usize = 15;

pub(super) fn run(
    args: &SampleArgs,
    output: Option<Output>,
    interrupt: &Interrupt,
) -> anyhow::Result<ExitStatus> {
    let (waits, left) = take::<LockSampler>(args, interrupt)?;
    let json = serde_json::to_string_pretty(&waits)? + "\n";
    let file = output.map(|output| output.finish(escape_json(&json).as_bytes())).transpose()?;
    if args.json {
        stdout::print_json_text(&json)?;
    } else if !args.how.quiet {
        stdout::show_table(&table(&waits, SHOWN))?;
    }
    if !args.how.quiet {
        wait_losses(&waits);
        if let Some(file) = &file {
            tell!("knee: lock waits are in {}", file.display());
        }
    }
    left.end(interrupt)
}
