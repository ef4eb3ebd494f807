//! Fields of cases that records from before 2026-11-23 do not contain, because knee then looked
//! them up.

use knee_results::Family;
use serde_json::Value;

use super::RunRecord;

/// Prefix of the testcases whose helper runs on the next CPU by default.
const PAIRED: &str = "tcp_loopback";

/// Fills in the fields of `run` that its text `json` does not contain.
pub(super) fn complete(run: &mut RunRecord, json: &Value) {
    for (nr, case) in run.cases.iter_mut().enumerate() {
        let lacks = |field: &str| json["cases"][nr].get(field).is_none();
        if lacks("is_threads_only") {
            case.is_threads_only =
                case.is_built_in() && matches!(case.family, Family::Sync | Family::Vm);
        }
        if lacks("cpus_per_task") && case.is_built_in() {
            let helper = case.id.param("helper");
            let is_paired = helper.is_none() && case.id.testcase.starts_with(PAIRED);
            case.cpus_per_task = if is_paired || helper == Some("next-cpu") { 2 } else { 1 };
        }
    }
}
