//! The user's own program as a testcase.

use knee_host::shell::{is_one_word, word as shell_word};
use knee_run::job::Command;
use knee_run::plan::Case;

use crate::args::score::ScoreArgs;
use crate::exit::ensure_usage;

/// The testcase that runs the command with these words. `interval` is the option `--interval`.
pub(super) fn case(
    words: &[String],
    score: &ScoreArgs,
    interval: Option<f64>,
) -> anyhow::Result<Case> {
    let line = line(words);
    ensure_usage!(!line.trim().is_empty(), "the command after -- is empty; name a program");
    let command = score.command(line)?;
    let unused = interval.is_some() && !command.takes_seconds();
    let copies = !command.takes_tasks();
    let case = Case::command(Command { copies, ..command });
    ensure_usage!(
        !unused,
        "--interval: {} does not use the interval; insert {} where the seconds belong",
        case.id,
        Command::SECONDS
    );
    Ok(case)
}

/// The command line of `words`, as a shell reads it. A single word is a whole command line.
fn line(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

fn quoted(word: &str) -> String {
    // Some shells expand other braces, such as `{a,b}`.
    let placeholders =
        [Command::TASKS, Command::CPUS, Command::SECONDS, Command::DIR, Command::PORT];
    let rest = placeholders.iter().fold(word.to_owned(), |rest, name| rest.replace(name, ""));
    match !word.is_empty() && is_one_word(&rest) {
        true => word.to_owned(),
        false => shell_word(word).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        let line =
            |words: &[&str]| line(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(line(&["make -j{tasks} && true"]), "make -j{tasks} && true");
        assert_eq!(line(&["make", "-j{tasks}"]), "make -j{tasks}");
        assert_eq!(line(&["sh", "-c", "echo $((2 * {tasks}))"]), "sh -c 'echo $((2 * {tasks}))'");
        assert_eq!(line(&["echo", "", "it's"]), r"echo '' 'it'\''s'");
        assert_eq!(line(&["echo", "{a,b}", "{cpus}"]), "echo '{a,b}' {cpus}");
    }
}
