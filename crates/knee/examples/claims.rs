//! How often knee claims a difference where there is none, and finds one where there is one, beside
//! planted loads.
//!
//! ```text
//! cargo build --release
//! cargo run --release -p knee --example claims -- identical --pairs 40
//! cargo run --release -p knee --example claims -- ab --runs 100
//! cargo run --release -p knee --example claims -- power --runs 50 --percent 5 --default-settings
//! cargo run --release -p knee --example claims -- power --runs 50 --percent 2 -- --until-decided 2%
//! ```
//!
//! `--load none|hog|hogs|bursts|stream` restricts a measurement to one load. The loads are threads of
//! this program. Rounds are short, unless `--default-settings` is given. Options after `--` are those of
//! `knee run` or `knee ab`. Each line of the output is a row of a table in docs/benchmarks.md.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::{Parser, ValueEnum};
use serde_json::Value;

const TESTCASES: [&str; 8] =
    ["getppid1", "mmap1", "page_fault1", "pwrite1", "open1", "pipe1", "futex1", "malloc1"];
/// Short rounds, so that a few hundred runs take hours instead of days.
const SHORT: [&str; 4] = ["--interval", "0.05", "--warmup", "0.02"];
/// Steps of the loop that the plug-ins of `power` run per iteration.
const STEPS: u32 = 2000;

#[derive(Parser)]
struct Args {
    #[arg(value_enum)]
    what: What,
    /// Pairs of runs for each load
    #[arg(long, default_value_t = 40)]
    pairs: u32,
    /// Comparisons for each load
    #[arg(long, default_value_t = 50)]
    runs: u32,
    /// How much more a plug-in does than the other
    #[arg(long, default_value_t = 5)]
    percent: u32,
    /// Measure rounds as long as knee's defaults make them
    #[arg(long)]
    default_settings: bool,
    /// Keep the records of identical pairs that knee calls different, in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Only this load
    #[arg(long, value_enum)]
    load: Option<Load>,
    /// The program to measure with
    #[arg(long, default_value = "target/release/knee")]
    knee: PathBuf,
    /// Further options of `knee run` or `knee ab`
    #[arg(last = true, value_name = "OPTION")]
    more: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Compare pairs of identical runs, beside a load in one of them or in both
    Identical,
    /// Compare a testcase with itself by `knee ab`
    Ab,
    /// Compare a plug-in with one that does more
    Power,
}

#[derive(Clone, Copy, PartialEq, Debug, ValueEnum)]
enum Load {
    None,
    Hog,
    Hogs,
    Bursts,
    Stream,
}

