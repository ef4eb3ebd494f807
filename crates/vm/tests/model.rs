//! A space against a map of pages: what is mapped, what may be done, and what was stored.

mod reference;

use std::fs;
use std::path::Path;

use knee_vm::hosted::Hosted;
use knee_vm::{PAGE, Pages, Protection, Space};
use proptest::prelude::*;

use reference::{Model, NUMBERS, Operation, READ, WRITE, apply, page};

fn pages() -> impl Strategy<Value = Pages> {
    prop_oneof![
        8 => (0..NUMBERS, 1_u64..24).prop_map(|(number, count)| Pages::new(page(number), count)),
        2 => (0..NUMBERS, 0..NUMBERS).prop_map(|(one, other)| {
            let (first, last) = (page(one.min(other)), page(one.max(other)));
            Pages { start: first, end: last + 1 }
        }),
    ]
}

fn protection() -> impl Strategy<Value = Protection> {
    prop_oneof![Just(READ), Just(READ | WRITE), Just(Protection::NONE)]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => (pages(), protection()).prop_map(|(pages, protection)| Operation::Map(pages, protection)),
        3 => pages().prop_map(Operation::Unmap),
        2 => (pages(), protection())
            .prop_map(|(pages, protection)| Operation::Protect(pages, protection)),
        1 => pages().prop_map(Operation::Discard),
        1 => (0..NUMBERS, 1_u64..5)
            .prop_map(|(number, count)| Operation::Populate(Pages::new(page(number), count))),
        4 => (0..NUMBERS, 1_u64..).prop_map(|(number, value)| Operation::Store(page(number), value)),
        2 => (0..NUMBERS).prop_map(|number| Operation::Load(page(number))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_space_does_what_a_map_of_pages_does(
        operations in prop::collection::vec(operation(), 1..80)
    ) {
        let machine = Hosted::new(4096, 1);
        let all = machine.free_frames();
        {
            let cpu = machine.cpu(0);
            let space = Space::new(&cpu).unwrap();
            let mut model = Model::default();
            for operation in &operations {
                prop_assert_eq!(apply(&cpu, &space, operation), model.apply(operation));
                model.check(&cpu, &space);
            }
        }
        prop_assert_eq!(machine.free_frames(), all, "all frames come back");
    }

    #[test]
    fn spaces_of_a_family_do_what_their_maps_do(text in prop::collection::vec(any::<u8>(), 4..320)) {
        reference::family(&text);
    }
}

/// Texts that the fuzzer has found to go other ways, and those that have failed.
#[test]
fn what_the_fuzzer_has_kept_is_done_as_it_has_to_be() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/vm_space");
    let mut texts = 0;
    for file in fs::read_dir(corpus).unwrap() {
        reference::family(&fs::read(file.unwrap().path()).unwrap());
        texts += 1;
    }
    assert!(texts > 0, "no corpus of vm_space");
}

/// It went on for ever: the page was mapped, and the hardware found none that may be written only.
#[test]
fn what_may_be_written_may_be_read() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(7, 2);
    for protection in [WRITE, Protection::EXECUTE] {
        space.map(&cpu, pages, protection).unwrap();
        assert_eq!(space.query(&cpu, 7), Some(protection | READ));
        assert_eq!(cpu.load(&space, 7 * PAGE as u64), Ok(0));
        space.protect(&cpu, pages, Protection::NONE).unwrap();
        space.protect(&cpu, pages, WRITE).unwrap();
        assert_eq!(cpu.store(&space, 7 * PAGE as u64, 1), Ok(()));
        space.unmap(&cpu, pages).unwrap();
    }
    assert_eq!(space.query(&cpu, u64::MAX), None);
}
