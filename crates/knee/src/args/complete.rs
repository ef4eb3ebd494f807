//! Shell completions of testcases, their parameters and families, and of paths.

use std::ffi::OsStr;

use clap::{Arg, Command, ValueHint};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use knee_host::shell::is_one_word;
use knee_results::Family;
use knee_run::testcase::Testcase;
use knee_testcases::{CATALOGUE, SERVERS};

/// The environment variable that a shell sets to request completions.
pub(crate) const COMPLETE: &str = "KNEE_COMPLETE";

/// Completes testcases, their parameters, servers, and families.
pub(crate) fn testcases() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let families = Family::ALL
            .iter()
            .map(|family| described(format!("family:{family}"), "all testcases of this family"));
        starting_with(current, |text| {
            named(text).into_iter().chain(servers()).chain(families).collect()
        })
    })
}

/// Completes one testcase and its parameters, or one server.
pub(crate) fn testcase_or_server() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        starting_with(current, |text| named(text).into_iter().chain(servers()).collect())
    })
}

fn servers() -> impl Iterator<Item = CompletionCandidate> {
    SERVERS.iter().map(|server| described(server.name, "a server under load"))
}

/// A completion with its description.
pub(crate) fn described(name: impl Into<String>, about: impl Into<String>) -> CompletionCandidate {
    CompletionCandidate::new(name.into()).help(Some(about.into().into()))
}

/// The `candidates` that start with `current`, the text typed so far.
fn starting_with(
    current: &OsStr,
    candidates: impl FnOnce(&str) -> Vec<CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let mut all = candidates(current);
    all.retain(|one| one.get_value().to_str().is_some_and(|value| value.starts_with(current)));
    all
}

/// All testcases, and the testcase that `current` names with each parameter that can follow.
fn named(current: &str) -> Vec<CompletionCandidate> {
    let (name, chosen) = current.split_once('@').unwrap_or((current, ""));
    let plain = |testcase: &Testcase| described(testcase.name, testcase.description);
    let mut all: Vec<_> = CATALOGUE.all().map(plain).collect();
    let Some(testcase) = CATALOGUE.find(name) else { return all };
    let kept = chosen.rsplit_once(',').map_or(String::new(), |(kept, _)| format!("{kept},"));
    let keys: Vec<&str> =
        kept.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
    let choices = testcase.parameters.iter().copied().flatten();
    all.extend(
        choices
            .filter(|choice| !keys.contains(&choice.key))
            .map(|choice| described(format!("{name}@{kept}{choice}"), choice.meaning)),
    );
    all
}

/// The command with completions for paths that a shell takes as one word. Bash inserts a completion as it is, so a
/// file that another user has named `$(…)` would run a command.
pub(crate) fn with_safe_paths(command: Command) -> Command {
    command.mut_args(with_safe_path).mut_subcommands(with_safe_paths)
}

fn with_safe_path(arg: Arg) -> Arg {
    let is_path = arg.get_value_hint() == ValueHint::AnyPath;
    let has_other =
        arg.get::<ArgValueCompleter>().is_some() || arg.get::<ArgValueCandidates>().is_some();
    if !is_path || has_other {
        return arg;
    }
    arg.add(ArgValueCompleter::new(|current: &OsStr| {
        let mut paths = PathCompleter::any().complete(current);
        paths.retain(|path| is_safe(current, path.get_value()));
        paths
    }))
}

/// Whether a shell, and knee, take what a completion adds as a part of a path.
fn is_safe(current: &OsStr, completed: &OsStr) -> bool {
    let added = completed.as_encoded_bytes().strip_prefix(current.as_encoded_bytes());
    let Some(added) = added.and_then(|added| str::from_utf8(added).ok()) else { return false };
    is_one_word(added) && !(current.is_empty() && added.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(current: &str) -> Vec<String> {
        let all = starting_with(OsStr::new(current), named);
        all.iter().map(|one| one.get_value().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_testcase_and_then_its_parameters_are_completed() {
        assert_eq!(completed("page_fault4")[..2], ["page_fault4", "page_fault4@pages=small"]);
        assert!(completed("page_f").iter().all(|name| name.starts_with("page_fault")));
        assert!(completed("read1").contains(&"read1@file=same".to_owned()));
        assert!(completed("read1@file=sa").contains(&"read1@file=same".to_owned()));
        assert!(completed("nosuch").is_empty());
    }

    #[test]
    fn a_completion_adds_nothing_that_a_shell_expands() {
        let is_safe = |current: &str, completed: &str| {
            super::is_safe(OsStr::new(current), OsStr::new(completed))
        };
        for safe in ["runs/2026-11-27T061042Z", "größe.json", "a-b@c=1,2"] {
            assert!(is_safe("", safe), "{safe}");
        }
        assert!(is_safe("~/'my ru", "~/'my runs/"));
        for unsafe_one in ["run$(id)", "a b", "*", "a;b", "`id`", "a\nb", "-o", "~root", "a\u{b}b"]
        {
            assert!(!is_safe("", unsafe_one), "{unsafe_one}");
        }
        assert!(!is_safe("run", "run$(id)"));
    }

    #[test]
    fn a_parameter_that_has_a_value_is_not_offered_again() {
        let all = completed("vm_mmap1@map=rcu,");
        assert!(all.contains(&"vm_mmap1@map=rcu,rmap=backing".to_owned()), "{all:?}");
        assert!(!all.iter().any(|one| one.matches("map=").count() > 2), "{all:?}");
    }
}
