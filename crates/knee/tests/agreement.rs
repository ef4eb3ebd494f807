//! Every output says the same of a curve: the table, JSON, CSV, a comparison and the page.

mod support;

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use support::{Scratch, finish};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

/// The committed record, with or without its points at one task.
fn record(scratch: &Scratch, with_one_task: bool) {
    let dir = scratch.path().join("run");
    fs::create_dir_all(&dir).unwrap();
    let run = fs::read_to_string(format!("{DATA}/record/run.json")).unwrap();
    let samples = fs::read_to_string(format!("{DATA}/record/samples.jsonl")).unwrap();
    let mut run: Value = serde_json::from_str(&run).unwrap();
    let keeps = |tasks: &Value| with_one_task || tasks != 1;
    run["request"]["tasks"].as_array_mut().unwrap().retain(keeps);
    run["failures"].as_array_mut().unwrap().retain(|failure| keeps(&failure["tasks"]));
    let lines = samples.lines().filter(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        keeps(&line["tasks"])
    });
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    fs::write(dir.join("run.json"), run.to_string()).unwrap();
    fs::write(dir.join("samples.jsonl"), lines).unwrap();
}

fn json(scratch: &Scratch, args: &[&str]) -> Value {
    let finished = finish(&mut scratch.knee(args));
    serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {finished:?}"))
}

/// What the page embeds of each curve, by testcase and mode.
fn embedded(html: &str) -> BTreeMap<(String, String), Value> {
    let mut curves = BTreeMap::new();
    let start = "<script class=\"case-data\" type=\"application/json\">";
    for part in html.split(start).skip(1) {
        let (text, _) = part.split_once("</script>").unwrap();
        let case: Value = serde_json::from_str(text).unwrap();
        for curve in case["curves"].as_array().unwrap() {
            let key = [&case["case"]["name"], &curve["mode"]].map(|v| v.as_str().unwrap().into());
            curves.insert(key.into(), curve.clone());
        }
    }
    curves
}

/// Rates of a CSV of several testcases, by testcase, mode and tasks.
fn rates(csv: &str) -> BTreeMap<(String, &'static str, u64), f64> {
    let mut rates = BTreeMap::new();
    let mut name = String::new();
    for line in csv.lines() {
        match line.strip_prefix("# ") {
            Some(testcase) => name = testcase.to_owned(),
            None => {
                let cells: Vec<&str> = line.split(',').collect();
                let Ok(tasks @ 1..) = cells[0].parse() else { continue };
                for (mode, cell) in [("processes", cells[1]), ("threads", cells[3])] {
                    rates.insert((name.clone(), mode, tasks), cell.parse().unwrap());
                }
            }
        }
    }
    rates
}

fn agree(with_one_task: bool) -> usize {
    let scratch = Scratch::new();
    record(&scratch, with_one_task);
    let document = json(&scratch, &["show", "run", "--format", "json"]);
    let table = finish(&mut scratch.knee(&["show", "run"])).stdout;
    let csv = finish(&mut scratch.knee(&["show", "run", "--format", "will-it-scale-csv"])).stdout;
    let compared = json(&scratch, &["compare", "run", "run", "--format", "json"]);
    let page = finish(&mut scratch.knee(&["report", "run", "-o", "-"])).stdout;
    let (rates, embedded) = (rates(&csv), embedded(&page));
    let mut rows = table.lines();
    let mut knees = 0;
    for curve in document["curves"].as_array().unwrap() {
        let [name, mode] = ["testcase", "mode"].map(|key| curve[key].as_str().unwrap());
        let points = curve["points"].as_array().unwrap();
        // The summaries describe the points at which each task has a CPU.
        let last = points.iter().rfind(|point| point["oversubscribed"] == false).unwrap();
        let row = rows.find(|row| row.contains(&format!("{mode:10}"))).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        if let Some(knee) = curve["knee"].as_u64() {
            knees += 1;
            let before = points.iter().take_while(|point| point["tasks"] != knee);
            let below = |point: &Value| point["efficiency"].as_f64().unwrap() < 0.8;
            assert!(!before.clone().any(below) && below(&points[before.count()]), "{curve:#}");
            assert!(cells.contains(&knee.to_string().as_str()), "{row}");
        }
        match last["efficiency"].as_f64() {
            Some(efficiency) => {
                assert!(with_one_task);
                let shown = cells.iter().find_map(|cell| cell.strip_suffix('%')).unwrap();
                assert!((shown.parse::<f64>().unwrap() - efficiency * 100.0).abs() < 0.51, "{row}");
                let of = |tasks| rates[&(name.to_owned(), mode_of(mode), tasks)];
                let tasks = last["tasks"].as_u64().unwrap();
                let by_csv = of(tasks) / of(1) / tasks as f64;
                // Its rates are whole numbers, of which those of build1 are small.
                assert!((by_csv - efficiency).abs() < 0.5 / of(1), "{by_csv} {efficiency} {name}");
                let percent = format!("{:.0}%", efficiency * 100.0);
                assert!(page.contains(&format!("<td class=\"n\">{percent}</td>")), "{percent}");
            }
            None => {
                assert!(!with_one_task && curve["knee"].is_null() && cells.contains(&"-"), "{row}");
                assert!(["unknown", "retrograde", "one-point"].contains(&scaling(curve)));
            }
        }
        let drawn = &embedded[&(name.to_owned(), mode.to_owned())];
        assert_eq!(drawn["knee"], curve["knee"], "{name} {mode}");
        assert_eq!(drawn["peak"], curve["peak"], "{name} {mode}");
        assert_eq!(scaling(drawn), scaling(curve), "{name} {mode}");
        for point in compared["comparisons"][0]["points"].as_array().unwrap() {
            let same = ["testcase", "mode"].iter().all(|key| point[key] == curve[key]);
            if same && point["tasks"] == last["tasks"] {
                assert_eq!(point["before"]["median"], last["rate"], "{point:#}");
            }
        }
    }
    assert_eq!(embedded.len(), document["curves"].as_array().unwrap().len());
    knees
}

fn scaling(curve: &Value) -> &str {
    curve["scaling"].as_str().unwrap()
}

fn mode_of(mode: &str) -> &'static str {
    if mode == "threads" { "threads" } else { "processes" }
}

#[test]
fn a_curve_has_one_efficiency_knee_and_verdict_in_every_output() {
    assert!(agree(true) > 0);
}

#[test]
fn a_curve_without_one_task_has_no_efficiency_or_knee_in_any_output() {
    assert_eq!(agree(false), 0);
    let scratch = Scratch::new();
    record(&scratch, false);
    let page = finish(&mut scratch.knee(&["report", "run", "-o", "-"])).stdout;
    let (_, rest) = page.split_once("<h1>").unwrap();
    let (headline, _) = rest.split_once("</h1>").unwrap();
    assert!(!headline.contains("efficiency") || headline.contains("no efficiency"), "{headline}");
    assert!(!headline.contains("scales"), "{headline}");
}
