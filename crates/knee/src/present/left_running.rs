//! Notes about processes that still ran after their command had ended.

use knee_host::number::plural;
use knee_run::record::LeftRunning;

use super::enumeration::{NAMED, and_more};

/// The note about the commands of a run.
pub(crate) fn of_run(left: &[LeftRunning]) -> Option<String> {
    let (LeftRunning { testcase, programs }, others) = left.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        n => format!(", and so did {}", plural(n, "other command")),
    };
    let (processes, them) = processes(programs);
    let them = if others.is_empty() { them } else { "them" };
    Some(format!(
        "the command {testcase} left {processes} after a round{others}; knee ended {them}"
    ))
}

/// The note about one command.
pub(crate) fn of_command(programs: &[String]) -> Option<String> {
    let (processes, them) = processes(programs);
    (!programs.is_empty()).then(|| format!("the command left {processes}; knee ended {them}"))
}

/// `3 processes running (cat, sleep)`, and the pronoun for them.
fn processes(programs: &[String]) -> (String, &'static str) {
    let mut names: Vec<&str> = programs.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let (named, others) = names.split_at(names.len().min(NAMED));
    let names = format!("{}{}", named.join(", "), and_more(others.len()));
    match programs.len() {
        1 => (format!("1 process running ({names})"), "it"),
        n => (format!("{n} processes running ({names})"), "them"),
    }
}

#[cfg(test)]
mod tests {
    use knee_results::CaseId;

    use super::*;

    #[test]
    fn the_programs_are_counted_and_named_once() {
        let left = |programs: &[&str]| programs.iter().map(|&name| name.to_owned()).collect();
        let of = |testcase, programs| LeftRunning { testcase: CaseId::new(testcase), programs };
        let note = |left: &[LeftRunning]| of_run(left).unwrap();
        assert_eq!(
            note(&[of("sh", left(&["sleep"]))]),
            "the command sh left 1 process running (sleep) after a round; knee ended it"
        );
        assert_eq!(
            note(&[of("sh", left(&["d", "b", "b", "e", "a", "c"])), of("ls", left(&["x"]))]),
            "the command sh left 6 processes running (a, b, c, d and 1 more) after a round, and so \
             did 1 other command; knee ended them"
        );
        assert_eq!((of_run(&[]), of_command(&[])), (None, None));
        assert_eq!(
            of_command(&left(&["cat", "sleep"])).unwrap(),
            "the command left 2 processes running (cat, sleep); knee ended them"
        );
    }
}
