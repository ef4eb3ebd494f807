//! `knee jobs plan`: a list of jobs for all combinations of parameters.

use std::str::FromStr;

use knee_host::suggest::{nearest, question};

use super::list::MAX_JOBS;
use crate::exit::{ExitStatus, bail_usage, ensure_usage};
use crate::stdout;

/// The placeholder that stands for the number of the job.
const JOB: &str = "job";

/// Write a list of jobs: a command for each combination of parameters
///
/// The last parameter varies fastest. knee inserts values as they are, so quote placeholders in the
/// command if values contain spaces. {job} stands for the number of the job, from 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee jobs plan 'knee commute check --kernel {kernel} --shard {shard} \\
      -o $KNEE_OUT/{kernel}/{job} --resume' kernel=bookworm,trixie shard=1..8/8
  knee jobs plan 'knee run {case} --json >$KNEE_OUT/{case}.json' case=mmap1,page_fault1
  knee jobs plan './try {seed} >$KNEE_OUT/{job}' seed=1..1000 | knee jobs run - -o out")]
pub(super) struct Args {
    /// Shell command of a job, with {NAME} for the value of each parameter
    #[arg(value_name = "COMMAND")]
    command: String,

    /// Parameter and its values. 1..8 stands for the numbers from 1 to 8, and 1..8/8 for 1/8 to 8/8
    #[arg(value_name = "NAME=VALUE,...", required = true)]
    parameters: Vec<Parameter>,
}

/// A parameter and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parameter {
    name: String,
    values: Vec<String>,
}

impl FromStr for Parameter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write a parameter as NAME=VALUE,VALUE, such as kernel=bookworm,trixie";
        let (name, values) = text.split_once('=').ok_or(form)?;
        if name.is_empty() || !name.chars().all(is_of_name) {
            return Err(format!("a name consists of letters, digits, _ and -; {form}"));
        }
        if name == JOB {
            return Err(format!("{{{JOB}}} is the number of the job; use another name"));
        }
        if values.contains(['\n', '\r', '\0']) {
            return Err("a value contains a line break or a null character".to_owned());
        }
        let values: Result<Vec<Vec<String>>, String> = values.split(',').map(expanded).collect();
        Ok(Self { name: name.to_owned(), values: values?.concat() })
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-".contains(c)
}

/// The values that one value stands for: `1..3/3` for `1/3`, `2/3` and `3/3`.
fn expanded(value: &str) -> Result<Vec<String>, String> {
    let range = value.split_once("..").and_then(|(first, rest)| {
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        let (last, suffix) = rest.split_at(digits);
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?, suffix))
    });
    match range {
        None => Ok(vec![value.to_owned()]),
        Some((first, last, _)) if first > last => {
            Err(format!("{value} is empty: {first} is greater than {last}"))
        }
        Some((first, last, _)) if last - first >= MAX_JOBS => {
            Err(format!("{value} has more than {MAX_JOBS} values"))
        }
        Some((first, last, suffix)) => {
            Ok((first..=last).map(|number| format!("{number}{suffix}")).collect())
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    ensure_usage!(
        !args.command.trim().is_empty() && !args.command.contains(['\n', '\r', '\0']),
        "the command of a job must be one line; put several commands into a script"
    );
    check(&args.command, &args.parameters)?;
    stdout::print(&lines(&args.command, &args.parameters))?;
    Ok(ExitStatus::Done)
}

/// Refuses parameters that do not fit the command.
fn check(command: &str, parameters: &[Parameter]) -> anyhow::Result<()> {
    let mut count = 1usize;
    for (nr, Parameter { name, values }) in parameters.iter().enumerate() {
        if parameters[..nr].iter().any(|other| other.name == *name) {
            bail_usage!("{name} appears twice; separate its values with commas");
        }
        if !placeholders(command).any(|known| known == name) {
            let similar = question(&nearest(name, placeholders(command)));
            bail_usage!("{name}: the command does not contain {{{name}}}{similar}");
        }
        count = count.saturating_mul(values.len());
    }
    ensure_usage!(
        count <= MAX_JOBS,
        "the parameters make {count} jobs; knee runs at most {MAX_JOBS}"
    );
    Ok(())
}

/// The names in braces in a command.
fn placeholders(command: &str) -> impl Iterator<Item = &str> {
    let names = command.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    names.filter(|name| !name.is_empty() && name.chars().all(is_of_name))
}

/// The commands of all combinations, one per line.
fn lines(command: &str, parameters: &[Parameter]) -> String {
    let count = parameters.iter().map(|parameter| parameter.values.len()).product::<usize>();
    let line = |nr: usize| {
        let mut rest = nr;
        let mut chosen = vec![(JOB, (nr + 1).to_string())];
        for Parameter { name, values } in parameters.iter().rev() {
            chosen.push((name.as_str(), values[rest % values.len()].clone()));
            rest /= values.len();
        }
        filled(command, &chosen) + "\n"
    };
    (0..count).map(line).collect()
}

/// The command with values instead of placeholders. Other text in braces belongs to the shell.
fn filled(command: &str, values: &[(&str, String)]) -> String {
    let mut parts = command.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let value = part.split_once('}').and_then(|(name, rest)| {
            let (_, value) = values.iter().find(|(known, _)| *known == name)?;
            Some((value, rest))
        });
        match value {
            Some((value, rest)) => text.extend([value.as_str(), rest]),
            None => text.extend(["{", part]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(texts: &[&str]) -> Vec<Parameter> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_range_stands_for_numbers_and_keeps_what_follows() {
        for (text, values) in [
            ("s=1..3/3", vec!["1/3", "2/3", "3/3"]),
            ("s=8..10,x", vec!["8", "9", "10", "x"]),
            ("s=../a,1...2", vec!["../a", "1...2"]),
            ("s=", vec![""]),
        ] {
            assert_eq!(text.parse::<Parameter>().unwrap().values, values, "{text}");
        }
        for text in ["s", "=1", "a b=1", "job=1", "s=2..1", "s=1..999999999", "s=a\nb"] {
            assert!(text.parse::<Parameter>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_parameter_varies_fastest() {
        let all = lines("{job}: {a}{b}", &parameters(&["a=x,y", "b=1..2"]));
        assert_eq!(all, "1: x1\n2: x2\n3: y1\n4: y2\n");
    }

    #[test]
    fn other_braces_are_kept_and_values_are_not_searched_for_placeholders() {
        let all = lines("awk '{print}' ${HOME} {a} {b", &parameters(&["a={a}"]));
        assert_eq!(all, "awk '{print}' ${HOME} {a} {b\n");
    }

    #[test]
    fn parameters_that_do_not_fit_the_command_are_refused() {
        let refusal = |command: &str, texts: &[&str]| {
            check(command, &parameters(texts)).unwrap_err().to_string()
        };
        assert_eq!(
            refusal("check {kernal}", &["kernel=a"]),
            "kernel: the command does not contain {kernel} (did you mean kernal?)"
        );
        assert!(refusal("{a}", &["a=1", "a=2"]).contains("appears twice"));
        let many = refusal("{a}{b}", &["a=1..1000", "b=1..1000"]);
        assert!(many.contains("1000000 jobs"), "{many}");
    }
}
