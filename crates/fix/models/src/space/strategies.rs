//! Operations on a space, for proptest.

use knee_vm::{Pages, Protection};
use proptest::prelude::*;

use super::{NUMBERS, Operation, READ, WRITE, page};

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

/// Random operations on pages around the ends of tables.
pub fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => (pages(), protection()).prop_map(|(pages, protection)| Operation::Map(pages, protection)),
        1 => pages().prop_map(Operation::Guard),
        3 => pages().prop_map(Operation::Unmap),
        2 => (pages(), prop_oneof![3 => protection(), 1 => Just(Protection::GUARD)])
            .prop_map(|(pages, protection)| Operation::Replace(pages, protection)),
        2 => (pages(), protection())
            .prop_map(|(pages, protection)| Operation::Protect(pages, protection)),
        1 => pages().prop_map(Operation::Discard),
        1 => (0..NUMBERS, 1_u64..5)
            .prop_map(|(number, count)| Operation::Populate(Pages::new(page(number), count))),
        2 => pages().prop_map(Operation::SwapOut),
        2 => (0_u64..40).prop_map(Operation::Reclaim),
        4 => (0..NUMBERS, 1_u64..).prop_map(|(number, value)| Operation::Store(page(number), value)),
        2 => (0..NUMBERS).prop_map(|number| Operation::Load(page(number))),
    ]
}
