//! Each CPU maps, uses and unmaps stacks between guards, and lists the mappings of the space that all CPUs
//! share.

use alloc::vec::Vec;

use knee_vm::{Fault, MapError, Page, Pages, Protection};

use super::{Options, new_space};
use crate::access::{load, store};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;
use crate::machine::Space;

/// The maximum number of stacks of a CPU.
const MOST: usize = 6;

/// A stack of a CPU.
struct Stack {
    pages: Pages,
    /// The number of guards below the stack, and of those above it.
    guards: u64,
    protection: Protection,
    /// The second word of each page.
    word: u64,
}

impl Stack {
    fn new(space: &Space, count: u64, guards: u64, word: u64) -> Stack {
        let protection = Protection::READ_WRITE;
        let pages = space.map_guarded(current(), count, guards, protection);
        let pages = pages.expect("there is memory");
        for page in pages.iter() {
            assert_eq!(load(space, address(page)), Ok(0), "a new page is not zero");
            assert_eq!(store(space, address(page), word), Ok(()));
        }
        Stack { pages, guards, protection, word }
    }

    /// The guards below the stack, and those above it.
    fn guards(&self) -> [Pages; 2] {
        [
            Pages::new(self.pages.start - self.guards, self.guards),
            Pages::new(self.pages.end, self.guards),
        ]
    }

    /// The stack and its guards.
    fn all(&self) -> Pages {
        let [below, above] = self.guards();
        Pages { start: below.start, end: above.end }
    }

    /// Checks that the pages have their content, that the stack allows its accesses and no others, and that
    /// accesses to guards fault.
    fn check(&self, space: &Space) {
        let result = match self.protection.contains(Protection::WRITE) {
            true => Ok(()),
            false => Err(Fault::AccessDenied),
        };
        assert_eq!(store(space, address(self.pages.start), self.word), result);
        for page in self.pages.iter() {
            assert_eq!(load(space, address(page)), Ok(self.word), "{page:?} lost its content");
        }
        for guard in self.guards().into_iter().flat_map(Pages::iter) {
            assert_eq!(load(space, address(guard)), Err(Fault::Guard), "{guard:?}");
            assert_eq!(store(space, address(guard), self.word), Err(Fault::Guard), "{guard:?}");
        }
    }

    /// Checks that operations on a guard fail and change nothing.
    fn misuse(&self, space: &Space) {
        for guards in self.guards() {
            let access = Protection::READ_WRITE;
            assert_eq!(space.map(current(), guards, access), Err(MapError::Occupied));
            assert_eq!(space.protect(current(), guards, access), Err(MapError::Unmapped));
        }
    }
}

fn address(page: Page) -> u64 {
    page.address().0 + 8
}

pub(super) fn stacks(options: &Options) {
    let space = new_space();
    on_each_cpu(&|number| {
        let (cpu, mut random) = (current(), options.random(number));
        let mut own: Vec<Stack> = Vec::new();
        for round in 0..options.rounds {
            let word = round << 8 | number as u64;
            if own.is_empty() || own.len() < MOST && random.below(4) == 0 {
                own.push(Stack::new(&space, 1 + random.below(6), 1 + random.below(3), word));
            }
            let index = random.below(own.len() as u64) as usize;
            let stack = &mut own[index];
            match random.below(8) {
                0 | 1 => {
                    let stack = own.swap_remove(index);
                    stack.check(&space);
                    space.unmap(cpu, stack.all()).expect("there is memory");
                }
                2 => {
                    let access = Protection::READ_WRITE;
                    let is_writable = stack.protection == access;
                    stack.protection = if is_writable { Protection::READ } else { access };
                    space.protect(cpu, stack.pages, stack.protection).expect("it is mapped");
                    stack.check(&space);
                }
                3 => stack.misuse(&space),
                4 => check_list(&space, &own),
                _ => stack.check(&space),
            }
        }
        check_list(&space, &own);
        for stack in own {
            space.unmap(cpu, stack.all()).expect("there is memory");
        }
    });
    assert_eq!(space.mappings(current()).count(), 1, "more than the code is mapped");
    drop_space(space);
}

/// Checks that the list of the mappings is sorted, and that it contains the stacks of the calling CPU.
fn check_list(space: &Space, own: &[Stack]) {
    let list: Vec<_> = space.mappings(current()).collect();
    assert!(list.is_sorted_by(|one, next| one.pages.end <= next.pages.start), "{list:?}");
    for stack in own {
        let is_stack = |pages, protection| (pages, protection) == (stack.pages, stack.protection);
        let has_stack = list.iter().any(|mapping| is_stack(mapping.pages, mapping.protection));
        assert!(has_stack, "the stack {:?} is not in {list:?}", stack.pages);
        // The guards of a neighbouring stack may be in the same mapping.
        for guards in stack.guards() {
            let mut mappings = list.iter().filter(|mapping| mapping.pages.covers(guards));
            let found = mappings.next().map(|mapping| mapping.protection);
            assert_eq!(found, Some(Protection::GUARD), "the guards {guards:?} in {list:?}");
        }
    }
}
