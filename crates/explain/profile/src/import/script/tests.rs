//! The reference is inferno's `collapse::perf`, on the same text.

use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};
use proptest::prelude::*;
use snapbox::{assert_data_eq, str};

use super::*;
use crate::capture::Kind;
use crate::view::folded::{Counted, FoldedOptions};

const FRAME_POINTERS: &str = include_str!("../../../tests/data/frame-pointers.txt");
const INLINED: &str = include_str!("../../../tests/data/inlined.txt");
const RUST: &str = include_str!("../../../tests/data/rust.txt");

fn read(text: &str) -> Capture {
    script(text.as_bytes(), "a text").unwrap()
}

fn folded(text: &str, annotate: bool) -> String {
    let options = FoldedOptions { annotate, counted: Counted::Weight };
    crate::view::folded::tests::text(&read(text), options)
}

fn reference(text: &str, annotate: bool) -> String {
    let mut options = Options::default();
    options.annotate_kernel = annotate;
    options.nthreads = 1;
    let mut lines = Vec::new();
    Folder::from(options).collapse(text.as_bytes(), &mut lines).unwrap();
    String::from_utf8(lines).unwrap()
}

#[test]
fn stacks_fold_as_the_reference_folds_them() {
    for text in [FRAME_POINTERS, INLINED, RUST] {
        assert_eq!(folded(text, false), reference(text, false));
    }
    for text in [FRAME_POINTERS, RUST] {
        assert_eq!(folded(text, true), reference(text, true));
    }
}

#[test]
fn the_functions_of_a_limited_number_of_lines_are_kept() {
    let mut text = Text::default();
    let line = "x".repeat(MOST_KEPT / 4);
    for kept in [1, 2, 3, 1, 2] {
        text.keep(&format!("{line}{}", text.kept), Box::default());
        assert_eq!(text.frames.len(), kept);
    }
}

#[test]
fn every_sample_is_counted_once() {
    for text in [FRAME_POINTERS, INLINED, RUST] {
        let capture = read(text);
        assert_eq!(capture.samples() as usize, text.matches("cpu-clock").count());
        assert_eq!(capture.losses, Losses::default());
        assert_eq!(capture.clock.unit, Unit::Nanoseconds);
    }
}

#[test]
fn the_header_gives_the_machine() {
    let capture = read(FRAME_POINTERS);
    assert_eq!((capture.machine.kernel.as_str(), capture.machine.cpus), ("Linux 6.18.44", 2));
    assert_eq!(read(INLINED).machine, Machine::default());
}

#[test]
fn inlined_functions_are_marked() {
    assert_data_eq!(
        folded(
            "\
prog 7 1.0: 5 cycles:u:
\t    12bd leaf (inlined)
\t    12bd body+0x38 (/bin/prog)
\t    12fc main+0x2f (/bin/prog)

",
            true
        ),
        str![
            "prog;main;body;leaf_[i] 5

"
        ]
    );
}

/// First lines in all forms that perf prints.
#[test]
fn first_lines_are_parsed() {
    let line = |text: &'static str| {
        let first = FirstLine::parse(text).unwrap_or_else(|| panic!("{text}"));
        (first.program, first.time, first.period, first.event, first.rest)
    };
    let all = [
        ("java 25607 4794564.109216: cycles:", ("java", Some(4794564.109216), None, "cycles", "")),
        ("java 12688 [002] 65.25: cpu-clock:", ("java", Some(65.25), None, "cpu-clock", "")),
        ("V8 Worker 246/256 [000] 4.5: cycles:", ("V8 Worker", Some(4.5), None, "cycles", "")),
        (
            "vote   913    72.25:     257597 cycles:uppp:",
            ("vote", Some(72.25), Some(257597), "cycles:uppp", ""),
        ),
        ("two 2 words 913 72.25: 7 cycles:", ("two 2 words", Some(72.25), Some(7), "cycles", "")),
        ("   :-1    -1 [001] 72.25: 7 cycles:", (":-1", Some(72.25), Some(7), "cycles", "")),
        ("prog 913 7 cpu/event=0x3c/u:", ("prog", None, Some(7), "cpu/event=0x3c/u", "")),
        ("prog 913 [000] cycles:", ("prog", None, None, "cycles", "")),
        (
            "false 64 20.5: 34467 cycles:u:  ff9a [unknown] ([unknown])",
            ("false", Some(20.5), Some(34467), "cycles:u", "ff9a [unknown] ([unknown])"),
        ),
        (
            "swapper 0 [001] 2.5: sched:sched_switch: prev_comm=a ==> b",
            ("swapper", Some(2.5), None, "sched:sched_switch", "prev_comm=a ==> b"),
        ),
    ];
    for (text, expected) in all {
        assert_eq!(line(text), expected, "{text}");
    }
    for wrong in
        ["", "prog", "prog 12", "12 cycles:", "prog 913 72.5: 7 cycles", "prog 913 72.5: :"]
    {
        assert_eq!(FirstLine::parse(wrong), None, "{wrong}");
    }
}

