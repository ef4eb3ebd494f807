//! The contents of pages. `SNAPSHOTS=overwrite cargo test` accepts a changed page.

mod synthetic;

use std::collections::BTreeMap;

use knee_host::counters::Counter;
use knee_report::{Change, Curve, Missing, Page, Run, render};
use knee_results::{
    self as results, Axis, CaseId, CaseInfo, Mode, PerTask, Point, PointCounters, Served,
};
use knee_stats::{CompareOptions, compare};
use serde_json::json;
use snapbox::{assert_data_eq, file};

/// The visible text of a page: a line for each row, item, heading and sentence, and the
/// descriptions of the charts.
fn words(html: &str) -> String {
    let (_, body) = html.split_once("<body").unwrap();
    let mut text = String::new();
    let mut rest = body.split_once('>').unwrap().1;
    let mut is_drawn = false;
    while let Some((before, after)) = rest.split_once('<') {
        if !is_drawn {
            text += before;
        }
        let (tag, after) = after.split_once('>').unwrap();
        let name = tag.split_whitespace().next().unwrap_or_default();
        rest = match name {
            "script" => after.split_once("</script>").unwrap().1,
            _ => after,
        };
        match name {
            "svg" => is_drawn = true,
            "/svg" => is_drawn = false,
            "desc" => is_drawn = false,
            "/desc" => {
                text.push('\n');
                is_drawn = true;
            }
            "/td" | "/th" => text += " | ",
            "/tr" | "/li" | "/p" | "/h1" | "/h2" | "/h3" | "/summary" | "/dt" | "/dd"
            | "/figcaption" | "/div" | "/option" | "/label" | "/h4" | "/strong" | "br"
            | "table" | "ul" => text.push('\n'),
            _ => {}
        }
    }
    let lines = text.lines().map(|line| line.trim().trim_end_matches('|').trim());
    lines.filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

/// The first `count` lines of `text` beginning with the line `from`.
fn lines(text: &str, from: &str, count: usize) -> String {
    let lines = text.lines().skip_while(|line| *line != from).take(count);
    lines.map(|line| format!("{line}\n")).collect()
}

fn count(html: &str, what: &str) -> usize {
    html.matches(what).count()
}

fn point(tasks: u32, rate: f64) -> Point {
    Point::new(tasks, vec![rate]).unwrap()
}

fn curve(name: &str, points: Vec<Point>) -> Curve {
    Curve::new(0, results::Curve::new(CaseId::new(name), Mode::Threads, points))
}

fn one_curve(points: Vec<Point>) -> Page {
    Page {
        runs: vec![Run { label: "base".to_owned(), ..Run::default() }],
        curves: vec![curve("a1", points)],
        ..Page::default()
    }
}

#[test]
fn a_page_of_two_runs_shows_an_overview_and_each_curve_in_numbers_and_sentences() {
    let mut page = synthetic::page("two").unwrap();
    page.cases.retain(|case, _| case.testcase == "fork1");
    page.curves.retain(|curve| curve.measured.case.testcase == "fork1");
    let text = words(&render(&page));
    assert_data_eq!(lines(&text, "Show as a table", 6), file!["data/overview.txt"].raw());
    let case = "Rates are iterations per second.";
    assert_data_eq!(lines(&text, case, 28), file!["data/testcase.txt"].raw());
}

#[test]
fn one_task_count_is_not_a_curve() {
    let page = synthetic::page("single").unwrap();
    assert_data_eq!(
        lines(&words(&render(&page)), "Show as a table", 26),
        file!["data/single.txt"].raw()
    );
}

#[test]
fn a_page_of_predictions_shows_curves_limits_ratios_and_bounds() {
    let page = synthetic::page("predictions").unwrap();
    let html = render(&page);
    let text = words(&html);
    assert_data_eq!(lines(&text, "Predicted curves", 64), file!["data/predictions.txt"].raw());
    assert!(html.contains(r##"<a href="#prediction-1">Predicted for sapphire-rapids-2x24</a>"##));
    // Each point of class D but the first one has an arrow, and no line passes it.
    let [open1, ratios, mprotect] = predicted_charts(&html)[..] else { panic!("three charts") };
    assert_eq!(count(open1, r#"class="bound""#), 0);
    assert_eq!(count(open1, r#"class="usl""#), 1);
    assert_eq!(count(ratios, r#"class="band""#), 1);
    let (_, bounds) = mprotect.split_once(r#"<path class="bound" d=""#).unwrap();
    let (bounds, _) = bounds.split_once('"').unwrap();
    assert_eq!(bounds.to_lowercase().matches('m').count(), 2 * 3);
    assert_eq!(count(mprotect, r#"class="usl""#), 0, "no run measured it");
}

/// The charts of the section on predictions.
fn predicted_charts(html: &str) -> Vec<&str> {
    let (_, section) = html.split_once(r#"id="predictions""#).unwrap();
    let (section, _) = section.split_once(r#"id="machine""#).unwrap();
    let charts = section.split(r#"<svg class="chart""#).skip(1);
    charts.filter_map(|chart| Some(chart.split_once("</svg>")?.0)).collect()
}

#[test]
fn a_page_without_runs_shows_only_predictions() {
    let page = synthetic::page("predictions").unwrap();
    let html = render(&Page { predictions: page.predictions, ..Page::default() });
    assert!(html.contains("<h1>open1 on sapphire-rapids-2x24: "), "{}", &html[..3000]);
    assert!(html.contains("; 1 more prediction</h1>"));
    assert!(!html.contains("id=\"testcases\"") && !html.contains("id=\"machine\""));
    assert!(html.contains("No run on this page measured open1 as processes"));
    // The markers that its curves refer to.
    assert_eq!(count(&html, r#"<marker id="marker0""#), 1);
}

#[test]
fn a_page_of_a_matrix_shows_when_each_pair_commutes() {
    let page = synthetic::page("matrix").unwrap();
    assert_data_eq!(words(&render(&page)), file!["data/matrix.txt"].raw());
}

#[test]
fn a_page_of_a_check_shows_what_calls_share() {
    let page = synthetic::page("shared").unwrap();
    assert_data_eq!(words(&render(&page)), file!["data/shared.txt"].raw());
}

#[test]
fn a_matrix_has_a_cell_for_every_pair_and_a_link_to_its_conditions() {
    let page = synthetic::page("matrices").unwrap();
    let html = render(&page);
    for matrix in &page.matrices {
        for pair in &matrix.pairs {
            let [a, b] = &pair.operations;
            let name = format!("commute={}.{a}.{b}", matrix.interface);
            assert_eq!(count(&html, &format!("href=\"#{name}\"")), 1, "{name}");
            assert_eq!(count(&html, &format!("id=\"{name}\"")), 1, "{name}");
        }
    }
    // The page still shows its runs.
    assert_eq!(count(&html, r#"<li class="tile""#), 2);
    assert!(html.contains(r##"<a href="#commute">When operations commute</a>"##));
    // A second matrix of the same interface has different ids.
    let twice = [page.matrices[1].clone(), page.matrices[1].clone()].to_vec();
    let html = render(&Page { matrices: twice, ..Page::default() });
    assert_eq!(count(&html, "id=\"commute=made-up-4.call0.call1\""), 1);
    assert_eq!(count(&html, "id=\"commute=made-up-4-1.call0.call1\""), 1);
}

#[test]
fn equal_input_gives_equal_bytes_in_any_order() {
    let page = synthetic::page("two").unwrap();
    let mut shuffled = page.clone();
    shuffled.curves.reverse();
    assert!(render(&page) == render(&shuffled));
}

#[test]
fn every_curve_has_charts_and_every_chart_has_a_description() {
    let html = render(&synthetic::page("one").unwrap());
    // 14 testcases in two modes: a sparkline and three charts each.
    assert_eq!(count(&html, r#"<svg class="spark""#), 28);
    assert_eq!(count(&html, r#"<svg class="chart""#), 28 * 3);
    assert_eq!(count(&html, r#"role="img""#), count(&html, "<desc>"));
    assert_eq!(count(&html, "<desc></desc>"), 0);
}

#[test]
fn latencies_are_drawn_by_percentile_and_listed() {
    let html = render(&synthetic::page("latency").unwrap());
    assert_eq!(count(&html, r#"<svg class="chart latency-chart""#), 4);
    assert_eq!(count(&html, "Latency in numbers"), 4);
    assert_eq!(count(&html, r#"role="img""#), count(&html, "<desc>"));
    let text = words(&html);
    for part in ["half of the times are at most", "99.9", "sent late", "8.00 µs"] {
        assert!(text.contains(part) || html.contains(part), "{part} is missing");
    }
    let without = render(&synthetic::page("few").unwrap());
    assert!(!without.contains("latency-chart") && !without.contains("Latency"));
}

#[test]
fn the_counters_of_a_sweep_are_listed_by_connections_and_grey_only_where_the_load_is_full() {
    let per_second = BTreeMap::from([(Counter::PageFaults, 70.0)]);
    let counters = PointCounters {
        per_operation: per_second.clone(),
        per_second,
        ipc: None,
        shares: BTreeMap::new(),
    };
    let point = |connections, server_busy, load_busy| {
        let mut point = Point::new(connections, vec![f64::from(connections)]).unwrap();
        point.server =
            Some(Served { server_busy, load_busy, cpu_per_request: 1e-5, shared: false });
        point.counters = Some(counters.clone());
        point
    };
    // One connection leaves the server idle, which the curve shows.
    let points = vec![point(1, 0.3, 0.4), point(64, 0.5, 0.99)];
    let measured = results::Curve::new(CaseId::new("nginx"), Mode::Processes, points);
    let measured = measured.along(Axis::Connections { tasks: 1 });
    let page = Page {
        runs: vec![Run::default()],
        curves: vec![Curve::new(0, measured)],
        ..Page::default()
    };
    let html = render(&page);
    let (_, counters) = html.split_once("<summary>Counters</summary>").unwrap();
    let (counters, _) = counters.split_once("</details>").unwrap();
    assert!(counters.contains("per second, of the server without its load."), "{counters}");
    assert!(counters.contains(r#"<th scope="col">connections</th>"#), "{counters}");
    assert!(counters.contains(r#"<tr><th scope="row">1</th>"#), "{counters}");
    assert!(counters.contains(r#"<tr class="unsound"><th scope="row">64</th>"#), "{counters}");
}

#[test]
fn a_hundred_testcases_stay_below_three_megabytes() {
    let html = render(&synthetic::page("large").unwrap());
    assert_eq!(count(&html, r#"<li class="tile""#), 100);
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    // In one mode: 25,600 points.
    let mut page = synthetic::page("huge").unwrap();
    page.curves.retain(|curve| curve.measured.mode == Mode::Threads);
    let html = render(&page);
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
}

/// The unpacked contents of the scripts of `class`.
fn unpacked(html: &str, class: &str) -> Vec<String> {
    use base64::Engine as _;
    let start = format!(r#"<script class="{class} packed" type="text/plain">"#);
    html.split(&start)
        .skip(1)
        .map(|rest| {
            let base64 = rest.split('<').next().unwrap();
            let bytes = base64::engine::general_purpose::STANDARD.decode(base64).unwrap();
            String::from_utf8(miniz_oxide::inflate::decompress_to_vec(&bytes).unwrap()).unwrap()
        })
        .collect()
}

#[test]
fn a_large_page_compresses_complete_testcases_and_says_so() {
    let page = synthetic::page("huge").unwrap();
    let html = render(&page);
    assert!(html.contains("all testcases except the first are compressed"));
    let contents = unpacked(&html, "content");
    // The first testcase is open, and its charts are visible without a script.
    assert_eq!((contents.len(), count(&html, r#"<svg class="chart""#)), (99, 6));
    assert!(contents.iter().all(|content| count(content, r#"<svg class="chart""#) == 6));
    let mut points = 0;
    for json in unpacked(&html, "case-data") {
        let case: serde_json::Value = serde_json::from_str(&json).unwrap();
        for curve in case["curves"].as_array().unwrap() {
            points += curve["points"].as_array().unwrap().len();
        }
    }
    let first =
        count(html.split("</details>").find(|d| d.contains("tr data-n=")).unwrap(), "tr data-n=");
    assert_eq!(first, 256);
    let gaps = page.curves.iter().map(|curve| curve.missing.len()).sum::<usize>();
    assert_eq!(points + 2 * 256 + gaps, 100 * 2 * 256);

    let small = render(&synthetic::page("two").unwrap());
    assert!(!small.contains("are packed") && unpacked(&small, "content").is_empty());
}

/// The curves in the data of the first testcase.
fn embedded(html: &str) -> serde_json::Value {
    let (_, json) =
        html.split_once(r#"<script class="case-data" type="application/json">"#).unwrap();
    serde_json::from_str(json.split("</script>").next().unwrap()).unwrap()
}

/// The values of a column in the data of the first curve.
fn column(html: &str, name: &str) -> Vec<serde_json::Value> {
    let data = embedded(html);
    let columns = data["columns"].as_array().unwrap();
    let at = columns.iter().position(|column| column == name).unwrap();
    let points = data["curves"][0]["points"].as_array().unwrap();
    points.iter().map(|point| point[at].clone()).collect()
}

/// The rows of the data tables with a class.
fn rows_of_class<'h>(html: &'h str, class: &str) -> Vec<&'h str> {
    let rows = html.split("<tr ").filter_map(|row| row.split("</tr>").next());
    rows.filter(|row| row.contains(&format!(r#"class="{class}""#))).collect()
}

#[test]
fn the_page_of_doubtful_points_explains_its_verdicts_and_excludes_disturbed_curves() {
    let mut page = synthetic::page("doubtful").unwrap();
    page.runs.truncate(1);
    page.curves.retain(|curve| curve.run == 0);
    let text = words(&render(&page));
    let overview = lines(&text, "▼ 1", 64);
    assert_data_eq!(overview, file!["data/doubtful.txt"].raw());
}

#[test]
fn a_disturbed_point_is_marked_on_the_curve_the_card_the_table_and_in_the_data() {
    let disturbed = Point { disturbed: true, ..point(2, 2.0) };
    let html = render(&one_curve(vec![point(1, 1.0), disturbed, point(4, 4.0)]));
    let [tile] = html.split(r#"<li class="tile""#).skip(1).collect::<Vec<_>>()[..] else {
        panic!("one tile")
    };
    let (tile, rest) = tile.split_once("</ol>").unwrap();
    assert!(tile.contains(r#"data-verdicts="disturbed""#));
    assert!(tile.contains(r#"class="verdict disturbed""#) && !tile.contains("scales"));
    assert_eq!(count(tile, r#"<path class="disturbed""#), 1);
    // The legend, throughput, efficiency and rate per task.
    assert_eq!(count(rest, r#"<path class="disturbed""#), 4);
    assert_eq!(count(rest, "disturbed by other work; nothing is concluded from this point"), 3);
    let [row] = rows_of_class(&html, "unsound")[..] else { panic!("one row is marked") };
    assert!(row.contains("⊗ disturbed") && row.contains("<td>–</td>"), "{row}");
    assert_eq!(column(&html, "disturbed"), [false, true, false]);
    assert_eq!(column(&html, "efficiency"), json!([10000, null, 10000]).as_array().unwrap()[..]);
    assert_eq!(embedded(&html)["curves"][0]["scaling"], "disturbed");
}

#[test]
fn a_disturbed_point_is_marked_where_there_is_no_curve() {
    let html = render(&one_curve(vec![Point { disturbed: true, ..point(2, 2.0) }]));
    assert!(html.contains("<h1>1 testcase measured, but other work disturbed every curve"));
    let (_, chart) = html.split_once("chart rounds-chart").unwrap();
    let (chart, _) = chart.split_once("</svg>").unwrap();
    assert_eq!(count(chart, r#"<path class="disturbed""#), 1);
    assert_eq!(count(chart, r#"<path class="interval""#), 0);
    assert!(html.contains(r#"data-verdicts="disturbed""#));
}

/// The end of a path of one line, horizontally.
fn end_of(html: &str, class: &str) -> f64 {
    let (_, path) = html.split_once(&format!(r#"<path class="{class}" d="M"#)).unwrap();
    let (start, line) = path.split_once(['l', 'h']).unwrap();
    let x = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        text[..end].parse::<f64>().unwrap()
    };
    x(start) + x(line)
}

#[test]
fn points_with_more_tasks_than_cpus_are_apart_and_have_no_efficiency() {
    let sharing = Point { oversubscribed: true, ..point(4, 1.0) };
    let html = render(&one_curve(vec![point(1, 1.0), point(2, 2.0), sharing]));
    assert!(html.contains("<h1>a1 scales to 2 threads at 100% efficiency</h1>"));
    let charts: Vec<&str> = html.split(r#"<svg class="chart""#).skip(1).collect();
    assert_eq!(charts.len(), 3);
    for chart in &charts {
        let (chart, _) = chart.split_once("</svg>").unwrap();
        let (_, boundary) = chart.split_once(r#"<path class="boundary" d="M"#).unwrap();
        let boundary: f64 = boundary.split(' ').next().unwrap().parse().unwrap();
        assert!(chart.contains(">more tasks than CPUs</text>"));
        if chart.contains(r#"class="ideal""#) {
            assert!(end_of(chart, "ideal") < boundary, "{chart}");
        }
    }
    assert_eq!(count(charts[0], r#"<path class="shared-cpus""#), 1);
    assert_eq!(count(charts[1], r#"<path class="shared-cpus""#), 0, "it has no efficiency");
    let [row] = rows_of_class(&html, "unsound")[..] else { panic!("one row is marked") };
    assert!(row.contains("more tasks than CPUs") && row.contains("<td>–</td>"), "{row}");
    assert!(html.contains("From 4 tasks on, there are more tasks than CPUs."));
    assert!(html.contains("100%</strong> at 2 "), "the efficiency is that at 2 tasks");
    assert_eq!(column(&html, "oversubscribed"), [false, false, true]);
    assert_eq!(column(&html, "efficiency")[2], serde_json::Value::Null);
    let curve = &embedded(&html)["curves"][0];
    assert_eq!((&curve["peak"], &curve["knee"]), (&json!(2), &json!(null)));
}

#[test]
fn an_implausible_efficiency_is_marked_with_its_likely_reason() {
    let html = render(&one_curve(vec![point(1, 1.0), point(2, 7.0)]));
    assert!(html.contains("<h1>a1 reaches 350% efficiency, which is implausible</h1>"));
    assert_eq!(count(&html, "verdict scales"), 0);
    let badge =
        r#"<span class="verdict implausible" title="an efficiency is above 115%; more likely, "#;
    assert!(html.contains(badge));
    assert!(html.contains("Implausible: an efficiency is above 115%; more likely, the placement"));
    assert!(html.contains("? implausible</td>"));
    assert_eq!(column(&html, "implausible"), [false, true]);
}

#[test]
fn a_comparison_with_a_disturbed_side_claims_nothing() {
    let mut page = one_curve(vec![point(1, 1.0), point(2, 2.0)]);
    page.runs.push(Run { label: "new".to_owned(), ..Run::default() });
    let mut after = Curve { run: 1, ..curve("a1", vec![point(1, 1.0), point(2, 9.0)]) };
    let comparison = compare(&[1.0; 9], &[9.0; 9], &CompareOptions::default()).unwrap();
    assert!(comparison.verdict.is_change());
    after.changes.insert(2, Change { comparison, disturbed: true });
    page.curves.push(after);
    let html = render(&page);
    assert!(
        html.contains("<h1>base and new cannot be compared: other work disturbed 1 point</h1>")
    );
    assert!(html.contains(r#"data-changes="disturbed""#) && !html.contains("1 faster"));
    assert!(html.contains("too disturbed</span> (other work disturbed a side)"));
    assert!(html.contains(r#""verdict":"disturbed""#));
    let (_, chart) = html.split_once("<title>Change against the first run").unwrap();
    let (chart, _) = chart.split_once("</svg>").unwrap();
    assert_eq!(count(chart, r#"<path class="disturbed""#), 1);
    assert_eq!(count(chart, "median faster"), 0);
}

#[test]
fn an_unknown_value_has_a_dash_and_a_reason() {
    let known = Some(PerTask { min: 0.5, max: 1.5, fairness: 0.9 });
    let mut page = one_curve(vec![Point { per_task: known, ..point(1, 1.0) }, point(2, 2.0)]);
    page.curves[0].fit = Err("2 different task counts".to_owned());
    page.runs.push(Run { label: "new".to_owned(), ..Run::default() });
    let mut after = Curve { run: 1, ..page.curves[0].clone() };
    let comparison = compare(&[0.0], &[1.0], &CompareOptions::default()).unwrap();
    after.changes.insert(1, Change { comparison, disturbed: false });
    page.curves.push(after);
    let html = render(&page);
    for text in [
        "– no fit: 2 different task counts",
        "<td colspan=\"3\">– not known</td>",
        "(no ratio: a round of the first run completed no iteration)",
        "– not in the first run",
    ] {
        assert!(html.contains(text), "{text}");
    }
}

#[test]
fn names_are_escaped_everywhere() {
    let evil = "</script><script>alert(1)</script><svg onload=alert(1)>\"'&";
    let mut page = one_curve(vec![point(1, 1.0), point(2, 2.0)]);
    page.runs[0] = Run {
        label: evil.to_owned(),
        hostname: evil.to_owned(),
        kernel: evil.to_owned(),
        command_line: vec![evil.to_owned()],
        facts: vec![(evil.to_owned(), evil.to_owned())],
        warnings: vec![evil.to_owned()],
        failures: vec![evil.to_owned()],
        off_chart: vec![evil.to_owned()],
        ..Run::default()
    };
    let (description, unit) = (evil.to_owned(), evil.to_owned());
    let info = CaseInfo { description, unit, ..CaseInfo::default() };
    page.cases = [(CaseId::new(evil), info)].into();
    page.curves[0] = curve(evil, vec![point(1, 1.0), point(2, 2.0)]);
    page.curves[0].missing = vec![Missing { tasks: 4, reason: evil.to_owned() }];
    let mut matrix = synthetic::page("matrix").unwrap().matrices.remove(0);
    matrix.interface = evil.to_owned();
    matrix.about = evil.to_owned();
    matrix.operations[0].name = evil.to_owned();
    matrix.operations[0].about = evil.to_owned();
    matrix.pairs[0].operations = [evil, evil].map(str::to_owned);
    matrix.pairs[4].commute_if_any_of = vec![vec![evil.to_owned()]];
    matrix.pairs[4].differ[0].because = evil.to_owned();
    page.matrices = vec![matrix];
    let html = render(&page);
    assert!(!html.contains("<script>alert"));
    assert!(!html.contains("<svg onload"));
    // The data of the page, the data of the testcase, and the two scripts.
    assert_eq!(count(&html, "<script"), 4);
    assert_eq!(count(&html, "</script>"), 4);
}

#[test]
fn a_value_that_is_not_a_number_is_a_gap_and_not_on_a_chart() {
    let broken = |tasks, rate| Point { rate, ..point(tasks, 1.0) };
    let html = render(&one_curve(vec![
        point(1, 1.0),
        broken(2, f64::NAN),
        broken(4, f64::INFINITY),
        point(8, 0.0),
        point(16, 5.0),
    ]));
    let (_, body) = html.split_once("<body").unwrap();
    for not_a_number in ["NaN", ">inf", " inf", "-inf"] {
        assert!(!body.contains(not_a_number), "{not_a_number}");
    }
    assert!(body.contains("not measured: the record of this point contains an invalid value"));
}

#[test]
fn an_empty_page_says_so_and_draws_nothing() {
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
    for kind in ["two", "matrix", "matrices", "shared"] {
        let html = render(&synthetic::page(kind).unwrap());
        assert!(html.contains("default-src 'none'"));
        for reference in ["src=", "@import", "<link", "url(http", " style=", "onclick"] {
            assert!(!html.contains(reference), "{reference}");
        }
    }
}
