use proptest::prelude::*;
use snapbox::{assert_data_eq, str};

use super::*;
use crate::capture::{Function, Stacks};
use crate::view::fixture::{captured, dearer, example, with_work};

#[test]
fn shares_are_compared_if_the_work_is_unknown() {
    assert_data_eq!(
        table(&diff(&example(), &dearer()), 5).to_string(),
        str![[r#"
before  after  self            total           function
 29.6%  43.7%  +14.1% ± 3.9 *  +14.1% ± 3.9 *  copy_page
 50.0%  40.0%  -10.0% ± 4.1 *  -10.0% ± 4.1 *  mix
 20.0%  16.0%  -4.0% ± 3.2 *   -4.0% ± 3.2 *   fib(int)
  0.0%   0.0%  +0.0% ± 0.3     +15.0% ± 3.8 *  [libc.so.6]
  0.0%   0.0%  +0.0% ± 0.3     +14.1% ± 3.9 *  entry_SYSCALL_64
(2 more, 1 of them beyond the sampling error)
* difference beyond the sampling error; up to 5% of these marks may be due to chance

"#]]
    );
}

/// `copy_page` takes twice as long, and the other functions as long as before, although their shares change.
#[test]
fn costs_per_iteration_are_compared_if_the_work_is_known() {
    let (before, mut after) = (with_work(example(), 10_000), with_work(dearer(), 10_000));
    after.cpu_seconds = Some(1.25);
    let diff = diff(&before, &after);
    assert_data_eq!(
        table(&diff, 5).to_string(),
        str![[r#"
Cost of an iteration: 100000.0 ns before, 125000.0 ns after.
    before       after  self                    total                   function
29600.0 ns  54600.0 ns  +25000.0 ns ± 4451.7 *  +25000.0 ns ± 4451.7 *  copy_page
    0.0 ns      0.0 ns  +0.0 ns ± 277.1         +25000.0 ns ± 4327.5 *  [libc.so.6]
    0.0 ns      0.0 ns  +0.0 ns ± 277.1         +25000.0 ns ± 4451.7 *  entry_SYSCALL_64
  300.0 ns    300.0 ns  +0.0 ns ± 479.4         +25000.0 ns ± 3130.4 *  main
    0.0 ns      0.0 ns  +0.0 ns ± 277.1         +25000.0 ns ± 3858.2 *  work
(2 more, 0 of them beyond the sampling error)
* difference beyond the sampling error; up to 5% of these marks may be due to chance

"#]]
    );
    let real: Vec<&str> =
        diff.rows.iter().filter(|row| row.own.is_real).map(|row| row.name.as_str()).collect();
    assert_eq!(real, ["copy_page"]);
}

#[test]
fn shares_are_compared_if_the_units_of_the_work_differ() {
    let (before, mut after) = (with_work(example(), 10_000), with_work(dearer(), 10_000));
    assert_ne!(diff(&before, &after).measure, Measure::Share);
    after.work.as_mut().unwrap().unit = "requests".to_owned();
    assert_eq!(diff(&before, &after).measure, Measure::Share);
}

#[test]
fn a_capture_does_not_differ_from_itself() {
    for capture in [example(), with_work(example(), 10_000)] {
        let diff = diff(&capture, &capture);
        assert!(diff.rows.iter().all(|row| row.own.change() == 0.0 && !row.total.is_real));
    }
}

#[test]
fn a_disturbed_capture_on_either_side_claims_no_difference() {
    for (disturbed, captures) in [
        ((true, false), "the first capture"),
        ((false, true), "the second capture"),
        ((true, true), "both captures"),
    ] {
        let with = |capture, is_disturbed| {
            let mut capture = with_work(capture, 10_000);
            capture.work.as_mut().unwrap().disturbed = is_disturbed;
            capture
        };
        let (before, after) = (with(example(), disturbed.0), with(dearer(), disturbed.1));
        let diff = diff(&before, &after);
        assert!(diff.rows.iter().all(|row| !row.own.is_real && !row.total.is_real));
        let table = table(&diff, 5).to_string();
        assert!(
            table.contains(&format!("Inconclusive: other work disturbed {captures};")),
            "{table}"
        );
        assert!(!table.contains("copy_page"), "{table}");
    }
}

#[test]
fn a_new_function_has_no_cost_before() {
    let mut stacks = Stacks::default();
    stacks.add("prog", [&Function::new("new", Kind::User)], 1000, 1000);
    let diff = diff(&example(), &captured(stacks));
    let new = diff.rows.iter().find(|row| row.name == "new").unwrap();
    assert_eq!((new.own.before, new.own.after, new.own.is_real), (0.0, 1.0, true));
}

/// A textbook example: 60 of 200 and 90 of 200 have z = 3.098, p = 0.00195.
#[test]
fn the_test_is_that_of_two_proportions() {
    let scale = Scale {
        measure: Measure::Share,
        whole: (1.0, 1.0),
        is_whole_known: true,
        samples: (200, 200),
        disturbed: None,
    };
    let mut difference = Difference { samples: (60, 90), ..Difference::default() };
    scale.fill(vec![&mut difference]);
    assert!((difference.p - 0.001_946).abs() < 2e-5, "{}", difference.p);
    // 1.96 √(0.3·0.7/200 + 0.45·0.55/200)
    assert!((difference.error - 0.093_79).abs() < 1e-4, "{}", difference.error);
}

/// Two counts of Poisson distributions with equal exposure: z = (b − a)/√(a + b).
#[test]
fn the_test_of_costs_is_that_of_two_rates() {
    let measure = Measure::NanosecondsPerIteration;
    let scale = Scale {
        measure,
        whole: (1000.0, 1000.0),
        is_whole_known: false,
        samples: (1000, 1000),
        disturbed: None,
    };
    let mut difference = Difference { samples: (100, 144), ..Difference::default() };
    scale.fill(vec![&mut difference]);
    let z = 44.0 / 244.0_f64.sqrt();
    assert!((difference.p - erfc(z / 2.0_f64.sqrt())).abs() < 1e-12);
}

/// A function in all samples has the whole measured CPU time, without sampling error.
#[test]
fn measured_cpu_time_has_no_sampling_error() {
    let measure = Measure::NanosecondsPerIteration;
    let scale = Scale {
        measure,
        whole: (1000.0, 1500.0),
        is_whole_known: true,
        samples: (100, 80),
        disturbed: None,
    };
    let mut all = Difference { samples: (100, 80), ..Difference::default() };
    scale.fill(vec![&mut all]);
    assert_eq!((all.change(), all.error, all.is_real), (500.0, 0.0, true));
}

proptest! {
    /// In two captures of one population, few functions are marked.
    #[test]
    fn chance_alone_is_rarely_marked(seed in any::<u64>()) {
        let sample = |mut state: u64| {
            let mut stacks = Stacks::default();
            let functions: Vec<_> =
                (0..100).map(|n| Function::new(format!("f{n}"), Kind::User)).collect();
            for _ in 0..5000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                stacks.add("p", [&functions[(state >> 33) as usize % 100]], 1, 1);
            }
            captured(stacks)
        };
        let diff = diff(&sample(seed), &sample(!seed));
        let marked = diff.rows.iter().filter(|row| row.own.is_real).count();
        prop_assert!(marked <= 5, "{marked}");
    }
}
