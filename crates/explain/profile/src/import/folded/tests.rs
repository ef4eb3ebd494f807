use proptest::prelude::*;
use snapbox::{assert_data_eq, str};

use super::*;
use crate::view::folded::{Counted, FoldedOptions};

fn read(text: &str) -> Capture {
    folded(text.as_bytes(), "a text").unwrap()
}

fn write(capture: &Capture, annotate: bool) -> String {
    crate::view::folded::tests::text(capture, FoldedOptions { annotate, counted: Counted::Samples })
}

#[test]
fn folded_stacks_are_read_as_they_were_written() {
    let text = "idle 3\nprog;main 1\nprog;main;read_[k];copy_[i] 12\nprog;operator new 2\n";
    assert_eq!(write(&read(text), true), text);
    assert_data_eq!(
        write(&read(text), false),
        str![[r#"
idle 3
prog;main 1
prog;main;read;copy 12
prog;operator new 2

"#]]
    );
}

#[test]
fn unreadable_lines_are_counted() {
    let capture = read("# a comment\n\nmain;f\nmain;f 1x\n 12\nmain;f 2.75\nmain;f 3");
    assert_eq!((capture.samples(), capture.losses.unreadable), (2, 4));
    let capture = read("a 18446744073709551615\nb 1\nc 18446744073709551616\n");
    assert_eq!((capture.samples(), capture.losses.unreadable), (u64::MAX, 2));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let capture = folded(text.as_slice(), "").unwrap();
        Capture::parse(&serde_json::to_vec(&capture).unwrap()).unwrap();
    }

    /// Sorted and distinct lines are written as they were read.
    #[test]
    fn lines_survive_a_round_trip(
        lines in prop::collection::btree_map("[a-c]{1,2}(;[a-d:]{1,3}(_\\[[ki]\\])?){0,4}", 1_u64..100, 0..20)
    ) {
        let text: String = lines.iter().map(|(line, count)| format!("{line} {count}\n")).collect();
        prop_assert_eq!(write(&read(&text), true), text);
    }
}

#[test]
fn a_stack_of_millions_of_functions_is_skipped() {
    let text = format!("prog{} 1\nprog;main 2\n", ";f".repeat(MOST_FRAMES + 1));
    let capture = read(&text);
    assert_eq!(capture.losses.unreadable, 1);
    assert_eq!(write(&capture, false), "prog;main 2\n");
}
