//! Files that commands write.

use std::path::Path;

use anyhow::Context;
use knee_host::write_atomically;

/// Writes a whole file. It appears under its name only when it is complete.
pub(crate) fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    write_atomically(path, content).with_context(|| format!("cannot write {}", path.display()))
}
