//! The matrix of the POSIX calls: situations that commute of all, per pair.
use std::time::Instant;

use knee_commute::models::posix::posix;
use knee_commute::{Limits, Verdict, explore_pairs};

fn main() {
    let posix = posix();
    let start = Instant::now();
    let explored = explore_pairs(&posix, &Limits::default());
    let (mut all, mut commuting) = (0, 0);
    for ([i, j], exploration) in explored {
        let exploration = exploration.unwrap_or_else(|error| panic!("{error}"));
        let n = exploration.situations.len();
        let yes = exploration.situations.iter().filter(|s| s.verdict == Verdict::Commute).count();
        let (a, b) = (posix.operations[i].name, posix.operations[j].name);
        let (deep, cut) = (exploration.too_deep, exploration.cut);
        println!("{a:10} {b:10} {yes:6} of {n:6} {deep} {cut}");
        all += n;
        commuting += yes;
    }
    println!("{commuting} of {all}, {:.2} s", start.elapsed().as_secs_f64());
}