/// A running load. Dropping it ends it.
struct Running {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(self) -> Running {
        let over = Arc::new(AtomicBool::new(false));
        let threads = match self {
            Self::None => 0,
            Self::Hogs => 2,
            Self::Hog | Self::Bursts | Self::Stream => 1,
        };
        let thread = |_| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || self.run(&over))
        };
        Running { threads: (0..threads).map(thread).collect(), over }
    }

    fn run(self, over: &AtomicBool) {
        let mut memory = vec![1_u8; if self == Self::Stream { 256 << 20 } else { 0 }];
        let mut random = 1_u32;
        while !over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(50) {
                std::hint::spin_loop();
                if self == Self::Stream {
                    let next = memory[0].wrapping_add(1);
                    memory.fill(next);
                    std::hint::black_box(&mut memory);
                }
            }
            if self == Self::Bursts {
                // 100 to 900 ms, from a linear congruential generator (Numerical Recipes).
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                std::thread::sleep(Duration::from_millis(
                    100 + u64::from(random >> 22) * 800 / 1024,
                ));
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Verdicts of points.
#[derive(Default)]
struct Tally {
    changed: usize,
    slower: usize,
    same: usize,
    inconclusive: usize,
    disturbed: usize,
}

impl Tally {
    fn add(&mut self, document: &Value) {
        let comparisons = document["comparisons"].as_array().into_iter().flatten();
        for point in comparisons.flat_map(|one| one["points"].as_array().into_iter().flatten()) {
            match point["verdict"].as_str() {
                Some("slower") => (self.changed, self.slower) = (self.changed + 1, self.slower + 1),
                Some("faster") => self.changed += 1,
                Some("same") => self.same += 1,
                _ if point["disturbed"] == true => self.disturbed += 1,
                _ => self.inconclusive += 1,
            }
        }
    }

    fn all(&self) -> usize {
        self.changed + self.same + self.inconclusive + self.disturbed
    }
}

struct Bench {
    knee: PathBuf,
    dir: tempfile::TempDir,
    /// Options of all measurements.
    options: Vec<String>,
    keep: Option<PathBuf>,
}

impl Bench {
    /// Runs knee, and returns what it prints as JSON, if it does.
    fn knee(&self, args: &[&str]) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.knee);
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("{}", self.knee.display()))?;
        let status = output.status.code();
        ensure!(matches!(status, Some(0 | 5)), "knee {args:?}: {}", show(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
    }

    fn options(&self) -> Vec<&str> {
        self.options.iter().map(String::as_str).collect()
    }

    fn forget(&self, record: &str) {
        let _ = std::fs::remove_dir_all(self.dir.path().join(record));
    }

    fn identical(&self, load: Load, pairs: u32) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        for pair in 0..pairs {
            for (side, name) in ["before", "after"].into_iter().enumerate() {
                // Beside the first run, the second run, both.
                let loaded = pair % 3 == 2 || pair % 3 == side as u32;
                let _load = if loaded { load } else { Load::None }.start();
                self.forget(name);
                let args = ["run", "-q", "-m", "processes", "-t", "1,2,3", "-o", name];
                self.knee(&[&args[..], &self.options(), &TESTCASES].concat())?;
            }
            let claims = tally.changed;
            tally.add(&self.knee(&["compare", "before", "after", "--json"])?);
            if let Some(keep) = self.keep.as_ref().filter(|_| tally.changed > claims) {
                let kept = keep.join(format!("{load:?}-{pair}").to_lowercase());
                std::fs::create_dir_all(&kept)?;
                let records = ["before", "after"].map(|name| self.dir.path().join(name));
                let copied = Command::new("cp").arg("-r").args(records).arg(&kept).status()?;
                ensure!(copied.success(), "cannot keep the records in {}", kept.display());
            }
            eprint!("\r{load:?}: {} of {pairs} pairs, {} claims ", pair + 1, tally.changed);
        }
        eprintln!();
        Ok(tally)
    }

    fn ab(&self, load: Load, sides: [&str; 2], runs: u32) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        for run in 0..runs {
            let _load = load.start();
            self.forget("ab");
            let [before, after] = sides;
            let args = ["ab", "-q", "-t", "1", "-m", "processes", "-o", "ab", "--json"];
            let sides = ["--before", before, "--after", after];
            tally.add(&self.knee(&[&args[..], &sides, &self.options()].concat())?);
            eprint!("\r{load:?}: {} of {runs} runs, {} claims ", run + 1, tally.changed);
        }
        eprintln!();
        Ok(tally)
    }

    /// A plug-in whose iteration takes `steps` steps.
    fn plugin(&self, name: &str, steps: u32) -> anyhow::Result<String> {
        let source = self.dir.path().join(format!("{name}.c"));
        let text = format!(
            "char *testcase_description = \"steps\";\n\
             void testcase(unsigned long long *iterations, unsigned long nr) {{\n\
             for (;;) {{ for (volatile unsigned i = 0; i < {steps}; i++); ++*iterations; }} }}\n"
        );
        std::fs::write(&source, text)?;
        let plugin = source.with_extension("so");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&plugin).arg(&source);
        ensure!(cc.status().context("cc")?.success(), "cc failed");
        Ok(plugin.to_str().context("the path is UTF-8")?.to_owned())
    }
}

fn show(stderr: &[u8]) -> String {
    String::from_utf8_lossy(stderr).trim().to_owned()
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let knee = std::path::absolute(&args.knee)?;
    if !Path::new(&knee).exists() {
        bail!("{} is missing: run cargo build --release first", knee.display());
    }
    let short: &[&str] = if args.default_settings { &[] } else { &SHORT };
    let options = short.iter().map(|option| (*option).to_owned()).chain(args.more).collect();
    let keep = args.keep;
    let bench = Bench { knee, dir: tempfile::tempdir()?, options, keep };
    println!(
        "| load | points | called different | slower | same | inconclusive | disturbed | minutes |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for &load in Load::value_variants() {
        if args.load.is_some_and(|only| only != load) {
            continue;
        }
        let begun = Instant::now();
        let tally = match args.what {
            What::Identical => bench.identical(load, args.pairs)?,
            What::Ab => bench.ab(load, ["getppid1"; 2], args.runs)?,
            What::Power => {
                let before = bench.plugin("before", STEPS)?;
                let after = bench.plugin("after", STEPS + STEPS * args.percent / 100)?;
                bench.ab(load, [&before, &after], args.runs)?
            }
        };
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {minutes:.0} |",
            load.to_possible_value().expect("no variant is skipped").get_name(),
            tally.all(),
            tally.changed,
            tally.slower,
            tally.same,
            tally.inconclusive,
            tally.disturbed
        );
    }
    Ok(())
}
