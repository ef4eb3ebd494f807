//! `knee will-it-scale` in the place of a binary of that suite.

mod support;

use support::{Scratch, finish};

#[test]
fn the_lines_are_those_of_the_original() {
    let scratch = Scratch::new();
    let mut command = scratch.knee(&["will-it-scale", "sched_yield_threads", "-t", "2", "-s", "2"]);
    let finished = finish(&mut command);
    finished.assert_code(0);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(lines[0].starts_with("testcase:"), "{finished:#?}");
    assert_eq!(lines[1], "warmup");
    // Six samples are discarded, though the original calls them five.
    let sample = |line: &str| -> Vec<u64> {
        let fields: Vec<&str> = line.split(' ').collect();
        let names = ["min:", "max:", "total:"];
        assert_eq!(fields.len(), 3, "{line}");
        std::iter::zip(fields, names)
            .map(|(f, n)| f.strip_prefix(n).unwrap().parse().unwrap())
            .collect()
    };
    for line in lines[2..8].iter().chain(&lines[9..11]) {
        let values = sample(line);
        assert!(values[0] <= values[1] && values[1] <= values[2], "{line}");
    }
    assert_eq!(lines[8], "measurement");
    let average: u64 = lines[11].strip_prefix("average:").unwrap().parse().unwrap();
    let mean = lines[9..11].iter().map(|line| sample(line)[2]).sum::<u64>() / 2;
    assert!(average.abs_diff(mean) <= 1, "{average} {mean}");
    assert_eq!(lines.len(), 12);
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
}
