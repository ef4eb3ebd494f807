//! `knee commute explain`.

use std::path::PathBuf;

use knee_host::suggest::{nearest, question};
use knee_trace::findings::{Findings, Ranking, Separations, TestLine};

use crate::args::{most, whole};
use crate::exit::{ExitStatus, bail_usage, usage};
use crate::input::checks;
use crate::present::commute::explain::{ranking, test};
use crate::present::commute::layout::layouts;
use crate::stdout;

/// Rank the causes of conflicts: what to fix to make the most tests conflict-free
///
/// For each shared data item, knee prints how many tests share it, and how many tests would become
/// conflict-free if only this item were fixed. Then knee suggests steps: which items to fix first,
/// second, and so on. In most tests, the calls share more than one data item, so a step may combine
/// several fixes that help only together. If knee cannot identify a data item, it names the
/// functions that write the cache line.
///
/// knee also groups the data by kind, such as reference counts and locks. For each kind, it prints
/// how many tests would become conflict-free, and the usual remedy. knee derives the kind from the
/// type of the field, as the kernel describes it (BTF).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute explain 6.1
  knee commute explain 6.1 --set open,close            one pair
  knee commute explain 6.1 --test open,close/3.0       one test in detail
  knee commute explain 6.1 --layout                    fields to move apart
  knee commute explain 6.1 --layout=super_block        one struct in detail
  knee commute explain shards/* --json")]
pub(super) struct Args {
    /// Record from `knee commute check -o DIR`, or several directories: the shards of one check
    #[arg(value_name = "DIR", required = true)]
    records: Vec<PathBuf>,

    /// Set of operations; knee ranks only the causes of conflicts in tests of exactly these
    /// operations
    #[arg(long, value_name = "OP,OP,...", value_delimiter = ',', conflicts_with = "test")]
    set: Vec<String>,

    /// ID of one test to explain
    #[arg(long, value_name = "ID")]
    test: Option<String>,

    /// Show struct fields that calls share falsely (same cache line, different bytes), and which
    /// fields to move apart; with a STRUCT, show every field of that struct
    #[arg(long, value_name = "STRUCT", num_args = 0..=1, require_equals = true,
          default_missing_value = "", conflicts_with = "test")]
    layout: Option<String>,

    /// Maximum number of data items or structs to print, and maximum number of steps; 0 means all
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = whole::<usize>(0..=usize::MAX))]
    top: usize,

    /// Print JSON, with all data
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let findings = checks::open(&args.records)?;
    if let Some(id) = &args.test {
        let found = findings.tests.iter().find(|test| test.test == *id);
        let none = || usage(format!("there is no test {id} in {}", checks::names(&args.records)));
        let found = found.ok_or_else(none)?;
        let text = if args.json { found.to_line() } else { test(found) };
        stdout::print_or_show(args.json, &text)?;
        return Ok(ExitStatus::Done);
    }
    let tests: Vec<&TestLine> = match args.set.as_slice() {
        [] => findings.tests.iter().collect(),
        [one] => bail_usage!("--set {one}: name several operations, such as --set {one},{one}"),
        set => {
            let found = checks::of_operations(&findings.tests, set);
            if found.is_empty() {
                let (of, names) = (set.join(" and "), checks::names(&args.records));
                bail_usage!("there are no tests of {of} in {names}");
            }
            found
        }
    };
    let most = most(args.top);
    if let Some(of) = &args.layout {
        return show_layouts(of, tests, &findings, most, args);
    }
    let ranked = Ranking::of(tests, &findings.layouts, most);
    let printed = match args.json {
        true => format!("{:#}\n", serde_json::to_value(&ranked)?),
        false => ranking(&ranked, &args.title(&findings), most),
    };
    stdout::print_or_show(args.json, &printed)?;
    Ok(ExitStatus::Done)
}

fn show_layouts(
    of: &str,
    tests: Vec<&TestLine>,
    findings: &Findings,
    most: usize,
    args: &Args,
) -> anyhow::Result<ExitStatus> {
    let names = checks::names(&args.records);
    if findings.layouts.is_empty() {
        bail_usage!(
            "{names} contains no layouts of structs: the kernel does not describe its types \
             (CONFIG_DEBUG_INFO_BTF), or an older version of knee made the record; check the kernel again"
        );
    }
    let mut separations = Separations::of(tests, &findings.layouts);
    if !of.is_empty() {
        let name = of.strip_prefix("struct ").unwrap_or(of);
        let known = || separations.structs.iter().map(|of| &*of.name);
        if !known().any(|known| known == name) {
            bail_usage!(
                "in {names}, no test{} shares fields of a struct {name} falsely{}; --layout lists all structs",
                args.of_set(" of "),
                question(&nearest(name, known()))
            );
        }
        separations.structs.retain(|of| of.name == name);
        let layout = findings.layouts.structs.get(name);
        for found in &mut separations.structs {
            found.members = layout.map_or(Vec::new(), |layout| layout.members.clone());
        }
    }
    let printed = match args.json {
        true => format!("{:#}\n", serde_json::to_value(&separations)?),
        false => layouts(&separations, &args.title(findings), most),
    };
    stdout::print_or_show(args.json, &printed)?;
    Ok(ExitStatus::Done)
}

impl Args {
    /// The set of operations after `begin`; nothing without a set.
    fn of_set(&self, begin: &str) -> String {
        match self.set.as_slice() {
            [] => String::new(),
            set => format!("{begin}{}", set.join(" and ")),
        }
    }

    fn title(&self, findings: &Findings) -> String {
        findings.check.tested.to_string() + &self.of_set(", ")
    }
}
