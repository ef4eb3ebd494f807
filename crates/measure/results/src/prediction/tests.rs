use super::*;

fn station(name: &str) -> Station {
    Station {
        name: name.to_owned(),
        kind: StationKind::Line,
        instances: 1,
        utilisation: 1.0,
        waiting: 3.0,
        visits: 4.0,
        service_ns: 60.3,
        far: 0.061,
        plateau: 4.15e6,
    }
}

/// A point that `limit` slows down, or nothing if it is empty.
fn point(tasks: u32, class: Class, limit: &str) -> Point {
    let known = (class != Class::D).then_some(4.1e6);
    Point {
        tasks,
        class,
        rate: known,
        low: known.map(|rate| rate * 0.9),
        high: known.map(|rate| rate * 1.1),
        simulated: 4.1e6,
        free: 9e6,
        bound: 4.15e6,
        analysis: None,
        limit: (!limit.is_empty()).then(|| limit.to_owned()),
        stations: vec![station("label.count"), station("zone.lock")],
        ratio: None,
    }
}

fn curve(points: Vec<Point>) -> Curve {
    Curve {
        kernel: "Linux 6.12".to_owned(),
        time_ratio: 1.0,
        is_measured: false,
        points,
        next: None,
    }
}

fn predictions(curves: Vec<Curve>) -> Predictions {
    let machine = Machine { name: "genoa-2x96".to_owned(), title: "2 × EPYC".to_owned() };
    let alone = Alone { rate: 2e6, measured_on: None };
    let testcase = CaseId::new("open1");
    Predictions {
        schema: SCHEMA,
        kind: KIND.to_owned(),
        knee_version: "0.1.0".to_owned(),
        confidence: 0.9,
        changes: String::new(),
        assumptions: Vec::new(),
        predictions: vec![Prediction { testcase, mode: Mode::Threads, machine, alone, curves }],
    }
}

fn example() -> Predictions {
    let points = vec![
        point(1, Class::A, ""),
        point(8, Class::B, "label.count"),
        point(24, Class::B, "label.count"),
        point(48, Class::D, "zone.lock"),
    ];
    let next = Next { without: "zone.lock".to_owned(), point: point(48, Class::A, "") };
    predictions(vec![Curve { next: Some(next), ..curve(points) }])
}

/// `SNAPSHOTS=overwrite cargo test` accepts a changed schema.
#[test]
fn the_committed_schema_is_that_of_the_code() {
    let schema = format!("{:#}\n", schema());
    snapbox::assert_data_eq!(schema, snapbox::file!["../../schemas/prediction.schema.json"].raw());
}

#[test]
fn a_written_prediction_is_read_back() {
    let text = serde_json::to_string(&example()).unwrap();
    assert_eq!(Predictions::parse(text.as_bytes()).unwrap(), example());
}

