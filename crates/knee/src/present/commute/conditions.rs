//! When operations commute, in words, as a matrix and for programs.

use std::fmt::Write;

use knee_commute::{Conditions, Difference, Exploration, Model, Test, Verdict, call_label};
use knee_host::number::plural;
use knee_host::text::{Screen, one_line};
use serde_json::{Value, json};

use super::triangle::triangle;
use crate::present::style::{BOLD, DIM};

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
        let (name, about) = (one_line(model.name()), one_line(model.about()));
        let _ = writeln!(text, "{gap}{BOLD}{name}{BOLD:#}  {about}");
        for (name, about) in model.operations() {
            let (name, about) = (one_line(name), one_line(about));
            let _ = writeln!(text, "  {name}{DIM}{about}{DIM:#}");
        }
    }
    text
}

/// Maximum conditions and reasons to print without `--all`.
const MOST_SHOWN: usize = 6;

/// When operations commute.
pub(crate) struct Found<'f> {
    pub(crate) names: &'f [String],
    pub(crate) conditions: &'f Conditions,
    pub(crate) exploration: &'f Exploration,
    /// One example for each situation.
    pub(crate) examples: &'f [Test],
}

impl Found<'_> {
    /// JSON for programs.
    pub(crate) fn json(&self) -> String {
        let (all, commuting) = counts(self.exploration);
        let commute: Vec<Value> = self
            .conditions
            .commute
            .iter()
            .map(|case| {
                json!({
                    "all_of": case.formulas,
                    "situations": case.situations,
                    "example": self.examples[case.example],
                })
            })
            .collect();
        let differ: Vec<Value> = self
            .conditions
            .differ
            .iter()
            .map(|reason| {
                json!({
                    "because": because(&reason.difference, self.names),
                    "situations": reason.situations,
                    "all_of": reason.formulas,
                    "example": self.examples[reason.example],
                })
            })
            .collect();
        let document = json!({
            "schema": SCHEMA,
            "operations": self.names,
            "situations": all,
            "commuting": commuting,
            "cut": self.exploration.extent.cut,
            "given_up": self.exploration.extent.too_deep,
            "commute_if_any_of": commute,
            "differ": differ,
        });
        format!("{document:#}\n")
    }

    /// Text: the most frequent conditions, or all.
    pub(crate) fn text(&self, all: bool) -> String {
        let most = if all { usize::MAX } else { MOST_SHOWN };
        let mut text = String::new();
        let calls = self.names.iter().enumerate();
        let calls: Vec<String> =
            calls.map(|(nr, name)| format!("{}: {name}", call_label(nr))).collect();
        let _ = writeln!(text, "{BOLD}{}{BOLD:#}\n", calls.join("   "));
        self.commute(most, &mut text);
        self.differ(most, &mut text);
        let (situations, commuting) = counts(self.exploration);
        let share = 100.0 * commuting as f64 / situations.max(1) as f64;
        let situations = plural(situations, "situation");
        let _ = writeln!(text, "\n{DIM}{commuting} of {situations} commute ({share:.0}%).{DIM:#}");
        text
    }

    fn commute(&self, most: usize, text: &mut String) {
        let commute = self.conditions.commute.as_slice();
        let extent = &self.exploration.extent;
        if extent.cut || extent.too_deep > 0 {
            let _ = writeln!(text, "{BOLD}In the situations explored so far:{BOLD:#}");
        }
        let _ = match commute {
            _ if self.exploration.situations.is_empty() => {
                writeln!(text, "No situation was explored completely.")
            }
            [] => writeln!(text, "They never commute."),
            [always] if always.formulas.is_empty() => {
                writeln!(text, "They always commute.")
            }
            _ => writeln!(text, "They commute if"),
        };
        let conditional = commute.iter().filter(|case| !case.formulas.is_empty());
        for (nr, case) in conditional.take(most).enumerate() {
            let or = if nr == 0 { "  " } else { "or" };
            let _ = writeln!(text, "  {DIM}{or}{DIM:#} {}", case.formulas.join(" and "));
            let _ = writeln!(text, "       {DIM}{}{DIM:#}", example(&self.examples[case.example]));
        }
        if commute.len() > most {
            let more = plural(commute.len() - most, "more condition");
            let _ = writeln!(text, "  {DIM}or {more} (--all shows them){DIM:#}");
        }
    }

    fn differ(&self, most: usize, text: &mut String) {
        let differ = self.conditions.differ.as_slice();
        if !differ.is_empty() && !self.conditions.commute.is_empty() {
            let _ = writeln!(text, "\nOtherwise they do not:");
        }
        for reason in differ.iter().take(most) {
            let of = plural(reason.situations, "situation");
            let because = because(&reason.difference, self.names);
            let _ = writeln!(text, "  {because} {DIM}({of}){DIM:#}");
            if !reason.formulas.is_empty() {
                let _ = writeln!(text, "       if {}", reason.formulas.join(" and "));
            }
            let shown = example(&self.examples[reason.example]);
            let _ = writeln!(text, "       {DIM}{shown}{DIM:#}");
        }
        if differ.len() > most {
            let more = plural(differ.len() - most, "more reason");
            let _ = writeln!(text, "  {DIM}and {more} (--all shows them){DIM:#}");
        }
    }
}

