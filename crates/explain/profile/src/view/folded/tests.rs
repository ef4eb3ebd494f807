use proptest::prelude::*;
use snapbox::{assert_data_eq, str};

use super::*;
use crate::capture::Stacks;
use crate::view::fixture::example;

pub(crate) fn text(capture: &Capture, options: FoldedOptions) -> String {
    let mut text = Vec::new();
    folded(capture, options, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

proptest! {
    /// The letters around the semicolon and the blank, which are the separators.
    #[test]
    fn lines_are_sorted_by_bytes_whatever_the_names(
        stacks in prop::collection::vec(prop::collection::vec("[f!:<;]{0,2}", 1..5), 1..20)
    ) {
        let (mut all, mut expected) = (Stacks::default(), BTreeMap::new());
        for stack in &stacks {
            let functions = stack[1..].iter().map(|name| Function::new(name.as_str(), Kind::User));
            all.add(&stack[0], functions, 1, 1);
            let names: Vec<String> = stack.iter().map(|name| name.replace(';', ":")).collect();
            *expected.entry(names.join(";")).or_insert(0) += 1;
        }
        let expected = expected.into_iter().map(|(line, count)| format!("{line} {count}\n"));
        prop_assert_eq!(
            text(&all.finish(), FoldedOptions::default()),
            expected.collect::<String>()
        );
    }
}

#[test]
fn equal_lines_are_merged() {
    assert_data_eq!(
        text(&example(), FoldedOptions::default()),
        str![[r#"
prog;main 3
prog;main;fib 20
prog;main;fib;fib 60
prog;main;fib;fib;fib 120
prog;main;work;[libc.so.6];entry_SYSCALL_64;copy_page 250
prog;main;work;mix 400
two_words 1
two_words;entry_SYSCALL_64;copy_page 46
two_words;work;mix 100

"#]]
    );
    let options = FoldedOptions { annotate: true, counted: Counted::Weight };
    assert_data_eq!(
        text(&example(), options),
        str![[r#"
prog;main 3000000
prog;main;fib 20000000
prog;main;fib;fib 60000000
prog;main;fib;fib;fib 120000000
prog;main;work;[libc.so.6];entry_SYSCALL_64_[k];copy_page_[k] 250000000
prog;main;work;mix_[i] 400000000
two_words 1000000
two_words;entry_SYSCALL_64_[k];copy_page_[k] 46000000
two_words;work;mix 100000000

"#]]
    );
}

#[test]
fn parameters_are_left_out_but_parts_of_names_stay() {
    let cases = [
        ("go/build.(*importReader).readByte", "go/build.(*importReader).readByte"),
        ("foo<Vec::<usize>>(Vec<usize>)", "foo<Vec::<usize>>"),
        (".run()V", ".run"),
        ("base(BasicType) const", "base"),
        (
            "std::function<void (int, int)>::operator(int, int)",
            "std::function<void (int, int)>::operator",
        ),
        ("{lambda(int, int)#2}::operator()", "{lambda(int, int)#2}::operator"),
        ("(anonymous namespace)::bar()", "(anonymous namespace)::bar"),
    ];
    for (name, expected) in cases {
        assert_eq!(without_parameters(name), expected);
    }
}
