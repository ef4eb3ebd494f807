use snapbox::{assert_data_eq, file};

use super::*;
use crate::capture::{Function, Kind, Stacks};
use crate::view::fixture::{captured, dearer, example, with_work};

#[test]
fn the_graph_of_a_capture() {
    assert_data_eq!(flame(&example()), file!["snapshots/flame.svg": Text].raw());
}

#[test]
fn the_graph_of_a_difference() {
    let (before, mut after) = (with_work(example(), 10_000), with_work(dearer(), 10_000));
    after.cpu_seconds = Some(1.25);
    let graph = difference(&before, &after, Widths::After);
    assert_data_eq!(graph, file!["snapshots/difference.svg": Text].raw());
}

#[test]
fn the_graph_of_a_difference_from_a_disturbed_capture_claims_nothing() {
    let (before, mut after) = (with_work(example(), 10_000), with_work(dearer(), 10_000));
    after.work.as_mut().unwrap().disturbed = true;
    let graph = difference(&before, &after, Widths::After);
    assert!(graph.contains("Inconclusive: other work disturbed the second capture."));
    assert!(graph.contains(" samples, inconclusive)") && !graph.contains("sampling error"));
}

#[test]
fn widths_come_from_the_chosen_capture() {
    let width = |widths| {
        let graph = difference(&example(), &dearer(), widths);
        let frame = graph.lines().find(|line| line.contains(r#"data-name="copy_page""#)).unwrap();
        frame.split(r#"width=""#).nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    assert_eq!(
        (width(Widths::Before).as_str(), width(Widths::After).as_str()),
        ("25.0000%", "40.0000%")
    );
}

#[test]
fn the_graph_loads_nothing_and_escapes_names() {
    let name = "<script>alert(1)</script>\"'&\u{1}]]>";
    let mut stacks = Stacks::default();
    stacks.add(name, [&Function::new(name, Kind::User)], 1, 1);
    let mut capture = captured(stacks);
    capture.title = name.to_owned();
    let graph = flame(&capture);
    assert_eq!(graph.matches("<script>").count(), 1);
    assert!(!graph.contains('\u{1}'));
    let addresses: Vec<&str> = graph.split("http").skip(1).collect();
    assert!(addresses.iter().all(|rest| rest.starts_with("://www.w3.org/")), "only namespaces");
}

#[test]
fn narrow_frames_are_left_out() {
    let mut stacks = Stacks::default();
    let [wide, narrow] = ["wide", "narrow"].map(|name| Function::new(name, Kind::User));
    stacks.add("p", [&wide], 1_000_000, 1);
    stacks.add("p", [&narrow], 1, 1);
    let graph = flame(&captured(stacks));
    assert!(graph.contains("wide") && !graph.contains("narrow"));
}

#[test]
fn an_empty_capture_has_an_empty_graph() {
    let graph = flame(&captured(Stacks::default()));
    assert!(graph.contains("0 samples"));
    assert_eq!(graph.matches("NaN").count(), 0);
}
