use snapbox::{assert_data_eq, str};

use super::*;
use crate::view::fixture::example;

#[test]
fn the_table() {
    assert_data_eq!(
        table(&functions(&example()), 5).to_string(),
        str![[r#"
self                total               function
 50.0% ± 3.1%  500   50.0% ± 3.1%  500  mix  prog
 29.6% ± 2.8%  296   29.6% ± 2.8%  296  copy_page  [kernel]
 20.0% ± 2.5%  200   20.0% ± 2.5%  200  fib(int)  prog
  0.3% ± 0.4%    3   85.3% ± 2.2%  853  main  prog
  0.0% ± 0.2%    0   75.0% ± 2.7%  750  work  prog
(2 more, with 0.0% self time in total)

"#]]
    );
}

#[test]
fn a_function_that_calls_itself_counts_once() {
    let rows = functions(&example());
    let fib = rows.iter().find(|row| row.name == "fib(int)").unwrap();
    assert_eq!((fib.own.samples, fib.total.samples), (200, 200));
}

#[test]
fn an_inlined_function_is_the_same_function() {
    let rows = functions(&example());
    let mix: Vec<_> = rows.iter().filter(|row| row.name == "mix").collect();
    assert_eq!(mix.len(), 1);
    assert_eq!(mix[0].own.samples, 500);
}

/// The interval of 10 of 20 is 0.299 to 0.701, and that of none of 20 is 0 to 0.161.
#[test]
fn the_error_is_half_the_wilson_interval() {
    assert!((Part::of(10, 20).error - (0.7007 - 0.2993) / 2.0).abs() < 1e-4);
    assert!((Part::of(0, 20).error - 0.1611 / 2.0).abs() < 1e-4);
    assert_eq!(Part::of(0, 0).share, 0.0);
}

#[test]
fn the_name_of_a_file_does_not_look_like_that_of_the_kernel() {
    assert_eq!(short("/usr/lib/libc.so.6"), "libc.so.6");
    assert_eq!(short("[kernel]"), "[kernel]");
    assert_eq!(short("/tmp/[kernel]"), "/tmp/[kernel]");
}
