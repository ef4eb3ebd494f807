//! Turns a test into a plan that a guest can run.

use knee_commute::Test;
use knee_harness::orders;
use knee_plan::{CALLS, Call, Order, PROCESSES, Plan};
use serde_json::Value;

use crate::arguments::{Unknown, call};
use crate::set_up;

/// The interface that the agent tests.
const INTERFACE: &str = "posix";

/// Returns the plan of a test of the interface `posix`, with every order of its calls or only
/// the first order of each expectation. Fails with the reason why the test cannot be run.
pub fn plan(test: &Test, every_order: bool) -> Result<Plan, Unknown> {
    let of_expectations = orders(test)?;
    if test.interface != INTERFACE {
        return Err(format!("a test of {}; only {INTERFACE} is supported", test.interface));
    }
    let calls = test.calls.iter().map(|made| {
        let call = call(&made.operation, &Value::Object(made.arguments.clone()))?;
        Ok((made.process, call))
    });
    let calls: Vec<(u8, Call)> = calls.collect::<Result<_, Unknown>>()?;
    if calls.len() > CALLS {
        return Err(format!("more than {CALLS} calls"));
    }
    let stats = |(_, call): &(u8, Call)| matches!(call, Call::Stat { .. } | Call::Fstat { .. });
    let steps = set_up::steps(&test.setup, calls.iter().any(stats))?;
    let mut orders = Vec::new();
    for (nr, (expect, own)) in test.expect.iter().zip(of_expectations).enumerate() {
        let of_expect = match every_order && expect.is_of_any_order() {
            true => permutations(calls.len()),
            false => vec![own],
        };
        orders.extend(of_expect.into_iter().map(|calls| Order { expect: nr, calls }));
    }
    let plan = Plan { steps, calls, orders };
    if plan.processes() > PROCESSES {
        return Err(format!("more than {PROCESSES} processes"));
    }
    Ok(plan)
}

/// Returns all permutations of the numbers below `calls`.
fn permutations(calls: usize) -> Vec<Vec<usize>> {
    (0..calls).fold(vec![Vec::new()], |orders, _| {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            let left = (0..calls).filter(|nr| !order.contains(nr)).collect::<Vec<_>>();
            left.into_iter().map(move |nr| [&order[..], &[nr]].concat())
        };
        orders.iter().flat_map(longer).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn test(setup: Value, calls: Value) -> Test {
        serde_json::from_value(json!({
            "schema": 1, "id": "x/0.0", "interface": "posix", "commute": true,
            "condition": [], "pattern": [], "setup": setup, "calls": calls, "expect": [],
        }))
        .unwrap()
    }

    fn call(operation: &str, arguments: Value) -> Value {
        json!([{ "label": "a", "operation": operation, "process": 1, "thread": 0, "cpu": 0,
                 "arguments": arguments }])
    }

    #[test]
    fn an_error_names_the_unknown_or_missing_word() {
        let error = |setup, calls| plan(&test(setup, calls), false).unwrap_err();
        let none = || json!([]);
        assert_eq!(error(none(), call("fork", json!({}))), "unknown operation fork");
        assert_eq!(error(json!([{ "do": "dance" }]), none()), "unknown step dance");
        assert_eq!(error(none(), call("stat", json!({}))), "name is missing");
        let many = call("stat", json!({ "name": "filename8" }));
        assert_eq!(error(none(), many), "filename8: more than 8 objects of one kind");
    }

    proptest! {
        #[test]
        fn any_set_up_and_any_arguments_make_a_plan_or_an_error(
            what in "(file|pipe|open|occupy|map|leave)",
            field in "(inode|names|pages|pipe|data|readers|fd|fds|off|va|end|links)",
            value in prop_oneof![
                Just(Value::Null),
                any::<i64>().prop_map(Value::from),
                any::<bool>().prop_map(Value::from),
                "\\PC{0,12}".prop_map(Value::from),
                proptest::collection::vec(any::<i64>(), 0..20).prop_map(Value::from),
            ],
            operation in "(open|lseek|pwrite|mmap|memread)",
        ) {
            let step = json!({
                "do": what, "inode": "inode0", "names": ["filename0"], "pages": [null], "links": 1,
                "pipe": "pipe0", "data": [], "readers": 1, "writers": 1, "fd": 3, "fds": [1],
                "off": 0, "va": "va0", "end": "read", "datum": "datum0",
            });
            let mut step = step;
            step[&field] = value.clone();
            let call = call(&operation, json!({ field: value }));
            let _ = plan(&test(json!([step]), call), true);
        }
    }
}
