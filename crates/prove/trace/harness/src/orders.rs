//! The orders in which the calls of a test are made.

use knee_commute::{TEST_SCHEMA, Test};

/// Returns the order of calls that each expectation of a test describes, as indices of the calls.
///
/// # Errors
/// The reason why the test cannot be run: its schema is unknown, or an order contains a call that
/// the test does not have.
pub fn orders(test: &Test) -> Result<Vec<Vec<usize>>, String> {
    if test.schema != TEST_SCHEMA {
        return Err(format!("the test has an unknown schema, {}", test.schema));
    }
    let orders = test.expect.iter().map(|expect| expect.calls(test.calls.len()));
    let orders: Option<_> = orders.collect();
    orders.ok_or_else(|| "an order contains a call that the test does not have".to_owned())
}
