//! Benchmark lines for Go's benchstat, one per round. The format is that of
//! <https://go.dev/design/14313-benchmark-format>. A configuration line names the run of the
//! benchmark lines after it. `benchstat -col run -ignore kernel,cpu FILE` shows runs side by side.

use std::collections::BTreeSet;
use std::fmt::Write;

use knee_host::text::original;
use knee_results::{Key, Results};

/// All rounds of all runs, except those of disturbed points, which the format cannot mark.
pub(crate) fn render(results: &[Results]) -> String {
    let mut text = String::new();
    let units: BTreeSet<&str> = results
        .iter()
        .flat_map(|side| side.cases.values())
        .map(|case| case.unit.as_str())
        .collect();
    for unit in units {
        let _ = writeln!(text, "Unit {} better=higher", rate_of(unit));
    }
    for side in results {
        let _ = writeln!(text, "run: {}", side.source.display());
        // A configuration line applies until the next line with the same key, so unknown values
        // need a line too.
        let environment = side.origin.as_ref().map(|run| &run.environment);
        let kernel = environment.map_or("unknown", |environment| &environment.kernel);
        let model = environment.and_then(|environment| environment.cpu_model.as_deref());
        let _ = writeln!(text, "kernel: {kernel}\ncpu: {}", model.unwrap_or("unknown"));
        text.push('\n');
        for (key, measured) in side.points.iter().filter(|(_, measured)| !measured.disturbed) {
            let (name, unit) = (name(key), rate_of(side.unit(&key.case)));
            for rate in &measured.rounds {
                let _ = writeln!(text, "{name} 1 {rate} {unit}");
            }
        }
        text.push('\n');
    }
    text
}

/// `maps/s`; benchstat requires a unit of one word.
fn rate_of(unit: &str) -> String {
    format!("{}/s", original(unit).replace(char::is_whitespace, "-"))
}

/// `BenchmarkMmap1/mode=threads/tasks=2`: a name starts with a capital letter and has no spaces.
fn name(key: &Key) -> String {
    let word: String = original(&key.case.to_string())
        .chars()
        .map(|c| if c.is_whitespace() || c == '/' { '_' } else { c })
        .collect();
    let mut letters = word.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let mut name = format!("Benchmark{first}{}", letters.as_str());
    if let Some(mode) = key.mode {
        let _ = write!(name, "/mode={}", mode.as_str());
    }
    if let Some(tasks) = key.tasks {
        let _ = write!(name, "/tasks={tasks}");
    }
    name
}

#[cfg(test)]
mod tests {
    use knee_host::text::one_line;

    use super::*;

    #[test]
    fn a_unit_is_one_word_although_it_contains_newlines() {
        assert_eq!(rate_of("map ups"), "map-ups/s");
        assert_eq!(rate_of(&one_line("runs/s\n0.001\tns/op")), "runs/s-0.001-ns/op/s");
    }
}
