//! The kernel reads and writes the memory of programs.

#[path = "architectures/each.rs"]
mod each;

use std::panic::{self, AssertUnwindSafe};
use std::thread;

use each::on_each_architecture;
use knee_vm::hosted::{Architecture, Hosted};
use knee_vm::{
    Fault, Object, PAGE, Page, Pages, PartialCopy, Protection, Sharing, Space, VirtAddr,
};
use proptest::prelude::*;

const WRITE: Protection = Protection::READ_WRITE;
const START: Page = Page(510);

fn address(offset: usize) -> VirtAddr {
    START.address() + offset as u64
}

on_each_architecture!(
    the_kernel_and_the_program_see_each_others_stores,
    a_copy_does_not_see_what_the_kernel_writes,
    bytes_before_the_fault_are_copied,
    shared_writes_reach_other_spaces_and_private_copies_keep_their_content,
    neighbouring_bytes_of_concurrent_writes_are_kept,
    a_callback_that_panics_leaves_no_lock,
);

fn the_kernel_and_the_program_see_each_others_stores<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    // The pages are in two leaf tables.
    space.map(&cpu, Pages::new(START, 4), WRITE).unwrap();
    let text: Vec<u8> = (0..2 * PAGE + 11).map(|at| at as u8).collect();
    space.write(&cpu, address(PAGE - 3), &text).unwrap();
    let word = u64::from_ne_bytes(*text[3 + 8..].first_chunk().unwrap());
    assert_eq!(cpu.load(&space, address(PAGE + 8)), Ok(word));
    cpu.store(&space, address(PAGE + 8), 7).unwrap();
    let mut found = vec![0; text.len()];
    space.read(&cpu, address(PAGE - 3), &mut found).unwrap();
    assert_eq!(found[11..19], 7_u64.to_ne_bytes());
    assert_eq!((&found[..11], &found[19..]), (&text[..11], &text[19..]));
    space.read(&cpu, address(0), &mut []).unwrap();
}

fn a_callback_that_panics_leaves_no_lock<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(START, 1);
    space.map(&cpu, pages, WRITE).unwrap();
    let failed = panic::catch_unwind(AssertUnwindSafe(|| {
        space.with_page(&cpu, START, WRITE, |_| {
            if cfg!(debug_assertions) { space.unmap(&cpu, pages) } else { panic!() }
        })
    }));
    // Release builds do not check whether a callback calls an operation.
    if cfg!(debug_assertions) {
        assert_eq!(
            failed.unwrap_err().downcast_ref(),
            Some(&"an operation's callback calls another operation")
        );
    }
    space.unmap(&cpu, pages).unwrap();
}

fn a_copy_does_not_see_what_the_kernel_writes<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(START, 1), WRITE).unwrap();
    space.write(&cpu, address(5), b"before").unwrap();
    let copy = space.fork(&cpu).unwrap();
    space.write(&cpu, address(5), b"after!").unwrap();
    let mut found = [0; 6];
    copy.read(&cpu, address(5), &mut found).unwrap();
    assert_eq!(&found, b"before");
}

fn bytes_before_the_fault_are_copied<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(START, 1), WRITE).unwrap();
    space.map(&cpu, Pages::new(START + 1, 1), Protection::READ).unwrap();
    let bytes = [9; 2 * PAGE];
    let failed = |copied, fault| Err(PartialCopy { copied, fault });
    assert_eq!(space.write(&cpu, address(0), &bytes), failed(PAGE, Fault::AccessDenied));
    let mut found = [1; 3 * PAGE];
    assert_eq!(space.read(&cpu, address(0), &mut found), failed(2 * PAGE, Fault::Unmapped));
    assert_eq!(found[PAGE - 1..=PAGE], [9, 0]);
    assert_eq!(found[2 * PAGE], 1);
    let end = space.pages().end.address();
    assert_eq!(space.read(&cpu, VirtAddr(end.0 - 1), &mut found[..2]), failed(0, Fault::Unmapped));
    assert_eq!(space.read(&cpu, VirtAddr(u64::MAX), &mut found[..2]), failed(0, Fault::Unmapped));
}

fn shared_writes_reach_other_spaces_and_private_copies_keep_their_content<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let object = Object::new(&cpu, 2).unwrap();
    let spaces = [Space::new(&cpu).unwrap(), Space::new(&cpu).unwrap()];
    let sharings = [Sharing::Shared, Sharing::Private];
    for (space, sharing) in spaces.iter().zip(sharings) {
        space.map_object(&cpu, Pages::new(START, 2), &object, 0, WRITE, sharing).unwrap();
    }
    let [shared, private] = &spaces;
    let found = |at| {
        [shared, private].map(|space| {
            let mut found = [0];
            space.read(&cpu, address(at), &mut found).unwrap();
            found[0]
        })
    };
    shared.write(&cpu, address(3), &[1]).unwrap();
    assert_eq!(found(3), [1, 1]);
    private.write(&cpu, address(3), &[2]).unwrap();
    shared.write(&cpu, address(4), &[3]).unwrap();
    assert_eq!((found(3), found(4)), ([1, 2], [3, 0]));
}

/// Two threads write to alternate bytes.
fn neighbouring_bytes_of_concurrent_writes_are_kept<A: Architecture>() {
    const ROUNDS: u8 = if cfg!(miri) { 2 } else { 100 };
    let machine = Hosted::<A>::with_architecture(64, 2);
    let space = Space::new(&machine.cpu(0)).unwrap();
    space.map(&machine.cpu(0), Pages::new(START, 2), WRITE).unwrap();
    let space = &space;
    thread::scope(|scope| {
        for (number, machine) in [&machine; 2].into_iter().enumerate() {
            scope.spawn(move || {
                let cpu = machine.cpu(number);
                for round in 1..=ROUNDS {
                    for at in (number..PAGE + 16).step_by(if cfg!(miri) { 1024 } else { 2 }) {
                        space.write(&cpu, address(at), &[round]).unwrap();
                    }
                }
                let mut found = vec![0; PAGE + 16];
                cpu.handle_ipis();
                space.read(&cpu, address(0), &mut found).unwrap();
                assert!(
                    found[number..]
                        .iter()
                        .step_by(if cfg!(miri) { 1024 } else { 2 })
                        .all(|&byte| byte == ROUNDS)
                );
            });
        }
    });
}

proptest! {
    #[test]
    fn memory_agrees_with_an_array(
        operations in prop::collection::vec((0_usize..3 * PAGE, 0_usize..PAGE + 20, any::<u8>(), any::<bool>()), 1..40)
    ) {
        let machine = Hosted::new(64, 1);
        let cpu = machine.cpu(0);
        let space = Space::new(&cpu).unwrap();
        space.map(&cpu, Pages::new(START, 3), WRITE).unwrap();
        let mut array = [0; 3 * PAGE];
        for (at, count, byte, is_write) in operations {
            let range = at..(at + count).min(3 * PAGE);
            if is_write {
                let bytes: Vec<u8> = range.clone().map(|at| (at as u8).wrapping_mul(3) ^ byte).collect();
                space.write(&cpu, address(at), &bytes).unwrap();
                array[range].copy_from_slice(&bytes);
            } else {
                let mut found = vec![0; range.len()];
                space.read(&cpu, address(at), &mut found).unwrap();
                prop_assert_eq!(&found, &array[range]);
            }
        }
    }
}
