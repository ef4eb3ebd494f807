//! The comments of the example `tour` are true.

#[path = "../examples/tour.rs"]
#[allow(dead_code, reason = "the example's own `main`")]
mod tour;

#[test]
fn the_tour_does_what_its_comments_say() {
    let mut out = Vec::new();
    tour::tour(&mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    snapbox::assert_data_eq!(out, snapbox::file!["data/tour.txt"]);
}
