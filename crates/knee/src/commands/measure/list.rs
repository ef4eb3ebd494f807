//! `knee list`: list the testcases and their parameters.

use std::collections::BTreeSet;
use std::fmt::Write;

use knee_host::text::{Cell, Column, Screen, Table};
use knee_results::Family;
use knee_run::parameter::{Choice, Parameter};
use knee_run::server::Server;
use knee_run::testcase::{Need, Testcase};
use knee_testcases::{BuiltInServer, CATALOGUE, QUICK, SERVERS};
use serde_json::{Value, json};

use crate::args::complete;
use crate::args::selection::{Selection, description, is_description};
use crate::exit::{ExitStatus, bail_usage};
use crate::present::style::{BOLD, DIM};
use crate::stdout;

/// List testcases with their parameters, and servers
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee list                    list every testcase
  knee list 'mmap*'            list matching testcases
  knee list family:lock        list a family
  knee list nginx --toml       print the description of a server
  knee list ./my-server.toml   check your own description, without running it
  knee list --json             print JSON

A * marks the quick set, which `knee run` measures by default.

Some testcases have parameters, written NAME@KEY=VALUE. For example, in read1 each task \
reads its own file, and in read1@file=same all tasks read one file. Separate several parameters \
with commas: vm_mmap1@map=rcu,di=epoch. The first value of each parameter is the default.")]
pub(crate) struct Args {
    /// Testcases and servers to list: names, globs, family:NAME or server description files
    /// [default: all]
    #[arg(value_name = "NAME | GLOB | family:NAME | FILE.toml", add = complete::testcases())]
    words: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print the description of a server, as a template for your own
    #[arg(long, conflicts_with = "json")]
    toml: bool,
}

/// A server, and its description in TOML.
struct Listed {
    server: Server,
    toml: String,
}

