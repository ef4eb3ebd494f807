//! Writes a page to a file or to standard output.

use std::path::Path;

use knee_report::Page;

use crate::stderr::tell;
use crate::{file, stdout};

/// Writes a page to `path` and prints its headline. If `path` is `-`, writes the page to standard
/// output and prints no headline.
pub(crate) fn write(page: &Page, path: &Path) -> anyhow::Result<()> {
    let html = knee_report::render(page);
    if path == Path::new("-") {
        return stdout::print(&html);
    }
    file::write(path, html.as_bytes())?;
    tell!("knee: wrote {}: {}", path.display(), knee_report::finding(page));
    Ok(())
}
