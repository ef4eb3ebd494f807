//! `knee commute`: interfaces, conditions and matrices.

mod support;

use std::fs;

use snapbox::{assert_data_eq, str};
use support::{Finished, Scratch, finish};

fn commute(args: &[&str]) -> Finished {
    finish(Scratch::new().knee(&["commute"]).args(args))
}

fn json(finished: &Finished) -> serde_json::Value {
    serde_json::from_str(&finished.assert_code(0).stdout).unwrap()
}

#[test]
fn a_counter_that_returns_its_value_does_not_commute() {
    let counter = ["conditions", "--interface", "counter"];
    let hidden = commute(&[&counter[..], &["inc", "inc"]].concat());
    hidden.assert_code(0).assert_stdout_has("They always commute.");
    let told = commute(&[&counter[..], &["inc_get", "inc_get"]].concat());
    assert_data_eq!(
        told.assert_code(0).stdout.as_str(),
        str![[r#"
a: inc_get   b: inc_get

They never commute.
  a (inc_get) sees n + 1 in the order a, b, but n + 2 in b, a (1 situation)
       for example n = 0; a: inc_get(); b: inc_get()

0 of 1 situation commute (0%).

"#]]
    );
}

#[test]
fn more_operations_than_can_be_called_together_are_refused_in_words() {
    for command in ["check", "conditions", "tests", "verify"] {
        let five = commute(&[command, "open", "open", "open", "open", "open"]);
        five.assert_code(2).assert_stderr_has("5 operations are too many; name at most 4");
    }
}

#[test]
fn the_example_of_a_condition_shows_what_the_condition_adds() {
    let finished = commute(&["conditions", "rename", "stat", "--json"]);
    let document = json(&finished);
    let cases = document["commute_if_any_of"].as_array().unwrap();
    let about_b =
        cases.iter().find(|case| case["all_of"].to_string().contains("dir has no b.name"));
    let arguments = &about_b.unwrap()["example"]["calls"][0]["arguments"];
    assert_ne!(arguments["old"], arguments["new"], "that would commute for another reason");
}

#[test]
fn two_opens_commute_if_any_descriptor_is_allowed() {
    let document = json(&commute(&["conditions", "open", "open", "--json"]));
    let told = |list: &str| document[list].to_string();
    assert!(told("commute_if_any_of").contains("a.anyfd"), "{document:#}");
    assert!(told("commute_if_any_of").contains("b is in the other process"), "{document:#}");
    assert!(told("differ").contains("lowest unused fd of proc0"), "{document:#}");
}

#[test]
fn the_matrix_and_its_page_contain_every_pair_with_its_conditions() {
    const MOST_BYTES: usize = 1_500_000;
    let scratch = Scratch::new();
    let document = finish(&mut scratch.knee(&["commute", "matrix", "--json"]));
    fs::write(scratch.path().join("posix.json"), &document.stdout).unwrap();
    let document = json(&document);
    assert_eq!((&document["schema"], &document["interface"]), (&1.into(), &"posix".into()));
    assert_eq!(document["operations"].as_array().unwrap().len(), 18);
    let pairs = document["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 171);
    let html = finish(&mut scratch.knee(&["report", "posix.json", "-o", "-"])).stdout;
    assert!(html.len() < MOST_BYTES, "{} bytes", html.len());
    assert_eq!(html.matches("<div class=\"pair\"").count(), 171);
    for pair in pairs {
        let (all, commuting) = (pair["situations"].as_u64(), pair["commuting"].as_u64());
        assert!(all > Some(0) && commuting <= all, "{pair}");
        let has = |list: &str| pair[list].as_array().is_some_and(|list| !list.is_empty());
        assert_eq!(has("commute_if_any_of"), commuting > Some(0), "{pair}");
        assert_eq!(has("differ"), commuting < all, "{pair}");
        let [a, b] = [0, 1].map(|nr| pair["operations"][nr].as_str().unwrap());
        assert!(html.contains(&format!("id=\"commute=posix.{a}.{b}\"")), "{a} {b}");
    }
    commute(&["matrix"]).assert_code(0).assert_stdout_has("situations of 171 pairs commute");
}

#[test]
fn the_matrix_has_the_conditions_that_knee_prints_for_a_pair() {
    let matrix = json(&commute(&["matrix", "--interface", "map", "--json"]));
    for pair in matrix["pairs"].as_array().unwrap() {
        let [a, b] = [0, 1].map(|nr| pair["operations"][nr].as_str().unwrap());
        let printed = json(&commute(&["conditions", "--interface", "map", a, b, "--json"]));
        for part in ["situations", "commuting"] {
            assert_eq!(pair[part], printed[part], "{a} {b}");
        }
        let cases = printed["commute_if_any_of"].as_array().unwrap();
        let formulas: Vec<_> = cases.iter().map(|case| case["all_of"].clone()).collect();
        assert_eq!(pair["commute_if_any_of"], serde_json::Value::from(formulas), "{a} {b}");
        let reasons = printed["differ"].as_array().unwrap();
        for (nr, reason) in reasons.iter().enumerate() {
            for part in ["because", "situations", "all_of"] {
                assert_eq!(pair["differ"][nr][part], reason[part], "{a} {b}");
            }
        }
        assert_eq!(pair["differ"].as_array().unwrap().len(), reasons.len());
    }
}

#[test]
fn a_matrix_and_its_page_are_reproducible() {
    let scratch = Scratch::new();
    let run = |args: &[&str]| finish(&mut scratch.knee(args)).assert_code(0).stdout.clone();
    let json = run(&["commute", "matrix", "--interface", "map", "--json"]);
    assert_eq!(json, run(&["commute", "matrix", "--interface", "map", "--json"]));
    fs::write(scratch.path().join("map.json"), json).unwrap();
    let page = run(&["commute", "matrix", "--interface", "map", "-o", "-"]);
    assert_eq!(page, run(&["report", "map.json", "-o", "-"]));
    let written =
        finish(&mut scratch.knee(&["commute", "matrix", "--interface", "map", "-o", "map.html"]));
    written.assert_code(0).assert_stderr_has("wrote map.html: map: ");
    assert_eq!(page, fs::read_to_string(scratch.path().join("map.html")).unwrap());
    commute(&["matrix", "--json", "-o", "map.html"]).assert_code(2);
}

#[test]
fn three_operations_commute_less_often_than_two() {
    let three =
        json(&commute(&["conditions", "--interface", "map", "put", "get", "remove", "--json"]));
    assert_eq!(three["operations"].as_array().unwrap().len(), 3);
    assert!(three["commuting"].as_u64() < three["situations"].as_u64());
}

#[test]
fn similar_names_are_suggested() {
    commute(&["conditions", "opne", "open"]).assert_code(2).assert_stderr_has("did you mean open?");
    commute(&["matrix", "--interface", "possix"]).assert_code(2).assert_stderr_has("posix");
    commute(&["conditions", "open"]).assert_code(2);
}

#[test]
fn reaching_the_limit_is_reported() {
    let cut = commute(&["conditions", "open", "open", "--limit", "10"]);
    cut.assert_code(0).assert_stderr_has("only 10 situations were explored");
    let page = commute(&["matrix", "--interface", "map", "--limit", "1", "-o", "-"]);
    page.assert_code(0).assert_stdout_has("Not all situations of these pairs were explored");
}

#[test]
fn every_interface_is_listed_with_its_operations() {
    let listed = json(&commute(&["list", "--json"]));
    let interfaces = listed["interfaces"].as_array().unwrap();
    let posix = interfaces.iter().find(|interface| interface["name"] == "posix").unwrap();
    assert_eq!(posix["operations"].as_array().unwrap().len(), 18);
    assert_eq!(interfaces.len(), 12);
}