impl Listed {
    fn built_in(server: &BuiltInServer) -> Self {
        Self { server: server.parsed(), toml: server.toml.to_owned() }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitStatus> {
    let (files, words): (Vec<String>, Vec<String>) =
        args.words.into_iter().partition(|word| is_description(word));
    let (testcases, built_in): (Vec<&Testcase>, Vec<&BuiltInServer>) =
        match (words.is_empty(), files.is_empty()) {
            (true, true) => (CATALOGUE.all().collect(), SERVERS.iter().collect()),
            (true, false) => Default::default(),
            (false, _) => {
                let Selection { testcases, servers } = Selection::of(&words, true)?;
                let mut names = BTreeSet::new();
                let is_new = |server: &&BuiltInServer| names.insert(server.name);
                let servers = servers.iter().map(|chosen| chosen.server).filter(is_new).collect();
                (testcases.iter().map(|selected| selected.testcase).collect(), servers)
            }
        };
    let mut servers: Vec<Listed> = built_in.into_iter().map(Listed::built_in).collect();
    for file in &files {
        let (toml, server) = description(file)?;
        servers.push(Listed { server, toml });
    }
    if args.toml {
        let ([], [listed]) = (&testcases[..], &servers[..]) else {
            bail_usage!("--toml prints the description of one server: knee list nginx --toml");
        };
        stdout::print(&listed.toml)?;
        return Ok(ExitStatus::Done);
    }
    match args.json {
        true => stdout::print_json(&as_json(&testcases, &servers))?,
        false => {
            let screen = Screen::of_stdout();
            stdout::print(
                &(as_text(&testcases, &servers, &screen) + &legend(&testcases, &screen)),
            )?;
        }
    }
    Ok(ExitStatus::Done)
}

fn as_text(testcases: &[&Testcase], servers: &[Listed], screen: &Screen) -> String {
    let mut table = Table::new(vec![Column::left(""), Column::left("").gap(1)]);
    let mut is_first = true;
    for family in Family::ALL {
        let mut members = testcases.iter().filter(|t| t.family == family).peekable();
        if members.peek().is_none() {
            continue;
        }
        let gap = if std::mem::take(&mut is_first) { "" } else { "\n" };
        table.text(format!("{gap}{BOLD}{family}{BOLD:#}"));
        for testcase in members {
            let star = if QUICK.contains(&testcase.name) { "*" } else { "" };
            let name = format!("  {}{star}", testcase.name);
            table.row(vec![name.into(), testcase.description.into()]);
            let mut notes = Vec::new();
            let parameters: Vec<String> =
                open(testcase).map(|p| format!("{}={}", p[0].key, values(p).join("|"))).collect();
            if !parameters.is_empty() {
                notes.push(parameters.join(" "));
            }
            if !testcase.needs.is_empty() {
                let needs: Vec<String> = testcase.needs.iter().map(|&n| describe(n)).collect();
                notes.push(format!("needs {}", needs.join(", ")));
            }
            if !notes.is_empty() {
                table.row(vec![Cell::default(), Cell::new(notes.join("; "), DIM)]);
            }
        }
    }
    if !servers.is_empty() {
        let gap = if is_first { "" } else { "\n" };
        table.text(format!("{gap}{BOLD}{}{BOLD:#}", Family::Server));
    }
    for Listed { server, .. } in servers {
        table.row(vec![format!("  {}", server.name).into(), server.description.clone().into()]);
        let needs = needs_of(server);
        let needs = (!needs.is_empty()).then(|| format!("needs {}", needs.join(", ")));
        let host = server.load.host.as_ref().map(|host| format!("load from {}", host.name()));
        let notes: Vec<String> = [needs, host].into_iter().flatten().collect();
        if !notes.is_empty() {
            table.row(vec![Cell::default(), Cell::new(notes.join("; "), DIM)]);
        }
    }
    table.render(screen)
}

/// `nginx (nginx-light)`: a program, and the Debian package that contains it.
fn needs_of(server: &Server) -> Vec<String> {
    server.needs.iter().map(|need| format!("{} ({})", need.program, need.package)).collect()
}

/// The legend: what the star and the parameters in the list mean.
fn legend(testcases: &[&Testcase], screen: &Screen) -> String {
    let mut text = String::new();
    if testcases.iter().any(|t| QUICK.contains(&t.name)) {
        let _ = writeln!(
            text,
            "\n{BOLD}*{BOLD:#}  in the quick set, which `knee run` measures by default"
        );
    }
    let mut choices: Vec<Choice> = Vec::new();
    for &choice in testcases.iter().flat_map(|t| open(t)).flatten() {
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    if choices.is_empty() {
        return text;
    }
    let head = format!(
        "\n{BOLD}parameters{BOLD:#}  knee run NAME@KEY=VALUE,…; the first value of each parameter \
         is the default\n"
    );
    text += &screen.wrap(&head, "            ");
    let mut table = Table::new(vec![Column::left(""), Column::left("").gap(1)]);
    for choice in choices {
        let needs = match choice.only_with {
            Some((key, values)) => format!(" (with {key}={})", values.join("|")),
            None => String::new(),
        };
        table.row(vec![format!("  {choice}").into(), format!("{}{needs}", choice.meaning).into()]);
    }
    text + &table.render(screen)
}

/// Parameters that have more than one value.
fn open(testcase: &Testcase) -> impl Iterator<Item = Parameter> {
    testcase.parameters.iter().copied().filter(|parameter| parameter.len() > 1)
}

fn values(parameter: Parameter) -> Vec<&'static str> {
    parameter.iter().map(|choice| choice.value).collect()
}

fn describe(need: Need) -> String {
    match need {
        Need::Tmpfs => "a tmpfs at /dev/shm".to_owned(),
        Need::DirectIo => "O_DIRECT support in --dir".to_owned(),
        Need::CCompiler => "a C compiler (cc)".to_owned(),
        Need::HugePages => "transparent huge pages".to_owned(),
        Need::Loopback => "the loopback interface".to_owned(),
        Need::Exchange128 => "a 128-bit compare-exchange".to_owned(),
        Need::Threads => "threads".to_owned(),
        Need::Memory(bytes) => format!("{} MiB of memory per task", bytes >> 20),
        Need::OpenFiles(n) => format!("{n} open files per task"),
    }
}

fn as_json(testcases: &[&Testcase], servers: &[Listed]) -> Value {
    let servers = servers.iter().map(|Listed { server, .. }| {
        json!({
            "name": server.name,
            "family": Family::Server,
            "description": server.description,
            "unit": server.unit,
            "bytes": 0,
            "parameters": [],
            "will_it_scale": null,
            "needs": needs_of(server),
            "load_host": server.load.host,
            "quick": false,
        })
    });
    let entries: Vec<_> = testcases
        .iter()
        .map(|t| {
            json!({
                "name": t.name,
                "family": t.family,
                "description": t.description,
                "unit": t.unit.name,
                "bytes": t.unit.bytes,
                "parameters": t.parameters.iter().map(|p| json!({
                    "key": p[0].key,
                    "values": values(p),
                    "only_with": p[0].only_with.map(|(key, values)| json!({
                        "key": key, "values": values,
                    })),
                })).collect::<Vec<_>>(),
                "will_it_scale": t.original.map(|choice| choice.to_string()),
                "needs": t.needs.iter().map(|&n| describe(n)).collect::<Vec<_>>(),
                "quick": QUICK.contains(&t.name),
            })
        })
        .chain(servers)
        .collect();
    json!({ "schema": 1, "testcases": entries })
}
