//! What the rate of a command is.

use anyhow::Context;
use knee_run::job::{Command, Score};

use super::require_utf8;

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

    /// The command with this line in the current directory, with the rate that the user asked for.
    pub(crate) fn command(&self, line: impl Into<String>) -> anyhow::Result<Command> {
        let dir = std::env::current_dir()
            .context("cannot determine the current directory, in which commands run")?;
        require_utf8("the current directory", &dir)?;
        let score = if self.given().is_some() { Score::Printed } else { Score::Time };
        Ok(Command { score, read: self.read.clone(), ..Command::timed(line, dir) })
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
}