#[test]
fn neighbouring_points_with_the_same_limit_are_one_range() {
    let all = example();
    let limits = all.predictions[0].curves[0].limits();
    let seen: Vec<_> = limits
        .iter()
        .map(|limit| (limit.range(), limit.class, limit.station.map(|s| s.name.as_str())))
        .collect();
    let expected = [
        ("1".to_owned(), Class::A, None),
        ("8 to 24".to_owned(), Class::B, Some("label.count")),
        ("48".to_owned(), Class::D, Some("zone.lock")),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn sentences_name_the_line_its_transfers_and_its_limit() {
    let all = example();
    let curve = &all.predictions[0].curves[0];
    assert_eq!(
        curve.limits()[1].sentence().unwrap(),
        "4.00 transfers per iteration, 60.3 ns each, 6% from another socket: at most 4.15 M/s \
         with 24 tasks"
    );
    assert_eq!(curve.limits()[0].sentence(), None);
    assert_eq!(
        curve.next.as_ref().unwrap().sentence(),
        "without zone.lock: 4.10 M/s at 48 tasks, limited by nothing that tasks share"
    );
}

#[test]
fn the_finding_is_the_ratio_the_rate_or_the_bound_at_the_highest_task_count() {
    let sentence = |curves| predictions(curves).predictions[0].sentence();
    let known = || curve(vec![point(1, Class::A, ""), point(8, Class::B, "label.count")]);
    assert_eq!(
        sentence(vec![known()]),
        "open1 on genoa-2x96: predicted 4.10 M/s (3.69 M to 4.51 M) with 8 threads, limited by \
         label.count"
    );
    assert_eq!(
        sentence(vec![curve(vec![point(8, Class::D, "")])]),
        "open1 on genoa-2x96: predicted at most about 4.15 M/s with 8 threads, limited by nothing \
         that tasks share"
    );
    let mut other = Curve { kernel: "Linux 7.2".to_owned(), ..known() };
    other.points[1].ratio = Some(Ratio { value: 1.5, low: 1.4, high: 1.625 });
    assert_eq!(
        sentence(vec![known(), other]),
        "open1 on genoa-2x96: Linux 7.2 has 1.50 (1.40 to 1.62) times the predicted throughput of \
         Linux 6.12 with 8 threads"
    );
}

#[test]
fn a_file_that_is_not_a_prediction_is_refused_with_advice() {
    let good = serde_json::to_string_pretty(&example()).unwrap();
    let refusal = |text: &str| Predictions::parse(text.as_bytes()).unwrap_err().to_string();
    let make = "`knee predict -o FILE` writes a prediction";
    assert_eq!(refusal("{"), format!("line 1: the file is cut off; {make}"));
    for other in ["[1]", "{\"schema\": 1}", "{\"schema\": 1, \"kind\": \"commute matrix\"}"] {
        assert_eq!(refusal(other), format!("it is JSON, but not a prediction: {make}"));
    }
    let spoilt = |from: &str, to: &str| {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        refusal(&text)
    };
    let newer = spoilt("\"schema\": 1", "\"schema\": 2");
    assert!(newer.starts_with("it has schema 2, but this version of knee reads 1"), "{newer}");
    assert!(spoilt("\"mode\": \"threads\",", "").contains("missing field `mode`"));
    assert!(spoilt("\"class\": \"A\"", "\"class\": \"E\"").contains("unknown variant `E`"));
}

#[test]
fn a_prediction_that_contradicts_itself_is_refused() {
    let refusal = |change: &dyn Fn(&mut Prediction)| {
        let mut all = example();
        change(&mut all.predictions[0]);
        let text = serde_json::to_string(&all).unwrap();
        Predictions::parse(text.as_bytes()).unwrap_err().to_string()
    };
    let of_point = |change: &dyn Fn(&mut Point)| {
        refusal(&|prediction: &mut Prediction| change(&mut prediction.curves[0].points[1]))
    };
    for (refused, says) in [
        (refusal(&|all| all.curves.clear()), "the prediction of open1 has no curve"),
        (refusal(&|all| all.curves[0].points.clear()), "the curve of Linux 6.12 has no points"),
        (refusal(&|all| all.alone.rate = -1.0), "alone.rate is -1, not 0 to"),
        (refusal(&|all| all.curves.push(curve(vec![point(1, Class::A, "")]))), "different task"),
        (of_point(&|point| point.tasks = 1), "the point of 1 tasks comes after that of 1"),
        (of_point(&|point| point.tasks = 0), "the point of 0 tasks comes after"),
        (of_point(&|point| point.rate = None), "the point of 8 tasks has no rate"),
        (of_point(&|point| point.low = Some(9e9)), "the band of rate begins at 9000000000"),
        (of_point(&|point| point.simulated = 1e40), "simulated is 1"),
        (of_point(&|point| point.limit = Some("x".to_owned())), "x limits the point of 8 tasks"),
        (of_point(&|point| point.stations[0].far = 2.0), "far is 2, not 0 to 1"),
        (
            of_point(&|point| point.stations = vec![station("a"); MOST_STATIONS + 1]),
            "a list of at most 10 values",
        ),
        (
            refusal(&|all| {
                let one = all.curves[0].clone();
                all.curves = vec![one; MOST_CURVES + 1];
            }),
            "a list of at most 16 values",
        ),
        (
            refusal(&|all| {
                let points = (1..=5_000).map(|tasks| point(tasks, Class::A, ""));
                all.curves = vec![curve(points.collect())];
            }),
            "a list of at most 4096 values",
        ),
    ] {
        assert!(refused.contains(says), "{refused:?} does not say {says:?}");
    }
}

#[test]
fn texts_of_a_file_add_no_lines() {
    let mut all = example();
    all.changes = "a\nb\tc".to_owned();
    let text = serde_json::to_string(&all).unwrap();
    let read = Predictions::parse(text.as_bytes()).unwrap();
    assert!(!read.changes.contains(['\n', '\t']), "{:?}", read.changes);
}