/// Frames in all forms that perf prints.
#[test]
fn frames_are_parsed() {
    let function = |text: &str| {
        let frame = Frame::parse(text).unwrap_or_else(|| panic!("{text}"));
        let function = frame.functions().remove(0);
        let kernel = function.kind == Kind::Kernel;
        (function.name, function.module.unwrap_or_default(), kernel)
    };
    let all = [
        (
            "ffffffff8103ce3b native_safe_halt ([kernel.kallsyms])",
            ("native_safe_halt", "[kernel]", true),
        ),
        (
            "8c3453 tcp_sendmsg (/lib/modules/4.3.0/build/vmlinux)",
            ("tcp_sendmsg", "[kernel]", true),
        ),
        ("7d8 ipv4_local+0x7f8f80b8 ([nf_conntrack])", ("ipv4_local", "[nf_conntrack]", true)),
        ("7ffd clock_gettime+0x1 ([vdso])", ("clock_gettime", "[vdso]", false)),
        ("7f53389994d0 [unknown] ([unknown])", ("[unknown]", "", false)),
        ("ffffffffc0aa0000 [unknown] ([unknown])", ("[unknown]", "", true)),
        (
            "7f1e2215d058 [unknown] (/usr/lib/libc.so.6)",
            ("[libc.so.6]", "/usr/lib/libc.so.6", false),
        ),
        ("7f1e2215d058  (/usr/lib/libc.so.6)", ("[libc.so.6]", "/usr/lib/libc.so.6", false)),
        ("1 f+0x1f (/home/a b/c (1)/x.so)", ("f", "/home/a b/c (1)/x.so", false)),
        ("1 f+0x1f (/memfd:x (deleted))", ("f", "/memfd:x (deleted)", false)),
        ("1 base(int) const (/bin/x (deleted))", ("base(int) const", "/bin/x (deleted)", false)),
        ("1 (anonymous namespace)::f+0x1 (/bin/x)", ("(anonymous namespace)::f", "/bin/x", false)),
    ];
    for (text, (name, module, is_kernel)) in all {
        assert_eq!(function(text), (name.to_owned(), module.to_owned(), is_kernel), "{text}");
    }
    for wrong in
        ["", "12bd", "12bd main+0x1", "main+0x1 (/bin/x)", "1 f+0x1 /bin/x)", "1 (prog) (/bin/x)"]
    {
        assert_eq!(Frame::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn inlined_java_methods_are_recognised_and_operators_are_not() {
    let text = "\
java 7 1.0: cycles:
\t 1 La/B;::inner->Lc/D;::leaf+0x1 (/tmp/perf-7.map)
\t 2 std::ptr<int>::operator->+0x1 (/bin/x)

";
    assert_eq!(folded(text, true), "java;std::ptr<int>::operator->;a/B:::inner;c/D:::leaf_[i] 1\n");
}

#[test]
fn only_samples_of_the_first_event_are_read() {
    let text = "\
a 1 1.0: 10 cycles:
\t1 f (/bin/a)

a 1 1.5: 3 instructions:
\t1 g (/bin/a)

a 1 1.6: 7 cycles:u:
\t1 f (/bin/a)

a 1 2.0: 10 cycles:
\t1 f (/bin/a)

";
    let first = read(text);
    assert_eq!((first.samples(), first.weight()), (2, 20));
    assert_eq!((first.clock.unit, first.seconds), (Unit::Cycles, Some(1.0)));
}

#[test]
fn samples_without_empty_lines_are_separated() {
    let text = "\
swapper 0 [001] 1.5: sched:sched_switch: prev_comm=a ==> b
 prog   7 [001] 1.6: sched:sched_switch: prev_comm=b ==> a
 prog   7 [001] 1.7: sched:sched_switch: prev_comm=b ==> a
";
    assert_eq!(folded(text, false), "prog 2\nswapper 1\n");
    let text = "\
prog 7 1.0: 5 cycles:  ffffffff9aa3c8de f+0x1 ([kernel.kallsyms])
prog 7 1.1: 5 cycles:              1234 main+0x1 (/bin/prog)
";
    assert_eq!(folded(text, true), "prog;f_[k] 5\nprog;main 5\n");
}

#[test]
fn lost_samples_are_counted() {
    let text = "prog 7 1.0: PERF_RECORD_LOST lost 12\nprog 7 1.0: PERF_RECORD_COMM: prog:7/7\n";
    assert_eq!(read(text).losses.lost, 12);
}

#[test]
fn unreadable_lines_are_counted() {
    let text = "no perf here\n\nprog 7 1.0: cycles:\n\tnothing\n\n";
    let capture = read(text);
    assert_eq!((capture.samples(), capture.losses.unreadable), (0, 2));
    let most = u64::MAX;
    let text = format!("p 7 1.0: {most} cycles:\n\n").repeat(2);
    let capture = read(&text);
    assert_eq!((capture.samples(), capture.losses.unreadable), (1, 1));
}

#[test]
fn a_sample_with_too_many_functions_is_skipped() {
    let stack = "\tffff f (/bin/a)\n".repeat(MOST_FRAMES + 1);
    let text = format!("a 1 1.0: cycles:\n{stack}\na 1 1.1: cycles:\n\tffff g (/bin/a)\n\n");
    let capture = read(&text);
    assert_eq!((capture.samples(), capture.losses.unreadable), (1, 1));
}

/// A truncated text gives the samples before its end, and counts a truncated line as unreadable.
#[test]
fn a_truncated_text_gives_its_whole_samples() {
    for end in (1..INLINED.len()).step_by(97) {
        let capture = read(&INLINED[..end]);
        let begun = INLINED[..end].matches("cpu-clock:ppp:").count() as u64;
        assert!(capture.samples() >= begun.saturating_sub(1) && capture.samples() <= begun);
        let in_a_line = INLINED.as_bytes()[end - 1] != b'\n'
            && INLINED[..end].lines().next_back().is_some_and(|line| !line.trim().is_empty());
        assert_eq!(capture.losses.unreadable, u64::from(in_a_line), "cut at {end}");
    }
}

/// Enough samples for a stack of each form.
fn short() -> &'static str {
    &INLINED[..INLINED.match_indices("\n\n").nth(9).unwrap().0 + 2]
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let read = script(text.as_slice(), "").unwrap();
        prop_assert!(read.samples() <= text.len() as u64);
    }

    #[test]
    fn no_words_make_the_reader_panic(words in prop::collection::vec(
        prop::sample::select(vec![
            "\n", "\n\n", "\t", " ", "prog", "12/13", "[001]", "1.5:", "999", "cycles:", ":", "(", ")",
            "ffffffff81000000", "f+0x1", "->", "[unknown]", "(/bin/x)", "(inlined)", "(deleted)", "#",
            "(/tmp/perf-1.map)", "PERF_RECORD_LOST", "18446744073709551615", "a::h0123456789abcdef",
        ]), 0..60))
    {
        let text = words.join(" ");
        let read = script(text.as_bytes(), "").unwrap();
        let written = serde_json::to_vec(&read).unwrap();
        Capture::parse(&written).unwrap();
    }

    #[test]
    fn one_damaged_byte_costs_one_sample_at_most(at in 0..short().len(), byte in any::<u8>()) {
        let mut text = short().as_bytes().to_owned();
        // A newline in the middle of a sample ends it.
        prop_assume!(text[at] != b'\n' && byte != b'\n');
        text[at] = byte;
        // The first sample decides which event is read.
        text.splice(..0, *b"prog 7 1.0: 5 cpu-clock:ppp:\n\n");
        let whole = 1 + read(short()).samples();
        let damaged = script(text.as_slice(), "").unwrap();
        prop_assert!(damaged.samples() + 1 >= whole);
    }
}
