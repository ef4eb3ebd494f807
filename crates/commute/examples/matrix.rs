//! The POSIX calls, pair by pair: situations, those that commute, and tests.

use std::time::Instant;

use knee_commute::{Limits, Model, Wanted, in_order, models, pairs};

fn main() {
    let posix: &dyn Model = &*models()[0];
    let (names, pairs) = (posix.operations(), pairs(posix));
    let start = Instant::now();
    let (mut sum, mut capped) = (0, 0);
    let generate = |nr: usize| posix.generate(&pairs[nr], &Limits::default(), &Wanted::default());
    in_order(pairs.len(), generate, |nr, generated| {
        let generated = generated.unwrap_or_else(|error| panic!("{error}"));
        let [a, b] = pairs[nr].map(|nr| names[nr].0);
        println!("{a:10} {b:10} {:6} {}", generated.tests.len(), generated.capped);
        sum += generated.tests.len();
        capped += generated.capped;
        if nr % 20 == 0 {
            println!("{}", serde_json::to_string(&generated.tests.last()).unwrap());
        }
    });
    println!("{sum}, capped in {capped}, {:.2} s", start.elapsed().as_secs_f64());
}
