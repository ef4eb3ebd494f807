//! CPUs write to a space while others fork it. Each copy is a snapshot, which later writes do not change.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use knee_vm::{Page, Pages, Protection};

use super::{Options, new_space};
use crate::access::{load, store, watch, write};
use crate::arch::MOST_CPUS;
use crate::cpu::{count, current, drop_space};
use crate::jobs::on_each_cpu;
use crate::machine::Space;

/// The pages of a CPU, in two leaf tables. The CPU stores each value to the first page, and then to the
/// second.
fn pages(cpu: usize) -> [Page; 2] {
    [Page(0x3_0000 + cpu as u64), Page(0x3_0200 + cpu as u64)]
}

fn address(page: Page) -> u64 {
    page.address().0 + 8
}

/// A copy of the space, and the words that each CPU's pages contained at the fork.
struct Copy {
    space: Box<Space>,
    words: Vec<[u64; 2]>,
}

impl Copy {
    /// Forks the space. If the copy contains a store to a CPU's second page, it also contains the earlier
    /// store of that value to the first page.
    fn new(space: &Space, values: &[AtomicU64]) -> Copy {
        let now = || values.iter().map(|value| value.load(SeqCst)).collect::<Vec<u64>>();
        let before = now();
        let copy = Box::new(space.fork(current()).expect("there is memory"));
        let after = now();
        let words = before.into_iter().zip(after).enumerate().map(|(cpu, (before, after))| {
            let words =
                pages(cpu).map(|page| load(&copy, address(page)).expect("the page is mapped"));
            let [first, second] = words;
            assert!(
                first == second || first == second + 1,
                "a copy has {first} and {second} of CPU {cpu}, which stores to the first page first"
            );
            assert!(
                (before..=after + 1).contains(&first),
                "CPU {cpu} had stored {before} before a fork and {after} after it, but the copy has {first}"
            );
            words
        });
        let words = words.collect();
        Copy { space: copy, words }
    }

    /// Checks that nobody has changed the copy, changes it, and drops it.
    fn end(self) {
        for (cpu, words) in self.words.iter().enumerate() {
            let [first, second] = pages(cpu).map(address);
            assert_eq!(watch(&self.space, first, words[0]), Ok(words[0]), "a copy has changed");
            // Breaks copy-on-write, if the original space has not done so.
            assert_eq!(store(&self.space, second, u64::MAX), Ok(()));
            assert_eq!(load(&self.space, first), Ok(words[0]), "a copy has changed");
            write(&self.space, first, 1).expect("the page is mapped");
            assert_eq!(load(&self.space, second), Ok(u64::MAX), "a copy has lost a store");
        }
        drop_space(self.space);
    }
}

pub(super) fn forks(options: &Options) {
    let space = new_space();
    for start in pages(0) {
        let pages = Pages::new(start, count() as u64);
        space.map(current(), pages, Protection::READ_WRITE).expect("the pages are free");
    }
    let values: [AtomicU64; MOST_CPUS] = Default::default();
    let values = &values[..count()];
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        let [first, second] = pages(number).map(address);
        let mut copy = None;
        for _ in 0..options.rounds {
            if random.below(24) > 0 {
                let value = values[number].load(SeqCst) + 1;
                assert_eq!(store(&space, first, value), Ok(()));
                assert_eq!(store(&space, second, value), Ok(()));
                values[number].store(value, SeqCst);
                assert_eq!(load(&space, first), Ok(value), "a store was lost");
                // A store by another CPU is visible, even if the store broke copy-on-write.
                let other = random.below(count() as u64) as usize;
                let value = values[other].load(SeqCst);
                let found = load(&space, address(pages(other)[0])).expect("the page is mapped");
                assert!(
                    found >= value,
                    "CPU {other} has stored {value}, but CPU {number} finds {found}"
                );
            } else if let Some(copy) = copy.take() {
                Copy::end(copy);
            } else {
                copy = Some(Copy::new(&space, values));
            }
        }
        copy.into_iter().for_each(Copy::end);
    });
    drop_space(space);
}
