//! Records of `knee commute check`, in a knee that was built without this command.

use std::path::Path;

use anyhow::bail;
use knee_report::Shared;

use crate::parts::missing;

/// The file in the record of a check that describes it.
const CHECK_FILE: &str = "check.json";

/// No checks.
#[derive(Default)]
pub(super) struct Checks;

impl Checks {
    /// Refuses the record of a check.
    pub(super) fn add(&mut self, path: &Path) -> anyhow::Result<bool> {
        match missing("commute") {
            Some(missing) if path.join(CHECK_FILE).is_file() => {
                bail!("cannot show the commute check in {}: {missing}", path.display())
            }
            _ => Ok(false),
        }
    }

    /// Nothing.
    pub(super) fn read(&self) -> anyhow::Result<Vec<Shared>> {
        Ok(Vec::new())
    }
}
