//! Measures the time of a comparison of two large runs:
//! `cargo run --release -p knee-stats --example compare_speed [POINTS [ROUNDS]]`.

use std::time::Instant;

use knee_stats::{CompareOptions, Drift, compare_all};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<usize>().expect("a number"));
    let points = arguments.next().unwrap_or(10_000);
    let rounds = arguments.next().unwrap_or(10);
    let mut random = oorandom::Rand64::new(1);
    let mut side = || (0..rounds).map(|_| 100.0 + random.rand_float()).collect::<Vec<f64>>();
    let pairs: Vec<_> = (0..points).map(|_| (side(), side(), Drift::NONE)).collect();
    let start = Instant::now();
    let comparisons = compare_all(&pairs, &CompareOptions::default());
    let took = start.elapsed();
    let different = comparisons.iter().flatten().filter(|c| c.verdict.is_change()).count();
    println!("{points} points of {rounds} rounds a side: {took:?}, {different} called different");
}
