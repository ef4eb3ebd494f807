//! `knee list`: what can be measured.

use std::fmt::Write;

use knee_measure::select::{QUICK, select};
use knee_measure::testcase::{Family, Need, Testcase, Unit, Variant};
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

A * marks the quick set that a bare `knee run` measures. Some testcases have variants, written
NAME@VARIANT, that say what tasks share: `knee run read1 read1@same-file` measures reading a file
for each task, and one file for all. The first variant in the list is what the bare NAME means.
Those of family:vm with a = but shootdown=lazy can be combined: vm_mmap1@map=rcu,di=epoch.")]
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
                    testcase.variants.iter().map(|v| format!("@{}", v.name())).collect();
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
    text + &legend(testcases)
}

/// What the signs in the list mean.
fn legend(testcases: &[&Testcase]) -> String {
    let bold = anstyle::Style::new().bold();
    let mut text = String::new();
    if testcases.iter().any(|t| QUICK.contains(&t.name)) {
        let _ =
            writeln!(text, "\n{bold}*{bold:#}  in the quick set that a bare `knee run` measures");
    }
    let mut variants: Vec<Variant> = Vec::new();
    for &variant in testcases.iter().flat_map(|t| t.variants) {
        if !variants.contains(&variant) {
            variants.push(variant);
        }
    }
    if variants.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "\n{bold}variants{bold:#}  knee run NAME@VARIANT; a bare NAME means the first one of its list"
    );
    let has_designs = variants.contains(&Variant::OwnDesign);
    for variant in variants {
        let _ = writeln!(text, "  {:20} {}", format!("@{}", variant.name()), meaning(variant));
    }
    if has_designs {
        let _ = writeln!(
            text,
            "  map=, rmap=, di= and accounting= go together: @map=rcu,di=epoch; the others stand alone"
        );
    }
    text
}

fn meaning(variant: Variant) -> &'static str {
    match variant {
        Variant::Plain => "nothing to choose",
        Variant::OwnFile => "a file for each task",
        Variant::SameFile => {
            "one file for all tasks, each with an open file description of its own"
        }
        Variant::SameFileOwnPage => "one file for all tasks, each at a page of its own",
        Variant::OwnDirectory => "a directory for each task",
        Variant::SameDirectory => "one directory for all tasks, each with a name of its own",
        Variant::SameMutex => "one mutex for all tasks, also between processes",
        Variant::OwnMutex => "a mutex for each task",
        Variant::ProcessMutex => "one mutex per process, as in will-it-scale",
        Variant::SmallPages => "pages of 4 KiB only, so that every count is a page fault",
        Variant::HugePages => "with transparent huge pages",
        Variant::SystemPages => "with whatever pages the system gives, as in will-it-scale",
        Variant::SameCpu => "the helper of a task on the CPU of the task",
        Variant::NextCpu => "the helper of a task on the next CPU of the placement",
        Variant::OwnDesign => "the design of knee-vm",
        Variant::LazyShootdown => {
            "the design of knee-vm, where CPUs forget what was unmapped when they tick"
        }
        Variant::Design(design) => design.meaning(),
    }
}

fn describe(need: Need) -> String {
    match need {
        Need::Tmpfs => "a tmpfs at /dev/shm".to_owned(),
        Need::DirectIo => "O_DIRECT in --dir".to_owned(),
        Need::CCompiler => "cc".to_owned(),
        Need::HugePages => "transparent huge pages".to_owned(),
        Need::Loopback => "the loopback interface".to_owned(),
        Need::Exchange128 => "a compare-exchange of 128 bits".to_owned(),
        Need::Threads => "threads".to_owned(),
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
                "variants": t.variants.iter().map(|v| v.name()).collect::<Vec<_>>(),
                "will_it_scale_variant": t.original.map(|v| v.name()),
                "needs": t.needs.iter().map(|&n| describe(n)).collect::<Vec<_>>(),
                "quick": QUICK.contains(&t.name),
            })
        })
        .collect();
    format!("{:#}\n", json!({ "schema": 1, "testcases": entries }))
}
