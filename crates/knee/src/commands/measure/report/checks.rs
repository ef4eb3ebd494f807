//! Records of `knee commute check` on the page.

use std::path::{Path, PathBuf};

use knee_report::Shared;
use knee_trace::findings::{Check, FindingsError, Shard, is_record, read_check};

use crate::input::checks;
use crate::present::commute::shared;

/// Records of checks. Shards of one check become one entry on the page.
#[derive(Default)]
pub(super) struct Checks(Vec<Shards>);

impl Checks {
    /// Adds the records that `path` names. Returns `false` if it names something else.
    pub(super) fn add(&mut self, path: &Path) -> Result<bool, FindingsError> {
        let records = checks::directories(path);
        let are_records = records.iter().all(|record| is_record(record));
        if are_records {
            records.into_iter().try_for_each(|record| Shards::add(&mut self.0, record))?;
        }
        Ok(are_records)
    }

    /// What the checks found.
    pub(super) fn read(&self) -> anyhow::Result<Vec<Shared>> {
        self.0.iter().map(|check| shared::record(&checks::open(&check.records)?)).collect()
    }
}

/// Records that are shards of one check.
struct Shards {
    check: Check,
    shards: Vec<Shard>,
    records: Vec<PathBuf>,
}

impl Shards {
    /// Adds a record to a group of shards of the same check. Starts a new group if every group
    /// already has this shard.
    fn add(all: &mut Vec<Shards>, record: PathBuf) -> Result<(), FindingsError> {
        let check = read_check(&record)?;
        let fits = |known: &&mut Shards| {
            known.check.difference(&check).is_none() && !known.shards.contains(&check.shard)
        };
        match all.iter_mut().find(fits) {
            Some(known) => {
                known.shards.push(check.shard);
                known.records.push(record);
            }
            None => all.push(Shards { shards: vec![check.shard], check, records: vec![record] }),
        }
        Ok(())
    }
}
