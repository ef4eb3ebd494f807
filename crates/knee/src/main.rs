//! x
use knee_measure::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).map(String::as_str) == Some("runner") {
        std::process::exit(runner::main());
    }
    let i = interrupt::Interrupt::install().unwrap();
    let mut w = workdir::WorkDir::create(std::path::Path::new("/tmp")).unwrap();
    let mode = if args[2] == "p" { testcase::Mode::Processes } else { testcase::Mode::Threads };
    let source = if args[1].contains('/') {
        job::Source::Plugin { path: args[1].clone().into() }
    } else {
        job::Source::BuiltIn {
            name: args[1].clone(),
            variant: args.get(4).cloned().unwrap_or_default(),
        }
    };
    let t = std::time::Instant::now();
    let dir = w.begin_round().unwrap();
    let r = launch::Launcher::this_program().run(
        &job::Job {
            source,
            mode,
            tasks: args[3].parse().unwrap(),
            cpus: vec![0, 1],
            sampler_cpu: None,
            warmup: 0.1,
            interval: 0.2,
            samples: Some(3),
            dir: dir.clone(),
        },
        100,
        &i,
        |d, s| {
            println!("{d} {s:?}");
            Ok(())
        },
    );
    println!("{r:?} {:?}", t.elapsed());
    w.end_round(&dir).unwrap();
}
