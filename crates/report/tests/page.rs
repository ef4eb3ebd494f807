//! What a page holds, whatever the runs. `SNAPSHOTS=overwrite cargo test` accepts a changed page.

mod synthetic;

use knee_report::{Case, Curve, Missing, Mode, Page, Point, Run, render};
use snapbox::{assert_data_eq, file};

/// The page without its style and script, which have files of their own.
fn body(html: &str) -> String {
    let (head, rest) = html.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (rest, _) = rest.rsplit_once("<script>").unwrap();
    let (before, policy) = head.split_once("default-src").unwrap();
    let (_, after) = policy.split_once("\">").unwrap();
    // An element a line, so that a difference can be read.
    format!("{before}…\">{after}{rest}").replace("><", ">\n<") + "\n"
}

fn count(html: &str, what: &str) -> usize {
    html.matches(what).count()
}

fn one_curve(points: Vec<Point>) -> Page {
    Page {
        runs: vec![Run { label: "base".to_owned(), ..Run::default() }],
        cases: vec![Case::new("a1", "memory", "does a thing", "iterations")],
        curves: vec![Curve { points, ..Curve::new(0, "a1", Mode::Threads) }],
        ..Page::default()
    }
}

#[test]
fn a_small_page_is_what_it_was() {
    let mut page = synthetic::page("two").unwrap();
    let kept = ["fork1"];
    page.cases.retain(|case| kept.contains(&case.name.as_str()));
    page.curves.retain(|curve| kept.contains(&curve.testcase.as_str()));
    assert_data_eq!(body(&render(&page)), file!["data/small.html"].raw());
}

#[test]
fn one_number_of_tasks_is_no_curve() {
    let page = synthetic::page("single").unwrap();
    assert_data_eq!(body(&render(&page)), file!["data/single.html"].raw());
}

#[test]
fn equal_input_gives_equal_bytes_in_whatever_order_it_comes() {
    let page = synthetic::page("two").unwrap();
    let mut shuffled = page.clone();
    shuffled.curves.reverse();
    shuffled.cases.reverse();
    for curve in &mut shuffled.curves {
        curve.points.reverse();
    }
    assert!(render(&page) == render(&shuffled));
}

#[test]
fn every_curve_has_its_charts_and_every_chart_a_sentence() {
    let html = render(&synthetic::page("one").unwrap());
    // 14 testcases in two modes: a sparkline and three charts each.
    assert_eq!(count(&html, r#"<svg class="spark""#), 28);
    assert_eq!(count(&html, r#"<svg class="chart""#), 28 * 3);
    assert_eq!(count(&html, r#"role="img""#), count(&html, "<desc>"));
    assert_eq!(count(&html, "<desc></desc>"), 0);
}

#[test]
fn a_hundred_testcases_stay_below_three_megabytes() {
    let html = render(&synthetic::page("large").unwrap());
    assert_eq!(count(&html, r#"<li class="tile""#), 100);
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
}

#[test]
fn a_table_too_long_to_read_says_what_it_leaves_out() {
    let mut page = synthetic::page("huge").unwrap();
    let html = render(&page);
    assert!(html.contains("rows are not in this table; all are in the downloads"));
    page.curves.truncate(2);
    assert!(!render(&page).contains("rows are not in this table"));
}

#[test]
fn names_are_text_and_never_markup() {
    let evil = "</script><script>alert(1)</script><svg onload=alert(1)>\"'&";
    let mut page = one_curve(vec![Point::new(1, vec![1.0]), Point::new(2, vec![2.0])]);
    page.runs[0] = Run {
        label: evil.to_owned(),
        hostname: evil.to_owned(),
        kernel: evil.to_owned(),
        command_line: vec![evil.to_owned()],
        facts: vec![(evil.to_owned(), evil.to_owned())],
        warnings: vec![evil.to_owned()],
        failures: vec![evil.to_owned()],
        ..Run::default()
    };
    page.cases[0] = Case::new(evil, evil, evil, evil);
    page.curves[0].testcase = evil.to_owned();
    page.curves[0].missing = vec![Missing { tasks: 4, reason: evil.to_owned() }];
    let html = render(&page);
    assert!(!html.contains("<script>alert"));
    assert!(!html.contains("<svg onload"));
    // The data of the page, that of the testcase, and the script itself.
    assert_eq!(count(&html, "<script"), 3);
    assert_eq!(count(&html, "</script>"), 3);
}

#[test]
fn what_is_no_number_is_a_gap_and_not_in_any_chart() {
    let broken = |tasks, rate| Point { rate, ..Point::new(tasks, vec![1.0]) };
    let html = render(&one_curve(vec![
        Point::new(1, vec![1.0]),
        broken(2, f64::NAN),
        broken(4, f64::INFINITY),
        Point::new(8, vec![0.0]),
        Point::new(16, vec![5.0]),
    ]));
    let body = body(&html);
    for not_a_number in ["NaN", ">inf", " inf", "-inf"] {
        assert!(!body.contains(not_a_number), "{not_a_number}");
    }
    assert!(body.contains("not measured: the record holds a value for it that is not a number"));
}

#[test]
fn nothing_measured_is_said_and_nothing_drawn() {
    let mut page = one_curve(Vec::new());
    page.curves[0].missing = vec![Missing { tasks: 1, reason: "no such device".to_owned() }];
    let html = render(&page);
    assert!(html.contains("<h1>Nothing was measured</h1>"));
    assert!(html.contains("no such device"));
    assert_eq!(count(&html, r#"class="chart""#), 0);
    assert!(render(&Page::default()).contains("<h1>Nothing was measured</h1>"));
}

#[test]
fn the_page_fetches_nothing() {
    let html = render(&synthetic::page("two").unwrap());
    assert!(html.contains("default-src 'none'"));
    for reference in ["src=", "@import", "<link", "url(http", " style=", "onclick"] {
        assert!(!html.contains(reference), "{reference}");
    }
}
