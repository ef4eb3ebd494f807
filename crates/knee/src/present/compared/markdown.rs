//! Markdown for a pull request or a mailing list: a table that is also readable as plain text. Names and messages
//! that Markdown would not show as they are become code.

use std::fmt::Write;

use knee_host::number::plural;
use knee_host::text::{code, markdown};

use super::table::points;
use super::{Comparisons, counters, gaps, latency, method, notes, tally};

/// A heading, a table and notes, for each compared run.
pub(crate) fn render(comparisons: &Comparisons<'_>) -> String {
    let mut text = String::new();
    let before = comparisons.before;
    for (nr, (after, compared)) in comparisons.compared.iter().enumerate() {
        if nr > 0 {
            text.push('\n');
        }
        let _ = write!(
            text,
            "### {} against {}\n\n{}: {}.\n\n",
            markdown(&after.source.display().to_string()),
            markdown(&before.source.display().to_string()),
            plural(compared.points.len(), "point"),
            tally(&compared.verdicts())
        );
        for (side, results) in [("Before", before), ("After", after)] {
            if let Some(run) = &results.origin {
                let machine = run.environment.summary();
                let machine = markdown(&machine);
                let _ = match compared.in_turns {
                    true => {
                        let source = code(&results.source.display().to_string());
                        writeln!(text, "- {side}: {source}, on {machine}")
                    }
                    false => writeln!(text, "- {side}: {machine}"),
                };
            }
        }
        for note in notes(before, compared, &comparisons.options) {
            let _ = writeln!(text, "- Note: {}", markdown(&note));
        }
        for absent in gaps(compared) {
            let _ = writeln!(text, "- Not compared: {}", markdown(&absent));
        }
        if text.ends_with("\n\n") {
            text.pop();
        }
        text.push('\n');
        let timed = compared.points.first().is_some_and(|point| point.timed);
        let [before, after] = if timed { ["before", "after"] } else { ["before /s", "after /s"] };
        text += &points(compared, &comparisons.options, ["point", before, after], "").markdown();
        let _ = writeln!(text, "\n{}.", method(compared, &comparisons.options));
        if let Some(latencies) = latency::table(compared, "") {
            let _ = writeln!(text, "\n{}.\n", latency::summary(compared));
            text += &latencies.markdown();
            let _ = writeln!(text, "\n{}.", latency::method(compared, &comparisons.options));
        }
        if let Some(events) = counters::table(compared, false, "") {
            let _ = writeln!(text);
            text += &events.markdown();
        }
    }
    text
}
