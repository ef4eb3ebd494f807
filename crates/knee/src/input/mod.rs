//! The input of commands: results of any kind, records of checks, JSON documents, kernels, the QEMU for guests,
//! machines, programs.

#[cfg(feature = "prove")]
pub(crate) mod checks;
pub(crate) mod document;
#[cfg(feature = "prove")]
pub(crate) mod emulator;
#[cfg(feature = "prove")]
pub(crate) mod kernel;
#[cfg(feature = "explain")]
pub(crate) mod machine;
#[cfg(feature = "prove")]
pub(crate) mod program;
#[cfg(feature = "prove")]
pub(crate) mod program_host;

use std::path::Path;

use knee_results::{Kind, Results};
use knee_run::record::Record;
use knee_testcases::CATALOGUE;

/// Results of any kind, and the record if they come from one.
pub(crate) struct Read {
    pub(crate) results: Results,
    pub(crate) record: Option<Record>,
}

/// Reads results of any kind. Adds what knee knows about its own testcases to the results of other
/// tools.
pub(crate) fn read(path: &Path) -> anyhow::Result<Read> {
    if Kind::of(path)? == Some(Kind::Record) {
        let record = Record::open(path)?;
        return Ok(Read { results: record.results(path)?, record: Some(record) });
    }
    let mut results = Results::read(path)?;
    results.describe(|id| {
        let testcase = CATALOGUE.find(&id.testcase)?;
        Some((testcase.family, testcase.description))
    });
    Ok(Read { results, record: None })
}
