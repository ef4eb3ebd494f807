//! Writes, as text, the conditions under which operations commute.

use knee_commute::{Difference, Interface, Limits, State, call_label, conditions, explore};

fn all_of(formulas: &[String]) -> String {
    if formulas.is_empty() { "always".to_owned() } else { formulas.join(" and ") }
}

/// Returns a text with the conditions under which the named operations commute. For all other
/// conditions, the text says how the orders of the calls differ.
pub(crate) fn shown<S: State>(interface: &Interface<S>, names: &[&str]) -> String {
    let operations: Vec<_> = names.iter().map(|name| interface.operation(name).unwrap()).collect();
    let exploration = explore(interface, &operations, &Limits::default()).unwrap();
    let conditions = conditions(&exploration);
    let mut text = String::new();
    for case in &conditions.commute {
        text += &format!("commute: {}\n", all_of(&case.formulas));
    }
    for reason in &conditions.differ {
        let what = match &reason.difference {
            Difference::Result { call, seen: [one, other], orders: [first, second], .. } => {
                let call = call_label(*call);
                format!("{call} sees {one} in {first}, {other} in {second}")
            }
            Difference::State { seen: [one, other], .. } => format!("{one} or {other} is left"),
        };
        text += &format!("differ: {}: {what}\n", all_of(&reason.formulas));
    }
    text
}
