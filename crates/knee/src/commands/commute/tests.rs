//! `knee commute tests`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use knee_commute::{Generated, Model, ModelError, Wanted, in_order, pairs};
use knee_measure::record::write_atomically;

use super::{From, operation, warn};
use crate::exit::ExitStatus;
use crate::present::number::plural;
use crate::stderr::tell;
use crate::stdout;

/// Between two lines of progress; the first comes after as long.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Write concrete tests, one line of JSON each: set-up, calls, and what they have to return
///
/// There is a test for every pair of operations, every situation in which they commute, and every
/// pattern of equal and different values there, up to isomorphism (conflict coverage).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute tests -o tests.jsonl                  every pair of the interface
  knee commute tests rename -o rename.jsonl          every pair that has rename in it
  knee commute tests open close                      these two at once, to standard output
  knee commute tests --sequential -o all.jsonl       also each operation alone, and what does not
                                                     commute, to check the model itself
  knee commute tests | jq -r .id | cut -d/ -f1 | sort | uniq -c     how many of each pair")]
pub(super) struct Args {
    /// Two to four operations to call at once; one: every pair with it; none: every pair
    #[arg(value_name = "OP", num_args = 0..=4)]
    operations: Vec<String>,

    /// Where to write the tests; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Also every operation alone, and pairs that do not commute with their results in either order
    #[arg(long)]
    sequential: bool,

    /// Most patterns of equality in one situation
    #[arg(long, value_name = "N", default_value_t = Wanted::default().patterns as u32,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    patterns: u32,

    #[command(flatten)]
    from: From,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let model = args.from.model()?;
    let sets = sets(args, &*model)?;
    let wanted = Wanted { patterns: args.patterns as usize, differing: args.sequential };
    let mut made = Made::default();
    let generate = |nr: usize| model.generate(&sets[nr], &args.from.limits(), &wanted);
    let mut told = Instant::now();
    in_order(sets.len(), generate, |nr, generated| {
        made.add(&*model, &sets[nr], generated, args);
        if told.elapsed() >= TELL_EVERY && nr + 1 < sets.len() {
            told = Instant::now();
            tell!("knee: {} of {} sets of operations, {} tests", nr + 1, sets.len(), made.tests);
        }
    });
    if let Some(error) = made.error {
        return Err(error.into());
    }
    if args.output == Path::new("-") {
        stdout::print_bytes(&made.lines)?;
    } else {
        write_atomically(&args.output, &made.lines)
            .with_context(|| format!("cannot write {}", args.output.display()))?;
    }
    let to = match args.output.as_path() {
        path if path == Path::new("-") => String::new(),
        path => format!(" to {}", path.display()),
    };
    let sets = plural(sets.len(), if args.sequential { "set" } else { "pair" });
    let sets = if args.operations.len() > 1 { args.operations.join(" and ") } else { sets };
    tell!("knee: wrote {} of {sets}{to}", plural(made.tests, "test"));
    if made.capped > 0 {
        tell!(
            "knee: {} with more than {} patterns of equality, of which that many were taken; raise \
             --patterns to have all",
            plural(made.capped, "situation"),
            args.patterns
        );
    }
    Ok(ExitStatus::Done)
}

/// Which operations are called at once.
fn sets(args: &Args, model: &dyn Model) -> anyhow::Result<Vec<Vec<usize>>> {
    let named = args
        .operations
        .iter()
        .map(|name| operation(model, name))
        .collect::<anyhow::Result<Vec<usize>>>()?;
    let mut alone: Vec<Vec<usize>> = match named.as_slice() {
        [] => (0..model.operations().len()).map(|nr| vec![nr]).collect(),
        named => named.iter().map(|nr| vec![*nr]).collect(),
    };
    alone.dedup();
    let together: Vec<Vec<usize>> = match named.as_slice() {
        [] => pairs(model).into_iter().map(Vec::from).collect(),
        [one] => {
            let with_it = pairs(model).into_iter().filter(|pair| pair.contains(one));
            with_it.map(Vec::from).collect()
        }
        at_once => vec![at_once.to_vec()],
    };
    Ok(if args.sequential { [alone, together].concat() } else { together })
}

/// What has been made so far.
#[derive(Default)]
struct Made {
    lines: Vec<u8>,
    tests: usize,
    capped: usize,
    error: Option<ModelError>,
}

impl Made {
    fn add(
        &mut self,
        model: &dyn Model,
        set: &[usize],
        generated: Result<Generated, ModelError>,
        args: &Args,
    ) {
        let generated = match generated {
            Ok(generated) => generated,
            Err(error) => {
                self.error.get_or_insert(error);
                return;
            }
        };
        let names: Vec<&str> = set.iter().map(|&nr| model.operations()[nr].0).collect();
        warn(&names.join(" and "), &generated.extent, &args.from);
        self.tests += generated.tests.len();
        self.capped += generated.capped;
        for test in &generated.tests {
            serde_json::to_writer(&mut self.lines, test).expect("a test is plain data");
            self.lines.push(b'\n');
        }
    }
}
