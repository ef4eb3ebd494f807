//! The kernel that guests run.

use std::path::Path;

use anyhow::Context;
use knee_trace::{Archive, Functions, Kernel};

use crate::stderr::tell;

/// The kernel in the file or of the release with this name; without a name, the running kernel. Fetches
/// a release if necessary.
pub(crate) fn kernel(named: Option<&Path>) -> anyhow::Result<Kernel> {
    let Some(named) = named else { return Ok(Kernel::running()?) };
    // A directory with the name of a release may be the record of its check.
    if named.exists() && !named.is_dir() {
        return Ok(Kernel::open(named)?);
    }
    let name = named.to_string_lossy();
    if name.contains('/') {
        let is = if named.is_dir() { "is a directory" } else { "does not exist" };
        anyhow::bail!("{name} {is}; name a kernel image, a kernel package, or a release");
    }
    tell!("knee: looking for the kernel of {name}, and fetching it if necessary");
    archive()?.open(&name).with_context(|| format!("the kernel of {name}"))
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
