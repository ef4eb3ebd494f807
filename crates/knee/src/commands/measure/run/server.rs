//! Servers as testcases: built-in ones, and those that a file describes.

use std::path::{Path, PathBuf};

use anyhow::Context;
use knee_host::RegularFile;
use knee_results::Mode;
use knee_run::plan::Case;
use knee_run::server::Server;
use knee_testcases::BuiltInServer;

use crate::args::existing;
use crate::exit::{ensure_usage, usage};
use crate::session::SAMPLES;

/// The largest description that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// The case of a built-in server. Its description has no directory, so the current one takes its place.
pub(super) fn built_in(server: &BuiltInServer) -> anyhow::Result<Case> {
    let here = existing("the current directory", Path::new("."))?;
    Ok(Case::server(server.parsed(), here))
}

/// The case that the file `word` describes.
pub(super) fn described(word: &str) -> anyhow::Result<Case> {
    let file = existing("the description", Path::new(word))?;
    let text = RegularFile::at(&file).at_most(LARGEST).read_to_string();
    let text = text.with_context(|| format!("cannot read {word}"))?;
    let server = Server::parse(&text).map_err(|error| usage(format!("{word}: {error}")))?;
    let here = file.parent().unwrap_or(Path::new("/"));
    Ok(Case::server(server, here.to_owned()))
}

/// Refuses options that do not apply to servers.
pub(super) fn check_options(
    plugins: &[PathBuf],
    modes: &[Mode],
    samples: u64,
) -> anyhow::Result<()> {
    ensure_usage!(plugins.is_empty(), "--plugin: measure plug-ins and servers in separate runs");
    ensure_usage!(
        modes.contains(&Mode::Processes),
        "-m threads: a server consists of processes; leave out -m"
    );
    ensure_usage!(
        samples == SAMPLES,
        "-s {samples}: a round of a server has one sample; for a longer one, use --interval"
    );
    Ok(())
}
