//! Captures and lock waits of `knee profile`, and machines, in a knee that was built without these commands.

use std::path::Path;

use anyhow::bail;
use knee_host::RegularFile;
use knee_host::json::has_fields;
use knee_report::Page;

use crate::parts::missing;

/// The fields by which to recognise a capture, and lock waits.
const FIELDS: [[&str; 2]; 2] = [["stacks", "functions"], ["sites", "losses"]];

/// No profiles.
#[derive(Default)]
pub(super) struct Profiles;

impl Profiles {
    /// Refuses a capture, and lock waits.
    pub(super) fn add(&mut self, path: &Path) -> anyhow::Result<bool> {
        let Some(missing) = missing("profile") else { return Ok(false) };
        let text = RegularFile::at(path).read()?;
        if FIELDS.iter().any(|fields| has_fields(&text, fields)) {
            bail!("cannot show the profile in {}: {missing}", path.display())
        }
        Ok(false)
    }

    /// Adds nothing.
    pub(super) fn put(&self, _: &mut Page) -> anyhow::Result<()> {
        Ok(())
    }
}

/// No machines.
#[derive(Default)]
pub(super) struct Machines;

impl Machines {
    /// Refuses a machine.
    pub(super) fn add(&mut self, path: &Path) -> anyhow::Result<bool> {
        match missing("machine").filter(|_| path.extension().is_some_and(|end| end == "toml")) {
            Some(missing) => bail!("cannot show the machine in {}: {missing}", path.display()),
            None => Ok(false),
        }
    }

    /// Adds nothing.
    pub(super) fn put(self, _: &mut Page) {}
}
