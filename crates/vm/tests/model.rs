//! A space against a map of pages: what is mapped, what may be done, and what was stored.

mod reference;
#[path = "reference/strategies.rs"]
mod strategies;

use std::fs;
use std::path::Path;

use knee_vm::hosted::Hosted;
use knee_vm::{PAGE, Pages, Protection, Space};
use proptest::prelude::*;

use reference::{Model, READ, WRITE, apply};
use strategies::operation;

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
