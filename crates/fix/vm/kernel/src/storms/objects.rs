//! An object with a pager is written through several spaces, while its pages are evicted.

use alloc::boxed::Box;

use knee_vm::{Fault, Object, Page, Pages, Protection, Sharing};

use super::disk::Disk;
use super::{Options, new_space};
use crate::access::{load, store};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;

const PAGES: u64 = 24;

pub(super) fn objects(options: &Options) {
    let object = Object::with_pager(current(), PAGES, PAGES, Disk::new(PAGES));
    let object = object.expect("there is memory");
    let spaces = [new_space(), new_space()];
    let [shared, private] = [Page(0x5_0000 - 8), Page(0x6_0000)];
    for space in &spaces {
        for (start, sharing) in [(shared, Sharing::Shared), (private, Sharing::Private)] {
            let pages = Pages::new(start, PAGES);
            let result =
                space.map_object(current(), pages, &object, 0, Protection::READ_WRITE, sharing);
            result.expect("the pages are free");
        }
    }
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        // Each CPU has its own word in each page, and remembers the value that it has stored there.
        let mut words = [0; PAGES as usize];
        for round in 0..options.rounds {
            let index = random.below(PAGES);
            let space = &spaces[random.below(2) as usize];
            let address = |start: Page| (start + index).address().0 + 8 * (1 + number as u64);
            let word = &mut words[index as usize];
            match random.below(12) {
                0 => {
                    let first = random.below(PAGES);
                    let count = object.evict(current(), first..(first + 4).min(PAGES));
                    count.expect("the disk does not fail");
                }
                1 => _ = object.write_back(current(), 0..PAGES).expect("the disk does not fail"),
                2 => {
                    // A fork of a space maps the object as well.
                    let copy = Box::new(space.fork(current()).expect("there is memory"));
                    assert_eq!(
                        load(&copy, address(shared)),
                        Ok(*word),
                        "a copy has lost a store to a shared page"
                    );
                    drop_space(copy);
                }
                3 => {
                    // Only this CPU uses this page of the private mapping. The store makes a private copy of
                    // the page, in which stores to the object are not visible.
                    let page = private + number as u64;
                    let at = page.address().0 + 8 * 100;
                    assert_eq!(store(space, at, round + 1), Ok(()));
                    let found = load(space, at).expect("the page is mapped");
                    // The other CPUs use other pages of the same space.
                    assert_eq!(found, round + 1, "a private page lost a store");
                    let pages = Pages::new(page, 1);
                    space.discard(current(), pages).expect("there is memory");
                    assert_eq!(load(space, at), Ok(0), "a discarded private page has old content");
                }
                4..8 => {
                    *word = round + 1;
                    assert_eq!(store(space, address(shared), *word), Ok(()));
                }
                _ => assert_eq!(
                    load(space, address(shared)),
                    Ok(*word),
                    "page {index} of the object has lost a store"
                ),
            }
        }
    });
    assert_eq!(object.evict(current(), 0..PAGES).map(|_| ()), Ok(()));
    assert_eq!(load(&spaces[0], Page(0x7_0000).address().0), Err(Fault::Unmapped));
    spaces.into_iter().for_each(drop_space);
    drop(object);
}
