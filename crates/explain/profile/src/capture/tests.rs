use proptest::prelude::*;
use snapbox::assert_data_eq;

use super::*;

fn function(name: &str) -> Function {
    Function { module: Some("/bin/x".into()), ..Function::new(name, Kind::User) }
}

fn small() -> Capture {
    let mut stacks = Stacks::default();
    let (main, work) = (function("main"), function("work"));
    stacks.add("x", [&main, &work], 2, 20);
    stacks.add("x", [&main], 1, 10);
    stacks.add("x", [&main, &work], 1, 10);
    stacks.add("y", None::<&Function>, 1, 5);
    Capture {
        title: "a test".into(),
        clock: Clock {
            event: "cpu-clock".into(),
            unit: Unit::Nanoseconds,
            frequency: Some(997),
            user_only: false,
        },
        seconds: Some(1.5),
        ..stacks.finish()
    }
}

#[test]
fn equal_stacks_are_counted_together() {
    let capture = small();
    assert_eq!((capture.stacks.len(), capture.counts.len()), (2, 3));
    assert_eq!((capture.samples(), capture.weight()), (5, 45));
    let deepest = capture.counts.iter().find(|count| count.stack == Some(1)).unwrap();
    assert_eq!((deepest.samples, deepest.weight), (3, 30));
    let names: Vec<_> = capture.functions_of(deepest.stack).map(|place| place as usize).collect();
    assert_eq!(
        names.iter().map(|&at| &capture.functions[at].name).collect::<Vec<_>>(),
        ["work", "main"]
    );
}

#[test]
fn a_capture_is_read_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("capture.json");
    std::fs::write(&path, small().to_json()).unwrap();
    assert_eq!(Capture::open(&path).unwrap(), small());
}

#[test]
fn damage_is_reported() {
    let reason = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = serde_json::to_value(small()).unwrap();
        change(&mut value);
        Capture::parse(&serde_json::to_vec(&value).unwrap()).unwrap_err()
    };
    let newer = reason(&|value| value["schema"] = 2.into());
    assert_eq!(
        newer,
        "it has schema 2, but this version of knee reads 1; use the version that wrote it"
    );
    let newer = reason(&|value| *value = serde_json::json!({ "schema": 7, "other": [] }));
    assert!(newer.starts_with("it has schema 7"), "{newer}");
    let other = reason(&|value| *value = serde_json::json!({ "stacks": [] }));
    assert!(other.ends_with("it has no schema"), "{other}");
    let cyclic = reason(&|value| value["stacks"][0]["parent"] = 0.into());
    assert!(cyclic.starts_with("stack 0 refers to"), "{cyclic}");
    let wild = reason(&|value| value["counts"][1]["program"] = 9.into());
    assert!(wild.starts_with("count 1 refers to"), "{wild}");
    let huge = reason(&|value| {
        for count in value["counts"].as_array_mut().unwrap() {
            count["weight"] = u64::MAX.into();
        }
    });
    assert!(huge.starts_with("its counts"), "{huge}");
    for seconds in [1e308, -1.0] {
        let impossible = reason(&|value| value["cpu_seconds"] = seconds.into());
        assert!(impossible.starts_with("its times"), "{impossible}");
    }
    let text = serde_json::to_vec(&small()).unwrap();
    let cut = Capture::parse(&text[..text.len() / 2]).unwrap_err();
    assert_eq!(cut, "it is truncated; record it again");
    assert!(Capture::parse(b"main;work 3").unwrap_err().starts_with("this is not a capture"));
}

/// A capture of `depth` functions with names of `length` bytes, each called by the previous one, and `counts` samples
/// of the innermost.
fn chain(depth: u32, length: usize, counts: u32) -> Vec<u8> {
    let stack = |nr: u32| Stack { parent: nr.checked_sub(1), function: 0 };
    let count = Count { program: 0, stack: depth.checked_sub(1), samples: 1, weight: 1 };
    Capture {
        schema: SCHEMA,
        programs: vec!["p".to_owned()],
        functions: vec![Function::new("f".repeat(length), Kind::User)],
        stacks: (0..depth).map(stack).collect(),
        counts: (0..counts).map(|_| count).collect(),
        ..Capture::default()
    }
    .to_json()
}

#[test]
fn stacks_that_take_too_much_memory_when_they_are_printed_are_refused() {
    let refused = |text: Vec<u8>| Capture::parse(&text).unwrap_err();
    assert!(Capture::parse(&chain(10_000, 1, 10_000)).is_ok());
    assert_eq!(
        refused(chain(10_000, 1, 10_001)),
        "its stacks have 100010000 functions, and knee reads at most 100000000; sample for a shorter \
         time, or with a lower frequency (-F)"
    );
    let names = refused(chain(10_000, 2000, 1000));
    assert!(names.starts_with("its stacks have 20010001000 bytes of names"), "{names}");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Capture::parse(&text);
    }

    #[test]
    fn no_damaged_byte_makes_the_reader_panic(at in 0_usize..2000, byte in any::<u8>()) {
        let mut text = serde_json::to_vec(&small()).unwrap();
        let at = at % text.len();
        text[at] = byte;
        let _ = Capture::parse(&text);
    }
}

#[test]
fn the_schema_is_committed() {
    let committed = snapbox::file!["../../schemas/capture.schema.json"].raw();
    assert_data_eq!(format!("{:#}\n", schema()), committed);
}

#[test]
fn units_have_a_singular_with_an_article() {
    let one = |unit| with_article(&one_of(unit));
    let singulars = ["iterations", "requests", "queries", "user logins", "work"].map(one);
    assert_eq!(singulars, ["an iteration", "a request", "a query", "a user login", "a work"]);
}
