//! Writes a page to a file or to standard output.

use std::path::Path;

use anyhow::Context;
use knee_host::write_atomically;
use knee_report::Page;

use crate::stderr::tell;
use crate::stdout;

/// Writes a page to `file` and prints its headline. If `file` is `-`, writes the page to standard
/// output and prints no headline.
pub(crate) fn write(page: &Page, file: &Path) -> anyhow::Result<()> {
    let html = knee_report::render(page);
    if file == Path::new("-") {
        return stdout::write_with(|out| Ok(out.write_all(html.as_bytes())?));
    }
    write_atomically(file, html.as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))?;
    tell!("knee: wrote {}: {}", file.display(), knee_report::finding(page));
    Ok(())
}
