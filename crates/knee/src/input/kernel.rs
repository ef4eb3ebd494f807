//! The kernel that guests run.

use std::path::{Path, PathBuf};

use anyhow::Context;
use knee_results::Mode;
use knee_trace::{Archive, Functions, GuestKernel, Kernel};

use crate::stderr::tell;

/// The kernel in the file with this path or of the release with this name; without a name, the running kernel. Fetches
/// a release if necessary. A name without a slash is always a release: otherwise a file of another user in the current
/// directory could take the place of the release.
pub(crate) fn kernel(named: Option<&Path>) -> anyhow::Result<Kernel> {
    let Some(named) = named else { return Ok(Kernel::running()?) };
    let name = named.to_string_lossy();
    if name.contains('/') {
        let is = match named.is_dir() {
            true => "is a directory",
            false if named.exists() => return Ok(Kernel::open(named)?),
            false => "does not exist",
        };
        anyhow::bail!("{name} {is}; name a kernel image, a kernel package, or a release");
    }
    if named.is_file() {
        tell!(
            "knee: --kernel {name} names a Debian release; for the file in this directory, use --kernel \
             ./{name}"
        );
    }
    tell!("knee: looking for the kernel of {name}, and fetching it if necessary");
    archive()?.open(&name).with_context(|| format!("the kernel of {name}"))
}

/// The kernels with these names, as in [`kernel`]; without names, the running kernel.
pub(crate) fn kernels(named: &[PathBuf]) -> anyhow::Result<Vec<GuestKernel>> {
    let linux = |named| Ok(GuestKernel::Linux(kernel(named)?));
    match named {
        [] => Ok(vec![linux(None)?]),
        named => named.iter().map(|path| linux(Some(path))).collect(),
    }
}

/// What the tasks in a guest share.
pub(crate) fn mode_of_tasks(mode: Mode) -> knee_agent::Mode {
    match mode {
        Mode::Threads => knee_agent::Mode::Threads,
        Mode::Processes => knee_agent::Mode::Processes,
    }
}

/// The kernels that can be fetched.
pub(crate) fn archive() -> anyhow::Result<Archive> {
    Ok(Archive::of_user()?.report_to(|message| tell!("knee: {message}")))
}

/// Warns once about symbols or types that the kernel does not provide.
pub(crate) fn warn_of_missing(warned: &mut bool, kernel: &Kernel, functions: &Functions) {
    let missing = functions.missing();
    if !missing.is_empty() && !std::mem::replace(warned, true) {
        let (release, what) = (kernel.release(), missing.join(" and "));
        tell!(
            "knee: Linux {release} does not provide {what}, so names of data may be \
             missing or imprecise"
        );
    }
}
