//! When operations commute, in words, as a matrix and for programs.

use std::fmt::Write;

use knee_commute::{Condition, Conditions, Difference, Exploration, Model, Verdict};
use serde_json::{Value, json};

use super::number::plural;

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const DIM: anstyle::Style = anstyle::Style::new().dimmed();
/// Version of the documents.
const SCHEMA: u32 = 1;

/// The interfaces and their operations.
pub(crate) fn list(models: &[Box<dyn Model>], as_json: bool) -> String {
    if as_json {
        let models: Vec<Value> = models
            .iter()
            .map(|model| {
                let operations: Vec<Value> = model
                    .operations()
                    .iter()
                    .map(|(name, about)| json!({ "name": name, "about": about }))
                    .collect();
                json!({ "name": model.name(), "about": model.about(), "operations": operations })
            })
            .collect();
        return format!("{:#}\n", json!({ "schema": SCHEMA, "interfaces": models }));
    }
    let mut text = String::new();
    for (nr, model) in models.iter().enumerate() {
        let gap = if nr > 0 { "\n" } else { "" };
        let _ = writeln!(text, "{gap}{BOLD}{}{BOLD:#}  {}", model.name(), model.about());
        for (name, about) in model.operations() {
            let _ = writeln!(text, "  {name}{DIM}{about}{DIM:#}");
        }
    }
    text
}

/// When some operations commute.
pub(crate) fn conditions(
    names: &[String],
    conditions: &Conditions,
    exploration: &Exploration,
    as_json: bool,
) -> String {
    let (all, commuting) = counts(exploration);
    if as_json {
        let formulas = |condition: &Condition| {
            condition
                .literals
                .iter()
                .map(|(literal, answer)| literal.show(*answer))
                .collect::<Vec<String>>()
        };
        let differ: Vec<Value> = conditions
            .differ
            .iter()
            .map(|(condition, difference)| {
                json!({ "all_of": formulas(condition), "because": because(difference, names) })
            })
            .collect();
        let document = json!({
            "schema": SCHEMA,
            "operations": names,
            "situations": all,
            "commuting": commuting,
            "commute_if_any_of": conditions.commute.iter().map(formulas).collect::<Vec<_>>(),
            "differ_if_any_of": differ,
        });
        return format!("{document:#}\n");
    }
    let mut text = String::new();
    let calls: Vec<String> =
        names.iter().enumerate().map(|(nr, name)| format!("{}: {name}", label(nr))).collect();
    let _ = writeln!(text, "{BOLD}{}{BOLD:#}\n", calls.join("   "));
    let _ = match conditions.commute.as_slice() {
        [] => writeln!(text, "They never commute."),
        [always] if always.literals.is_empty() => writeln!(text, "They always commute."),
        some => {
            let _ = writeln!(text, "They commute if");
            for (nr, condition) in some.iter().enumerate() {
                let or = if nr == 0 { "  " } else { "or" };
                let _ = writeln!(text, "  {DIM}{or}{DIM:#} {}", condition.show());
            }
            Ok(())
        }
    };
    match conditions.differ.as_slice() {
        [] => {}
        [(always, difference)] if always.literals.is_empty() => {
            let _ = writeln!(text, "{}.", because(difference, names));
            return text;
        }
        _ => {
            let _ = writeln!(text, "\nThey do not if");
        }
    }
    for (nr, (condition, difference)) in conditions.differ.iter().enumerate() {
        let or = if nr == 0 { "  " } else { "or" };
        let _ = writeln!(
            text,
            "  {DIM}{or}{DIM:#} {}\n       {DIM}{}{DIM:#}",
            condition.show(),
            because(difference, names)
        );
    }
    let share = 100.0 * commuting as f64 / all.max(1) as f64;
    let _ = writeln!(
        text,
        "\n{DIM}{commuting} of {} commute ({share:.0} %).{DIM:#}",
        plural(all, "situation")
    );
    text
}

fn label(nr: usize) -> char {
    char::from(b'a' + nr as u8)
}

/// What tells the orders apart, in words.
pub(super) fn because(difference: &Difference, names: &[String]) -> String {
    match difference {
        Difference::Result { call, seen: [one, other], orders: [first, second] } => {
            let nr = usize::from(call.as_bytes()[0] - b'a');
            let name = &names[nr];
            format!("{call} ({name}) sees {one} in the order {first}, but {other} in {second}")
        }
        Difference::State { orders: [first, second] } => {
            format!("the orders {first} and {second} leave states that can be told apart")
        }
    }
}

pub(super) fn counts(exploration: &Exploration) -> (usize, usize) {
    let commuting = |s: &&knee_commute::Situation| s.verdict == Verdict::Commute;
    (exploration.situations.len(), exploration.situations.iter().filter(commuting).count())
}

/// The share of situations in which each pair commutes.
pub(crate) fn matrix(names: &[&str], pairs: &[([usize; 2], Exploration)]) -> String {
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let cell = |name: &str| name.len().max(4);
    let mut text = String::new();
    for (row, name) in names.iter().enumerate() {
        let _ = write!(text, "{name:width$}");
        for (column, head) in names.iter().enumerate().take(row + 1) {
            let exploration = pairs.iter().find(|([i, j], _)| (*i, *j) == (column, row));
            let (all, commuting) = exploration.map_or((0, 0), |(_, found)| counts(found));
            let share = percent(commuting, all);
            let _ = write!(text, " {share:>0$}", cell(head));
        }
        text.push('\n');
    }
    let _ = write!(text, "{:width$}", "");
    for name in names {
        let _ = write!(text, " {name:>0$}", cell(name));
    }
    let all: usize = pairs.iter().map(|(_, found)| counts(found).0).sum();
    let commuting: usize = pairs.iter().map(|(_, found)| counts(found).1).sum();
    let _ = writeln!(
        text,
        "\n\n{BOLD}{commuting} of {all} situations of {} commute ({}).{BOLD:#}\n{DIM}A situation \
         is a class of initial states and arguments in which the model does the same; shares are of \
         situations, not of what programs do.{DIM:#}",
        plural(pairs.len(), "pair"),
        percent(commuting, all)
    );
    text
}

/// Rounded, but never to all or nothing what is not.
fn percent(part: usize, all: usize) -> String {
    match 100.0 * part as f64 / all.max(1) as f64 {
        p if part < all && p > 99.0 => "99%".to_owned(),
        p if part > 0 && p < 1.0 => "1%".to_owned(),
        p => format!("{p:.0}%"),
    }
}
