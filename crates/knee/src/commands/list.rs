//! `knee list`: what can be measured.

use std::fmt::Write;

use knee_measure::select::{QUICK, select};
use knee_measure::testcase::{Family, Need, Testcase, Unit};
use knee_measure::testcases;
use serde_json::json;

use crate::exit::{ExitStatus, usage};
use crate::stdout;

/// List the testcases by family, what one iteration does and what it needs
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee list                    everything
  knee list 'mmap*'            these
  knee list family:lock        a family
  knee list --json             for programs

A * marks the quick set that a bare `knee run` measures. What the tasks of a testcase share is
chosen with an @: `knee run read1@same-file`; the first of its variants is the default.")]
pub(crate) struct Args {
    /// Names, globs or family:NAME; all without
    #[arg(value_name = "NAME | GLOB | family:NAME")]
    words: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitStatus> {
    let chosen: Vec<&Testcase> = if args.words.is_empty() {
        testcases::all().collect()
    } else {
        let selected = select(&args.words).map_err(|e| usage(e.to_string()))?;
        selected.iter().map(|s| s.testcase).collect()
    };
    let text = if args.json { as_json(&chosen) } else { as_text(&chosen) };
    stdout::print(&text)?;
    Ok(ExitStatus::Done)
}

fn as_text(testcases: &[&Testcase]) -> String {
    let bold = anstyle::Style::new().bold();
    let dim = anstyle::Style::new().dimmed();
    let width = testcases.iter().map(|t| t.name.len()).max().unwrap_or(0) + 1;
    let mut text = String::new();
    for family in Family::ALL {
        let mut members = testcases.iter().filter(|t| t.family == family).peekable();
        if members.peek().is_none() {
            continue;
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{bold}{family}{bold:#}");
        for testcase in members {
            let star = if QUICK.contains(&testcase.name) { "*" } else { "" };
            let name = format!("{}{star}", testcase.name);
            let _ = writeln!(text, "  {name:width$} {}", testcase.description);
            let mut notes = Vec::new();
            if testcase.variants.len() > 1 {
                let names: Vec<String> =
                    testcase.variants.iter().map(|v| format!("@{}", v.as_str())).collect();
                notes.push(names.join(" "));
            }
            if testcase.unit.name != Unit::ITERATIONS.name {
                notes.push(format!("counts {}", testcase.unit.name));
            }
            if !testcase.needs.is_empty() {
                let needs: Vec<String> = testcase.needs.iter().map(|&n| describe(n)).collect();
                notes.push(format!("needs {}", needs.join(", ")));
            }
            if !notes.is_empty() {
                let _ = writeln!(text, "  {:width$} {dim}{}{dim:#}", "", notes.join("; "));
            }
        }
    }
    text
}

fn describe(need: Need) -> String {
    match need {
        Need::Tmpfs => "a tmpfs at /dev/shm".to_owned(),
        Need::DirectIo => "O_DIRECT in --dir".to_owned(),
        Need::CCompiler => "cc".to_owned(),
        Need::HugePages => "transparent huge pages".to_owned(),
        Need::Loopback => "the loopback interface".to_owned(),
        Need::Memory(bytes) => format!("{} MiB of memory per task", bytes >> 20),
        Need::OpenFiles(n) => format!("{n} open files per task"),
    }
}

fn as_json(testcases: &[&Testcase]) -> String {
    let entries: Vec<_> = testcases
        .iter()
        .map(|t| {
            json!({
                "name": t.name,
                "family": t.family,
                "description": t.description,
                "unit": t.unit.name,
                "bytes": t.unit.bytes,
                "variants": t.variants.iter().map(|v| v.as_str()).collect::<Vec<_>>(),
                "will_it_scale_variant": t.original.map(|v| v.as_str()),
                "needs": t.needs.iter().map(|&n| describe(n)).collect::<Vec<_>>(),
                "quick": QUICK.contains(&t.name),
            })
        })
        .collect();
    format!("{:#}\n", json!({ "schema": 1, "testcases": entries }))
}
