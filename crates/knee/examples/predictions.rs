//! Compares predictions of `knee predict` with published rates (examples/published.toml), as the tables of
//! docs/predicting.md.
//!
//! ```text
//! cargo build --release
//! cargo run --release -p knee --example predictions
//! cargo run --release -p knee --example predictions -- --only V1
//! cargo run --release -p knee --example predictions -- --here machine.toml --kernel sid
//! ```
//!
//! With `--here`, it compares predictions for two tasks with measurements on this machine, whose figures are in the file of
//! `knee machine measure`. This needs a quiet machine.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use clap::Parser;
use knee_stats::median;
use serde::Deserialize;

use serde_json::Value;

const PUBLISHED: &str = include_str!("published.toml");

#[derive(Parser)]
struct Args {
    /// Only entries whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    only: String,
    /// Measure one and two tasks here, and predict the second from the first with the figures in this file
    #[arg(long, value_name = "FILE.toml")]
    here: Option<String>,
    /// With --here, the kernel to trace
    #[arg(long, value_name = "RELEASE", default_value = "sid")]
    kernel: String,
    /// The program to predict with
    #[arg(long, default_value = "target/release/knee")]
    knee: PathBuf,
    /// Further options of `knee predict`
    #[arg(last = true, value_name = "OPTION")]
    more: Vec<String>,
}

#[derive(Deserialize)]
struct Published {
    curve: Vec<Curve>,
    ratio: Vec<Ratio>,
}

/// A curve of one kernel.
#[derive(Deserialize)]
struct Curve {
    name: String,
    testcase: String,
    mode: String,
    kernel: String,
    machine: String,
    at: f64,
    points: Vec<(u32, f64)>,
    /// Whether the entry does not count, because it is among the inputs or cannot be predicted.
    #[serde(default)]
    control: bool,
    /// Whether it was found after the model was finished. It does not count either.
    #[serde(default)]
    unseen: bool,
}

/// The ratio of two kernels at one task count.
#[derive(Deserialize)]
struct Ratio {
    name: String,
    testcase: String,
    mode: String,
    before: String,
    after: String,
    machine: String,
    at: f64,
    tasks: u32,
    ratio: f64,
    #[serde(default)]
    control: bool,
}

/// A prediction beside a measurement.
struct Pair {
    predicted: f64,
    low: f64,
    high: f64,
    measured: f64,
}

impl Pair {
    fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }

    fn is_in_band(&self) -> bool {
        (self.low..=self.high).contains(&self.measured)
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(machine) = &args.here {
        return here(&args, machine);
    }
    let published: Published = toml::from_str(PUBLISHED).context("published.toml")?;
    let (mut rates, mut ratios, mut bounds) = (Vec::new(), Vec::new(), 0);
    println!("| | tasks | measured | predicted | 90% band | error | class, limited by |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | --- |");
    for curve in published.curve.iter().filter(|curve| curve.name.contains(&args.only)) {
        let tasks: Vec<String> = curve.points.iter().map(|(tasks, _)| tasks.to_string()).collect();
        let options = [
            curve.testcase.as_str(),
            "-m",
            &curve.mode,
            "--kernel",
            &curve.kernel,
            "--machine",
            &curve.machine,
            "--at",
            &curve.at.to_string(),
            "-t",
            &tasks.join(","),
        ];
        let json = predict(&args, &options)?;
        let points = json["predictions"][0]["curves"][0]["points"].as_array().context("points")?;
        ensure!(points.len() == curve.points.len(), "{}: other points", curve.name);
        for (point, &(tasks, measured)) in points.iter().zip(&curve.points) {
            let class = point["class"].as_str().unwrap_or_default();
            let limit = point["stations"][0]["name"].as_str().filter(|_| class != "A");
            let why = format!("{class} {}", limit.unwrap_or_default());
            let counts = match (curve.control, curve.unseen) {
                (true, _) => " (control)",
                (false, true) => " (unseen)",
                (false, false) => "",
            };
            let name = format!("{}{counts}", curve.name);
            match pair(point, measured) {
                Some(pair) => {
                    row(&name, Some(tasks), &pair, 1e6, &why);
                    if counts.is_empty() {
                        rates.push(pair);
                    }
                }
                None => {
                    let bound = number(point, "bound").unwrap_or(f64::NAN) / 1e6;
                    let measured = measured / 1e6;
                    println!(
                        "| {name} | {tasks} | {measured:.3} | at most {bound:.3} | | | {why} |"
                    );
                    bounds += 1;
                }
            }
        }
    }
    for ratio in published.ratio.iter().filter(|ratio| ratio.name.contains(&args.only)) {
        let tasks = ratio.tasks.to_string();
        let options = [
            ratio.testcase.as_str(),
            "-m",
            &ratio.mode,
            "--kernel",
            &ratio.before,
            "--kernel",
            &ratio.after,
            "--machine",
            &ratio.machine,
            "--at",
            &ratio.at.to_string(),
            "-t",
            &tasks,
        ];
        let json = predict(&args, &options)?;
        let point = &json["predictions"][0]["curves"][1]["points"][0];
        let counts = if ratio.control { " (control)" } else { "" };
        let name = format!("{}, {} to {}{counts}", ratio.name, ratio.before, ratio.after);
        let class = point["class"].as_str().unwrap_or_default();
        let read = |key: &str| number(&point["ratio"], key);
        match (read("value"), read("low"), read("high")) {
            (Some(predicted), Some(low), Some(high)) => {
                let pair = Pair { predicted, low, high, measured: ratio.ratio };
                row(&name, Some(ratio.tasks), &pair, 1.0, class);
                if !ratio.control {
                    ratios.push(pair);
                }
            }
            _ => println!("| {name} | {tasks} | {} | ? | | | {class} |", ratio.ratio),
        }
    }
    score("rates", &rates);
    score("ratios", &ratios);
    println!("points of which only a bound is predicted: {bounds}");
    Ok(())
}

