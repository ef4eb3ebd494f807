//! Options of runs that measure servers.

use std::path::PathBuf;

use knee_results::Mode;

use crate::exit::ensure_usage;
use crate::session::SAMPLES;

/// Refuses options that do not apply to servers.
pub(super) fn check_options(
    plugins: &[PathBuf],
    modes: &[Mode],
    samples: u64,
) -> anyhow::Result<()> {
    ensure_usage!(plugins.is_empty(), "--plugin: measure plug-ins and servers in separate runs");
    ensure_usage!(
        modes.contains(&Mode::Processes),
        "-m threads applies only to testcases; leave out -m for a server"
    );
    ensure_usage!(
        samples == SAMPLES,
        "-s {samples}: a round of a server has one sample; for a longer one, use --interval"
    );
    Ok(())
}
