//! The two sides of a comparison: what `--before` and `--after` name.

use std::fmt;
use std::path::Path;

use anyhow::anyhow;
use knee_host::process::program;
use knee_results::Side;
use knee_run::job::{Command, Source};
use knee_run::plan::Case;
use knee_run::runner::check_plugin;

use crate::args::existing;
use crate::args::score::ScoreArgs;
use crate::args::selection::{Selection, described_server, is_description};
use crate::exit::{bail_usage, ensure_usage};
use crate::stderr::tell;

/// What both sides are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Measured from start to end.
    Commands,
    /// Measured under load.
    Servers,
    /// Plug-ins included.
    Testcases,
}

impl Kind {
    fn of(case: &Case) -> Self {
        match &case.source {
            Source::Command { .. } => Self::Commands,
            Source::Server { .. } => Self::Servers,
            Source::Plugin { .. } | Source::BuiltIn {} => Self::Testcases,
        }
    }

    fn one(self) -> &'static str {
        match self {
            Self::Commands => "a command",
            Self::Servers => "a server",
            Self::Testcases => "a testcase",
        }
    }
}

impl fmt::Display for Kind {
    /// The plural.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commands => "commands",
            Self::Servers => "servers",
            Self::Testcases => "testcases",
        })
    }
}

/// Both sides, and what they are. Prints a note if they are the same.
///
/// # Errors
/// The sides are of different kinds, or one of them is unknown.
pub(super) fn sides(
    before: &str,
    after: &str,
    score: &ScoreArgs,
) -> anyhow::Result<([Case; 2], Kind)> {
    let cases = [case("--before", before, score)?, case("--after", after, score)?];
    let [kind, other] = cases.each_ref().map(Kind::of);
    ensure_usage!(
        kind == other,
        "--before is {}, but --after is {}; name two commands, two servers or two testcases",
        kind.one(),
        other.one()
    );
    // The same text on both sides is meant.
    if before.trim() != after.trim() && is_same(&cases) {
        tell!(
            "knee: {before} and {after} are the same configuration ({}), so any difference is \
             noise",
            cases[0].id
        );
    }
    let [before, after] = cases;
    Ok(([before.on(Side::Before), after.on(Side::After)], kind))
}

/// Whether two testcases or servers are the same.
fn is_same([before, after]: &[Case; 2]) -> bool {
    let is_known = before.is_built_in() || before.is_server();
    is_known && before.id == after.id && before.source == after.source
}

/// The command of a side, if it is one.
pub(super) fn command(case: &Case) -> Option<&Command> {
    match &case.source {
        Source::Command { command } => Some(command),
        Source::Server { .. } | Source::Plugin { .. } | Source::BuiltIn {} => None,
    }
}

/// The case that the argument of `option` names.
fn case(option: &str, text: &str, score: &ScoreArgs) -> anyhow::Result<Case> {
    let text = text.trim();
    ensure_usage!(
        !text.is_empty(),
        "{option} is empty; name a command, a FILE.so, a server or a testcase"
    );
    let path = Path::new(text);
    if path.extension().is_some_and(|extension| extension == "so") && !text.contains(' ') {
        let path = existing(option, path)?;
        let sha256 = check_plugin(&path)
            .map_err(|failure| anyhow!("{option} {}; {}", failure.reason, failure.remedy))?;
        return Ok(Case::plugin(&path, sha256));
    }
    if is_description(text) && !text.contains(' ') {
        return described_server(text);
    }
    let is_program = program::find(text).is_some();
    // With an option for commands, the name of a program means the program.
    let is_command = is_program && score.given().is_some();
    match Selection::of(&[text.to_owned()], false) {
        Ok(selected) if !is_command => match (&selected.testcases[..], &selected.servers[..]) {
            ([testcase], []) => return Ok(Case::built_in(testcase)),
            ([], [server]) => return server.case(),
            _ if is_program => {}
            (_, servers) => {
                let what = if servers.is_empty() { "testcases" } else { "servers" };
                bail_usage!("{option}: {text} matches several {what}; give the name of one")
            }
        },
        // A single word that is not a program is a misspelt testcase or server.
        Err(error) if !is_program && !is_for_shell(text) => {
            bail_usage!("{option}: {error}, and no program has this name")
        }
        _ => {}
    }
    Ok(Case::command(score.command(text)?))
}

/// Whether `text` needs a shell, because it is more than the name of a program in `PATH`. A single
/// word with an `@` names a testcase and never needs a shell.
fn is_for_shell(text: &str) -> bool {
    let is_testcase = text.contains('@') && !text.contains([' ', '/']);
    !is_testcase && text.contains(|c: char| !c.is_alphanumeric() && !",=:-_.+".contains(c))
}
