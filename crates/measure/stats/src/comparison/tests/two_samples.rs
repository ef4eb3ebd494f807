//! Welch and Mann–Whitney against results of scipy, whose origin is in
//! `tests/data/two_samples.txt`.

use crate::mann_whitney::mann_whitney;
use crate::welch::welch;

#[track_caller]
fn same(name: &str, line: usize, found: f64, expected: f64) {
    let scale = expected.abs().max(1e-300);
    assert!((found - expected).abs() / scale < 1e-8, "line {line}: {name} {found}, not {expected}");
}

#[test]
fn both_tests_agree_with_scipy() {
    let mut cases = 0;
    for (line, text) in (1..).zip(include_str!("../../../tests/data/two_samples.txt").lines()) {
        if text.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = text.split(" | ").collect();
        let numbers = |field: usize| -> Vec<f64> {
            fields[field].split(' ').map(|v| v.parse().unwrap()).collect()
        };
        let (before, after) = (numbers(0), numbers(1));
        same("p of t", line, welch(&before, &after).unwrap(), numbers(4)[0]);
        let (p, exact) = mann_whitney(&before, &after).unwrap();
        same("p of U", line, p, numbers(8)[0]);
        assert_eq!(exact, fields[9] == "exact", "line {line}");
        cases += 1;
    }
    assert!(cases > 20, "{cases} cases");
}
