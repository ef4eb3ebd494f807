use proptest::prelude::*;
use snapbox::{assert_data_eq, str};

use super::*;
use crate::capture::{Function, Kind, Stacks};
use crate::view::fixture::{captured, example};

fn text(root: Root, least_share: f64) -> String {
    tree(&example(), root).unwrap().text(least_share)
}

#[test]
fn the_whole_tree() {
    assert_data_eq!(
        text(Root::All, 0.0),
        str![[r#"
all(100.000% 1000/1000)
  prog(85.300% 853/1000)
    main(85.300% 853/1000)
      work(65.000% 650/1000)
        mix(40.000% 400/1000)
        [libc.so.6](25.000% 250/1000)
          entry_SYSCALL_64(25.000% 250/1000)
            copy_page(25.000% 250/1000)
      fib(int)(20.000% 200/1000)
        fib(int)(18.000% 180/1000)
          fib(int)(12.000% 120/1000)
  two words(14.700% 147/1000)
    work(10.000% 100/1000)
      mix(10.000% 100/1000)
    entry_SYSCALL_64(4.600% 46/1000)
      copy_page(4.600% 46/1000)

"#]]
    );
}

#[test]
fn omitted_functions_are_counted() {
    assert_data_eq!(
        text(Root::All, 0.15),
        str![[r#"
all(100.000% 1000/1000)
  prog(85.300% 853/1000)
    main(85.300% 853/1000)
      work(65.000% 650/1000)
        mix(40.000% 400/1000)
        [libc.so.6](25.000% 250/1000)
          entry_SYSCALL_64(25.000% 250/1000)
            copy_page(25.000% 250/1000)
      fib(int)(20.000% 200/1000)
        fib(int)(18.000% 180/1000)
          (1 more, below 15%: 12.000% 120/1000)
  (1 more, below 15%: 14.700% 147/1000)

"#]]
    );
}

#[test]
fn the_callees_of_a_function_are_shown() {
    assert_data_eq!(
        text(Root::Function("work"), LEAST_SHARE),
        str![[r#"
work(100.000% 750/750)
  mix(66.667% 500/750)
  [libc.so.6](33.333% 250/750)
    entry_SYSCALL_64(33.333% 250/750)
      copy_page(33.333% 250/750)

"#]]
    );
}

#[test]
fn a_recursive_function_is_the_root_once() {
    assert_data_eq!(
        text(Root::Function("fib(int)"), LEAST_SHARE),
        str![[r#"
fib(int)(100.000% 200/200)
  fib(int)(90.000% 180/200)
    fib(int)(60.000% 120/200)

"#]]
    );
    assert_data_eq!(
        text(Root::Callers("fib(int)"), LEAST_SHARE),
        str![[r#"
fib(int)(100.000% 200/200)
  fib(int)(90.000% 180/200)
    fib(int)(60.000% 120/200)
      main(60.000% 120/200)
        prog(60.000% 120/200)
    main(30.000% 60/200)
      prog(30.000% 60/200)
  main(10.000% 20/200)
    prog(10.000% 20/200)

"#]]
    );
}

#[test]
fn the_callers_of_a_function_are_shown() {
    assert_data_eq!(
        text(Root::Callers("copy_page"), LEAST_SHARE),
        str![[r#"
copy_page(100.000% 296/296)
  entry_SYSCALL_64(100.000% 296/296)
    [libc.so.6](84.459% 250/296)
      work(84.459% 250/296)
        main(84.459% 250/296)
          prog(84.459% 250/296)
    two words(15.541% 46/296)

"#]]
    );
}

#[test]
fn an_unknown_function_has_no_tree() {
    assert_eq!(tree(&example(), Root::Function("nowhere")), None);
    assert_eq!(tree(&example(), Root::Callers("nowhere")), None);
}

#[test]
fn a_stack_may_be_deeper_than_the_stack_of_this_thread_and_its_text_stays_short() {
    let mut stacks = Stacks::default();
    let functions = ["a", "b"].map(|name| Function::new(name, Kind::User));
    stacks.add("deep", functions.iter().cycle().take(20_000), 1, 1);
    let capture = captured(stacks);
    let tree = tree(&capture, Root::Function("b")).unwrap();
    let text = tree.text(LEAST_SHARE);
    // The root, 500 levels below it, and a line about the others.
    assert_eq!(text.lines().count(), 502);
    assert_eq!(text.lines().last().unwrap().trim(), "(deeper calls are left out)");
}

proptest! {
    /// For any stacks, no frame has fewer samples than its children together, and the tree of a function
    /// and that of its callers have the same samples at the root.
    #[test]
    fn samples_add_up(
        samples in prop::collection::vec((prop::collection::vec(0_usize..4, 0..8), 1_u64..9), 0..20)
    ) {
        let functions = ["a", "b", "c", "d"].map(|name| Function::new(name, Kind::User));
        let mut stacks = Stacks::default();
        for (stack, count) in &samples {
            stacks.add("p", stack.iter().map(|place| &functions[*place]), *count, 1);
        }
        let capture = captured(stacks);
        let with_a = samples.iter().filter(|(stack, _)| stack.contains(&0));
        let with_a: u64 = with_a.map(|(_, count)| count).sum();
        for root in [Root::All, Root::Function("a"), Root::Callers("a")] {
            let Some(tree) = tree(&capture, root) else {
                prop_assert_eq!(with_a, 0);
                continue;
            };
            let expected = if root == Root::All { capture.samples() } else { with_a };
            prop_assert_eq!(tree.samples(), expected);
            for frame in &tree.frames {
                let below: u64 = frame.children.iter().map(|child| tree.frames[*child].samples.0).sum();
                prop_assert!(below <= frame.samples.0);
            }
        }
    }
}
