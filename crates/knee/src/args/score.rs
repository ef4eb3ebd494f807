//! The user's own program as a testcase.

use anyhow::Context;
use knee_host::shell::{is_one_word, word as shell_word};
use knee_run::job::{Command, Score};
use knee_run::plan::Case;

use super::require_utf8;
use crate::exit::ensure_usage;
use crate::stderr::tell;

/// What the rate of a command is.
#[derive(clap::Args)]
pub(crate) struct ScoreArgs {
    /// For commands: the last number that the command prints is its rate [default: runs per second]
    #[arg(long)]
    rate: bool,

    /// For commands: the rate is the number that the command prints in place of #, such as
    /// --read 'tps = #'. If several lines match, knee uses the last one
    #[arg(long, value_name = "TEXT", conflicts_with = "rate", value_parser = pattern)]
    read: Option<String>,
}

impl ScoreArgs {
    /// The name of the option that the user passed, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let read = self.read.as_ref().map(|_| "--read");
        read.or_else(|| self.rate.then_some("--rate"))
    }

    /// The testcase that runs the command with these words: once if it gets the task count or CPUs, otherwise a copy
    /// per task.
    pub(crate) fn case(&self, words: &[String]) -> anyhow::Result<Case> {
        let line = line(words);
        ensure_usage!(!line.trim().is_empty(), "the command after -- is empty; name a program");
        let command = self.command(line)?;
        let copies = !command.takes_tasks();
        Ok(Case::command(Command { copies, ..command }))
    }

    /// The command with this line in the current directory, with the rate that the user asked for.
    pub(crate) fn command(&self, line: impl Into<String>) -> anyhow::Result<Command> {
        let line = line.into();
        let dir = std::env::current_dir()
            .context("cannot determine the current directory, in which commands run")?;
        require_utf8("the current directory", &dir)?;
        if let Some((word, meant)) = Command::misspelt(&line) {
            tell!("knee: the command contains {word}; if it should be {meant}, correct it");
        }
        let score = if self.given().is_some() { Score::Printed } else { Score::Time };
        Ok(Command { score, read: self.read.clone(), ..Command::timed(line, dir) })
    }
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
    let rest =
        Command::PLACEHOLDERS.iter().fold(word.to_owned(), |rest, name| rest.replace(name, ""));
    match !word.is_empty() && is_one_word(&rest) {
        true => word.to_owned(),
        false => shell_word(word).into_owned(),
    }
}

fn pattern(text: &str) -> Result<String, String> {
    match text.matches(Command::NUMBER).count() {
        1 => Ok(text.to_owned()),
        _ => Err("must contain one # in place of the rate, such as 'tps = #'".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_one_place_for_the_rate() {
        assert_eq!(pattern("tps = # (all)").as_deref(), Ok("tps = # (all)"));
        for text in ["", "tps", "# of #"] {
            assert!(pattern(text).unwrap_err().starts_with("must contain one #"));
        }
    }

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
