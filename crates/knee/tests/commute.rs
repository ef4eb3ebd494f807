//! `knee commute`: interfaces, conditions and matrices.

mod support;

use snapbox::{assert_data_eq, str};
use support::{Finished, Scratch, finish};

fn commute(args: &[&str]) -> Finished {
    finish(Scratch::new().knee(&["commute"]).args(args))
}

fn json(finished: &Finished) -> serde_json::Value {
    serde_json::from_str(&finished.assert_code(0).stdout).unwrap()
}

#[test]
fn a_counter_that_tells_its_value_does_not_commute() {
    let counter = ["conditions", "--interface", "counter"];
    let hidden = commute(&[&counter[..], &["inc", "inc"]].concat());
    hidden.assert_code(0).assert_stdout_has("They always commute.");
    let told = commute(&[&counter[..], &["inc_get", "inc_get"]].concat());
    assert_data_eq!(
        told.assert_code(0).stdout.as_str(),
        str![[r#"
a: inc_get   b: inc_get

They never commute.
a (inc_get) sees n + 1 in the order a, b, but n + 2 in b, a.

"#]]
    );
}

#[test]
fn two_opens_want_the_same_lowest_descriptor_unless_any_will_do() {
    let document = json(&commute(&["conditions", "open", "open", "--json"]));
    let told = |list: &str| document[list].to_string();
    assert!(told("commute_if_any_of").contains("a.anyfd"), "{document:#}");
    assert!(told("commute_if_any_of").contains("b is in the other process"), "{document:#}");
    assert!(told("differ_if_any_of").contains("unused(0)"), "{document:#}");
}

#[test]
fn the_matrix_has_every_pair_and_is_the_same_each_time() {
    let first = commute(&["matrix", "--json"]);
    assert_eq!(first.stdout, commute(&["matrix", "--json"]).stdout);
    let document = json(&first);
    let pairs = document["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 171);
    for pair in pairs {
        let (all, commuting) = (pair["situations"].as_u64(), pair["commuting"].as_u64());
        assert!(all > Some(0) && commuting <= all, "{pair}");
    }
    commute(&["matrix"]).assert_code(0).assert_stdout_has("situations of 171 pairs commute");
}

#[test]
fn three_at_once_commute_less_than_two() {
    let three =
        json(&commute(&["conditions", "--interface", "map", "put", "get", "remove", "--json"]));
    assert_eq!(three["operations"].as_array().unwrap().len(), 3);
    assert!(three["commuting"].as_u64() < three["situations"].as_u64());
}

#[test]
fn what_was_probably_meant_is_named() {
    commute(&["conditions", "opne", "open"]).assert_code(2).assert_stderr_has("did you mean open?");
    commute(&["matrix", "--interface", "possix"]).assert_code(2).assert_stderr_has("posix");
    commute(&["conditions", "open"]).assert_code(2);
}

#[test]
fn a_limit_that_was_hit_is_told() {
    let cut = commute(&["conditions", "open", "open", "--limit", "10"]);
    cut.assert_code(0).assert_stderr_has("only 10 situations were looked at");
}

#[test]
fn every_interface_is_listed_with_its_operations() {
    let listed = json(&commute(&["list", "--json"]));
    let interfaces = listed["interfaces"].as_array().unwrap();
    let posix = interfaces.iter().find(|interface| interface["name"] == "posix").unwrap();
    assert_eq!(posix["operations"].as_array().unwrap().len(), 18);
    assert_eq!(interfaces.len(), 12);
}
