//! Simulates the coverage of the intervals and the false alarms of the verdicts of this crate:
//! `cargo run --release -p knee-stats --example coverage`.
//!
//! For sides of n rounds from one distribution, it prints how often the 95% interval of the ratio
//! of medians contains 1, and how often a comparison calls the sides different. The tables in the
//! documentation of `bootstrap` and `comparison` are from this example.

use knee_stats::{CompareOptions, Drift, Verdict, compare, compare_all, ratio_of_medians};
use oorandom::Rand64;

const PAIRS: usize = 40_000;
const ROUNDS: [usize; 8] = [2, 3, 4, 5, 6, 7, 10, 20];

/// Draws the rate of one round.
type Round = fn(&mut Rand64) -> f64;

const DISTRIBUTIONS: [(&str, Round); 5] = [
    ("normal", |r| 100.0 + 3.0 * normal(r)),
    ("lognormal", |r| 100.0 * (0.3 * normal(r)).exp()),
    ("exponential", |r| 10.0 - 10.0 * (1.0 - r.rand_float()).ln()),
    // Student's distribution with 1.5 degrees of freedom has no variance.
    ("heavy tail", |r| 100.0 * (0.03 * normal(r) / gamma_three_quarters(r).sqrt()).exp()),
    // A neighbour slows down one round of five by up to a third.
    ("hit rounds", |r| {
        let hit = if r.rand_float() < 0.2 { 0.33 * r.rand_float() } else { 0.0 };
        100.0 * (1.0 - hit - 0.01 * r.rand_float())
    }),
];

fn main() {
    let options = CompareOptions::default();
    let mut random = Rand64::new(1);
    header("interval holds 1");
    for (name, round) in DISTRIBUTIONS {
        row(name, |n| {
            share(|| {
                let (before, after) = sides(n, round, &mut random);
                let interval = ratio_of_medians(&before, &after, options.confidence);
                interval.is_some_and(|i| i.low <= 1.0 && 1.0 <= i.high)
            })
        });
    }
    header("called different");
    for (name, round) in DISTRIBUTIONS {
        row(name, |n| {
            share(|| {
                let (before, after) = sides(n, round, &mut random);
                different(compare(&before, &after, &options).expect("there are rounds").verdict)
            })
        });
    }
    header("called different among 100 points, share of runs with any");
    for (name, round) in DISTRIBUTIONS {
        row(name, |n| {
            let runs = PAIRS / 100;
            let any = (0..runs).filter(|_| {
                let mut point = || {
                    let (before, after) = sides(n, round, &mut random);
                    (before, after, Drift::NONE)
                };
                let points: Vec<_> = (0..100).map(|_| point()).collect();
                compare_all(&points, &options).iter().flatten().any(|c| different(c.verdict))
            });
            any.count() as f64 / runs as f64
        });
    }
}

fn different(verdict: Verdict) -> bool {
    verdict.is_change()
}

fn sides(n: usize, round: Round, random: &mut Rand64) -> (Vec<f64>, Vec<f64>) {
    let mut side = || (0..n).map(|_| round(random)).collect();
    (side(), side())
}

fn share(mut holds: impl FnMut() -> bool) -> f64 {
    (0..PAIRS).filter(|_| holds()).count() as f64 / PAIRS as f64
}

fn header(title: &str) {
    print!("\n{title}\n{:12}", "rounds");
    ROUNDS.iter().for_each(|n| print!("{n:>8}"));
    println!();
}

fn row(name: &str, mut value: impl FnMut(usize) -> f64) {
    print!("{name:12}");
    ROUNDS.iter().for_each(|&n| print!("{:>8.4}", value(n)));
    println!();
}

/// Box and Muller's transformation.
fn normal(random: &mut Rand64) -> f64 {
    let radius = (-2.0 * (1.0 - random.rand_float()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.rand_float()).cos()
}

/// A gamma variate of shape 3/4 and mean 1, by Ahrens and Dieter's rejection for shapes below 1.
fn gamma_three_quarters(random: &mut Rand64) -> f64 {
    const SHAPE: f64 = 0.75;
    let edge = 1.0 + SHAPE / std::f64::consts::E;
    loop {
        let p = edge * random.rand_float();
        let weight = -(1.0 - random.rand_float()).ln();
        let variate = if p <= 1.0 { p.powf(1.0 / SHAPE) } else { -((edge - p) / SHAPE).ln() };
        let accepted =
            if p <= 1.0 { variate <= weight } else { variate.powf(SHAPE - 1.0) >= (-weight).exp() };
        if accepted && variate > 0.0 {
            return variate / SHAPE;
        }
    }
}
