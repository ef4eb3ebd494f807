//! Compares the output of the example `tour` with a snapshot.

#[path = "../examples/tour.rs"]
#[allow(dead_code, reason = "the example's own `main`")]
mod tour;

#[test]
fn the_tour_prints_the_expected_results() {
    let mut out = Vec::new();
    tour::tour(&mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    snapbox::assert_data_eq!(out, snapbox::file!["data/tour.txt"]);
}
