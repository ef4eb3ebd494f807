//! What records of before 2026-11-23 do not say of their cases, because the knee that wrote them
//! looked it up.

use knee_results::Family;
use serde_json::Value;

use super::RunRecord;

/// The testcases whose helper is on the next CPU unless their name says otherwise.
const PAIRED: &str = "tcp_loopback";

/// Fills in what `json`, the text of `run`, leaves out.
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