/// Compares predictions for two tasks with measurements on this machine.
fn here(args: &Args, machine: &str) -> anyhow::Result<()> {
    let listed = output(args, &["predict", "--list"])?;
    let listed = String::from_utf8_lossy(&listed);
    let testcases: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.contains(&args.only))
        .collect();
    let mut run = vec!["run", "-m", "processes", "-t", "1,2", "-r", "6", "--format", "json"];
    run.extend(&testcases);
    let measured: Value = serde_json::from_slice(&output(args, &run)?)?;
    let mut pairs = Vec::new();
    println!("| | measured | predicted | 90% band | error | class, limited by |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    for testcase in testcases {
        let curves = measured["curves"].as_array().context("curves")?;
        let rate = |tasks: u32| {
            let curve = curves.iter().find(|curve| curve["testcase"] == testcase)?;
            let points = curve["points"].as_array()?;
            let point = points.iter().find(|point| point["tasks"] == tasks)?;
            point["rate"].as_f64().filter(|_| point["disturbed"] == false)
        };
        let (Some(one), Some(two)) = (rate(1), rate(2)) else {
            println!("| {testcase} | disturbed | | | | |");
            continue;
        };
        let at = one.to_string();
        let kernel = &args.kernel;
        let options = [testcase, "--kernel", kernel, "--machine", machine, "--at", &at, "-t", "2"];
        let json = predict(args, &options)?;
        let point = &json["predictions"][0]["curves"][0]["points"][0];
        let limit = point["stations"][0]["name"].as_str().filter(|_| point["class"] != "A");
        let why = format!("{} {}", point["class"].as_str().unwrap_or("?"), limit.unwrap_or(""));
        match pair(point, two) {
            Some(pair) => {
                row(testcase, None, &pair, 1e6, &why);
                pairs.push(pair);
            }
            None => println!("| {testcase} | {:.3} | | | | {why} |", two / 1e6),
        }
    }
    score("rates", &pairs);
    Ok(())
}

/// What knee prints with these arguments.
fn output(args: &Args, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let mut command = Command::new(&args.knee);
    command.args(arguments).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot run {}", args.knee.display()))?;
    ensure!(output.status.success(), "knee {} failed", arguments.join(" "));
    Ok(output.stdout)
}

/// What `knee predict --json` prints with these options.
fn predict(args: &Args, options: &[&str]) -> anyhow::Result<Value> {
    let mut arguments = vec!["predict", "--json"];
    arguments.extend(options);
    arguments.extend(args.more.iter().map(String::as_str));
    Ok(serde_json::from_slice(&output(args, &arguments)?)?)
}

fn number(object: &Value, key: &str) -> Option<f64> {
    object[key].as_f64()
}

/// The prediction of a rate; `None` if there is only a bound.
fn pair(point: &Value, measured: f64) -> Option<Pair> {
    let predicted = number(point, "rate")?;
    Some(Pair { predicted, low: number(point, "low")?, high: number(point, "high")?, measured })
}

/// Prints a row. The rates are in multiples of `unit`.
fn row(name: &str, tasks: Option<u32>, pair: &Pair, unit: f64, why: &str) {
    let tasks = tasks.map_or(String::new(), |tasks| format!(" {tasks} |"));
    let Pair { predicted, low, high, measured } = pair;
    println!(
        "| {name} |{tasks} {:.3} | {:.3} | {:.3} to {:.3}{} | {:+.0}% | {why} |",
        measured / unit,
        predicted / unit,
        low / unit,
        high / unit,
        if pair.is_in_band() { "" } else { " ✗" },
        100.0 * pair.error()
    );
}

/// The errors of all pairs that count.
fn score(what: &str, pairs: &[Pair]) {
    if pairs.is_empty() {
        return;
    }
    let errors: Vec<f64> = pairs.iter().map(|pair| 100.0 * pair.error().abs()).collect();
    let mut sorted = errors.clone();
    sorted.sort_by(f64::total_cmp);
    let widths: Vec<f64> = pairs.iter().map(|pair| pair.high / pair.low).collect();
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let inside = pairs.iter().filter(|pair| pair.is_in_band()).count();
    println!(
        "{} {what}: median error {:.0}%, three quarters within {:.0}%, {inside} in the band, whose median width is a \
         factor of {:.2}",
        pairs.len(),
        middle(&errors),
        sorted[(3 * sorted.len()).div_ceil(4) - 1],
        middle(&widths)
    );
}
