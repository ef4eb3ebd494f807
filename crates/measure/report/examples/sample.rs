//! Writes a synthetic page: `cargo run -p knee-report --example sample -- KIND FILE`.
//!
//! Kinds: `one` run, `two` runs (before and after), `few` testcases in two runs, `single` task
//! count, `latency` of requests, `doubtful` points, `large` (100 testcases in two modes), `huge` (100
//! testcases with 256 points each),
//! `predictions` (beside a run), `matrix` (of four operations), `matrices` (of 25 and of four, beside two runs), `shared` (a
//! check). The numbers are made up by a formula; the same kind always gives the same bytes.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, file] = arguments.as_slice() else {
        eprintln!("usage: sample KIND FILE");
        std::process::exit(2);
    };
    let Some(page) = synthetic::page(kind) else {
        eprintln!(
            "no kind '{kind}': one, two, few, single, latency, doubtful, large, huge, predictions, matrix, \
             matrices, shared"
        );
        std::process::exit(2);
    };
    std::fs::write(file, knee_report::render(&page)).expect("the page can be written");
}
