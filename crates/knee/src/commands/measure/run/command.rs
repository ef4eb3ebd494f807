//! The user's own program as a testcase.

use anyhow::Context;
use knee_run::job::Command;
use knee_run::plan::Case;

use crate::args::require_utf8;
use crate::args::score::ScoreArgs;
use crate::exit::ensure_usage;

/// The testcase that runs the command with these words.
pub(super) fn case(words: &[String], score: &ScoreArgs) -> anyhow::Result<Case> {
    let line = line(words);
    ensure_usage!(!line.trim().is_empty(), "the command after -- is empty; name a program");
    let dir = std::env::current_dir()
        .context("cannot determine the current directory, in which commands run")?;
    require_utf8("the current directory", &dir)?;
    let command = score.of(Command::timed(line, dir));
    let copies = !command.takes_tasks();
    Ok(Case::command(Command { copies, ..command }))
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
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    match word.is_empty() || !rest.chars().all(is_plain) {
        true => format!("'{}'", word.replace('\'', r"'\''")),
        false => word.to_owned(),
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
