//! Fields of cases that records from before 2026-11-23 do not contain, because knee then looked
//! them up.

use knee_results::Family;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::RunRecord;

/// Prefix of the testcases whose helper runs on the next CPU by default.
const PAIRED: &str = "tcp_loopback";

/// Which of the fields a text contains.
#[derive(Deserialize)]
struct Text {
    cases: Vec<Fields>,
}

#[derive(Deserialize)]
struct Fields {
    is_threads_only: Option<IgnoredAny>,
    cpus_per_task: Option<IgnoredAny>,
}

/// Fills in the fields of `run` that its text `json` does not contain.
pub(super) fn complete(run: &mut RunRecord, json: &[u8]) -> serde_json::Result<()> {
    let Text { cases } = serde_json::from_slice(json)?;
    for (case, fields) in run.cases.iter_mut().zip(cases) {
        if fields.is_threads_only.is_none() {
            case.is_threads_only =
                case.is_built_in() && matches!(case.family, Family::Sync | Family::Vm);
        }
        if fields.cpus_per_task.is_none() && case.is_built_in() {
            let helper = case.id.param("helper");
            let is_paired = helper.is_none() && case.id.testcase.starts_with(PAIRED);
            case.cpus_per_task = if is_paired || helper == Some("next-cpu") { 2 } else { 1 };
        }
    }
    Ok(())
}
