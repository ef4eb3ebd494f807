use snapbox::{assert_data_eq, file};

use super::*;
use crate::view::fixture::example;

fn written() -> serde_json::Value {
    let mut file = Vec::new();
    speedscope(&example(), &mut file).unwrap();
    serde_json::from_slice(&file).unwrap()
}

#[test]
fn the_file() {
    let value = written();
    let text = serde_json::to_string_pretty(&value).unwrap() + "\n";
    assert_data_eq!(text, file!["snapshots/speedscope.json": Text].raw());
}

/// The rules of the schema for a sampled profile: one weight per sample, valid frame indices, and an end
/// that is the sum of the weights.
#[test]
fn the_file_follows_its_schema() {
    let value = written();
    let profile = &value["profiles"][0];
    let (samples, weights) =
        (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
    assert_eq!(samples.len(), weights.len());
    let frames = value["shared"]["frames"].as_array().unwrap().len() as u64;
    let places = samples.iter().flat_map(|stack| stack.as_array().unwrap());
    assert!(places.map(|place| place.as_u64().unwrap()).all(|place| place < frames));
    let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
    assert_eq!((sum, profile["endValue"].as_u64()), (example().weight(), Some(sum)));
    let units = ["bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"];
    assert!(units.contains(&profile["unit"].as_str().unwrap()));
}
