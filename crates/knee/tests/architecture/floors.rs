//! The floors of the command `knee`: which of its folders may import from which.

use std::path::Path;

use crate::imports::Graph;

/// The folders and files of `knee/src`, top floor first. Each may import from what is below its floor.
const FLOORS: [&[&str]; 9] = [
    &["lib.rs"],
    &["cli.rs"],
    &["commands"],
    &["args", "session"],
    &["input", "present"],
    &["interrupt.rs", "progress.rs"],
    &["exit.rs", "file.rs", "stderr.rs", "stdout.rs"],
    &["filter.rs"],
    // The files in the folder classify errors for exit.rs.
    &["exit", "parts.rs", "writing.rs"],
];

/// Imports that do not lead to a lower floor.
pub(crate) fn upward(graph: &Graph) -> Vec<String> {
    edges(graph, |from, to| part(from) != part(to) && floor(part(from)) >= floor(part(to)))
}

/// Imports of a command from another.
pub(crate) fn between_commands(graph: &Graph) -> Vec<String> {
    edges(graph, |from, to| match (command(from), command(to)) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    })
}

fn edges(graph: &Graph, is_wrong: impl Fn(&Path, &Path) -> bool) -> Vec<String> {
    let all = graph.iter().flat_map(|(from, files)| files.iter().map(move |to| (from, to)));
    let wrong = all.filter(|(from, to)| is_wrong(from, to));
    wrong.map(|(from, to)| format!("{} → {}", from.display(), to.display())).collect()
}

/// The folder or file of `knee/src` that a file belongs to.
fn part(file: &Path) -> &str {
    file.iter().next().and_then(|name| name.to_str()).expect("a file has a name")
}

fn floor(part: &str) -> usize {
    let floor = FLOORS.iter().position(|floor| floor.contains(&part));
    floor.unwrap_or_else(|| panic!("{part} is on no floor: add it here"))
}

/// `measure/run` of `commands/measure/run.rs` and of all files below `commands/measure/run/`.
fn command(file: &Path) -> Option<String> {
    let inside = file.with_extension("");
    let mut names = inside.strip_prefix("commands").ok()?.iter();
    let (floor, name) = (names.next()?, names.next()?);
    Some(format!("{}/{}", floor.display(), name.display()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn graph(from: &str, to: &str) -> Graph {
        Graph::from([(from.into(), [PathBuf::from(to)].into())])
    }

    #[test]
    fn an_import_from_the_same_or_a_higher_floor_is_found() {
        for (from, to) in [
            ("present/mod.rs", "commands/measure/run.rs"),
            ("args/mod.rs", "commands/measure/run.rs"),
            ("present/table.rs", "args/view.rs"),
            ("args/mod.rs", "session/mod.rs"),
            ("commands/machine/generate.rs", "cli.rs"),
        ] {
            assert_eq!(upward(&graph(from, to)), [format!("{from} → {to}")]);
        }
    }

    #[test]
    fn an_import_from_a_lower_floor_or_the_same_folder_is_allowed() {
        for (from, to) in [
            ("cli.rs", "commands/measure/run.rs"),
            ("commands/measure/run.rs", "stderr.rs"),
            ("args/view.rs", "present/mod.rs"),
            ("args/view.rs", "args/mod.rs"),
        ] {
            assert!(upward(&graph(from, to)).is_empty(), "{from} → {to}");
        }
    }

    #[test]
    fn an_import_from_another_command_is_found() {
        let of = |to| between_commands(&graph("commands/measure/ab.rs", to));
        assert_eq!(of("commands/measure/run.rs").len(), 1);
        assert_eq!(of("commands/measure/run/floor.rs").len(), 1);
        assert_eq!(of("commands/prove/ab.rs").len(), 1);
        assert!(of("commands/measure/ab/sides.rs").is_empty());
        assert!(of("commands/measure.rs").is_empty());
        assert!(of("args/tasks.rs").is_empty());
    }
}
