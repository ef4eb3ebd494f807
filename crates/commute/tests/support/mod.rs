//! What is known of operations, in words.

use knee_commute::{Difference, Interface, Limits, State, conditions, explore};

/// When the named operations commute, and when not.
pub(crate) fn told<S: State>(interface: &Interface<S>, names: &[&str]) -> String {
    let operations: Vec<_> = names.iter().map(|name| interface.operation(name).unwrap()).collect();
    let exploration = explore(interface, &operations, &Limits::default()).unwrap();
    let conditions = conditions(&exploration);
    let mut text = String::new();
    for condition in &conditions.commute {
        text += &format!("commute: {}\n", condition.show());
    }
    for (condition, difference) in &conditions.differ {
        let what = match difference {
            Difference::Result { call, seen: [one, other], orders: [first, second] } => {
                format!("{call} sees {one} in {first}, {other} in {second}")
            }
            Difference::State { .. } => "another state is left".to_owned(),
        };
        text += &format!("differ: {}: {what}\n", condition.show());
    }
    text
}