/// Describes what distinguishes the orders.
pub(super) fn because(difference: &Difference, names: &[String]) -> String {
    match difference {
        Difference::Result { call, field, seen: [one, other], orders: [first, second] } => {
            let (call, name) = (call_label(*call), &names[*call]);
            let what = if field == "result" { String::new() } else { format!("{field} ") };
            format!(
                "{call} ({name}) sees {what}{one} in the order {first}, but {other} in {second}"
            )
        }
        Difference::State { seen: [one, other], orders: [first, second] } => {
            format!("the order {first} leaves {one}, but {second} leaves {other}")
        }
    }
}

/// A concrete state and calls, on one line.
fn example(test: &Test) -> String {
    let mut words: Vec<String> = test.setup.iter().map(step).collect();
    for call in &test.calls {
        let given = call.arguments.iter().map(|(name, value)| match value {
            Value::Bool(true) => name.clone(),
            Value::Bool(false) => format!("no {name}"),
            value => format!("{name} {}", plain(value)),
        });
        let given: Vec<String> = given.collect();
        let process = if call.process > 0 { " in the other process" } else { "" };
        words.push(format!("{}: {}({}){process}", call.label, call.operation, given.join(", ")));
    }
    format!("for example {}", words.join("; "))
}

/// Describes a step of a set-up: `table[key0] = content0`, `file inode0, names filename0`.
fn step(step: &Value) -> String {
    let Some(fields) = step.as_object() else { return plain(step) };
    if let (Some(at), Some(to)) = (fields.get("set"), fields.get("to")) {
        return match to {
            Value::Null => format!("nothing at {}", plain(at)),
            to => format!("{} = {}", plain(at), plain(to)),
        };
    }
    let what = fields.get("do").map(plain).unwrap_or_default();
    let nothing = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let rest = fields.iter().filter(|(name, value)| *name != "do" && !nothing(value));
    let rest: Vec<String> = rest.map(|(name, value)| format!("{name} {}", plain(value))).collect();
    format!("{what} with {}", rest.join(", "))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        Value::Null => "anything".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(some) => some.iter().map(plain).collect::<Vec<String>>().join(" and "),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name} {}", plain(value)));
            fields.collect::<Vec<String>>().join(", ")
        }
        number => number.to_string(),
    }
}

pub(super) fn counts(exploration: &Exploration) -> (usize, usize) {
    let commuting = |s: &&knee_commute::Situation| s.verdict == Verdict::Commute;
    (exploration.situations.len(), exploration.situations.iter().filter(commuting).count())
}

/// The share of situations in which each pair commutes.
pub(crate) fn matrix(
    names: &[&str],
    pairs: &[([usize; 2], Exploration)],
    screen: &Screen,
) -> String {
    let text = triangle(names, screen, |column, row| {
        let pair = pairs.iter().find(|(pair, _)| *pair == [column, row]);
        pair.map_or("?".to_owned(), |(_, exploration)| {
            let (all, commuting) = counts(exploration);
            percent(commuting, all)
        })
    });
    let all: usize = pairs.iter().map(|(_, found)| counts(found).0).sum();
    let commuting: usize = pairs.iter().map(|(_, found)| counts(found).1).sum();
    let closing = format!(
        "{BOLD}{commuting} of {all} situations of {} commute ({}).{BOLD:#}\n{DIM}A situation is a \
         class of initial states and arguments for which the model behaves the same; each situation \
         counts once, however often real programs reach it.{DIM:#}\n",
        plural(pairs.len(), "pair"),
        percent(commuting, all)
    );
    text + &screen.wrap(&closing, "")
}

/// A rounded percentage; only exact values are printed as 0% or 100%.
fn percent(part: usize, all: usize) -> String {
    match 100.0 * part as f64 / all.max(1) as f64 {
        p if part < all && p > 99.0 => "99%".to_owned(),
        p if part > 0 && p < 1.0 => "1%".to_owned(),
        p => format!("{p:.0}%"),
    }
}
