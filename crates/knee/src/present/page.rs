//! Writing a page.

use std::path::Path;

use knee_report::Page;

use crate::file;
use crate::stderr::tell;
use crate::stdout;

/// Writes a page, and prints its headline; `-` is standard output.
pub(crate) fn write(page: &Page, path: &Path) -> anyhow::Result<()> {
    let html = knee_report::render(page);
    if path == Path::new("-") {
        return stdout::write_with(|out| Ok(out.write_all(html.as_bytes())?));
    }
    file::write(path, html.as_bytes())?;
    tell!("knee: wrote {}: {}", path.display(), knee_report::finding(page));
    Ok(())
}
