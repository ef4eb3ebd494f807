//! Other maps, each behind one lock.

use std::sync::{Mutex, RwLock};

use knee_vm::{PAGE, Page, Pages, Protection};
use memory_addr::VirtAddr;
use memory_set::{MappingBackend, MemoryArea, MemorySet};
use nodit::{Interval, NoditMap, interval};
use rangemap::RangeMap;

use crate::map::{Map, WRITABLE};
use crate::tree::Tree;

impl Map for Mutex<Tree> {
    type Thread = ();

    fn thread(&'static self, _: usize) {}

    fn map(&self, (): &(), pages: Pages) {
        self.lock().unwrap().map(pages, WRITABLE);
    }

    fn unmap(&self, (): &(), pages: Pages) {
        self.lock().unwrap().unmap(pages);
    }

    fn is_writable(&self, (): &(), page: Page) -> bool {
        self.lock().unwrap().find(page).is_some_and(|may| may.contains(Protection::WRITE))
    }
}

impl Map for RwLock<Tree> {
    type Thread = ();

    fn thread(&'static self, _: usize) {}

    fn map(&self, (): &(), pages: Pages) {
        self.write().unwrap().map(pages, WRITABLE);
    }

    fn unmap(&self, (): &(), pages: Pages) {
        self.write().unwrap().unmap(pages);
    }

    fn is_writable(&self, (): &(), page: Page) -> bool {
        self.read().unwrap().find(page).is_some_and(|may| may.contains(Protection::WRITE))
    }
}

impl Map for Mutex<RangeMap<Page, Protection>> {
    type Thread = ();

    fn thread(&'static self, _: usize) {}

    fn map(&self, (): &(), pages: Pages) {
        self.lock().unwrap().insert(pages.start..pages.end, WRITABLE);
    }

    fn unmap(&self, (): &(), pages: Pages) {
        self.lock().unwrap().remove(pages.start..pages.end);
    }

    fn is_writable(&self, (): &(), page: Page) -> bool {
        self.lock().unwrap().get(&page).is_some_and(|may| may.contains(Protection::WRITE))
    }
}

impl Map for Mutex<NoditMap<u64, Interval<u64>, Protection>> {
    type Thread = ();

    fn thread(&'static self, _: usize) {}

    fn map(&self, (): &(), pages: Pages) {
        let interval = interval::ii(pages.start.0, pages.end.0 - 1);
        let mapped = self.lock().unwrap().insert_merge_touching_if_values_equal(interval, WRITABLE);
        mapped.expect("nothing is mapped there");
    }

    fn unmap(&self, (): &(), pages: Pages) {
        let interval = interval::ii(pages.start.0, pages.end.0 - 1);
        self.lock().unwrap().cut(&interval).for_each(drop);
    }

    fn is_writable(&self, (): &(), page: Page) -> bool {
        self.lock()
            .unwrap()
            .get_at_point(&page.0)
            .is_some_and(|may| may.contains(Protection::WRITE))
    }
}

/// No page table: what is measured is the set.
#[derive(Clone)]
pub(crate) struct Nothing;

impl MappingBackend for Nothing {
    type Addr = VirtAddr;
    type Flags = Protection;
    type PageTable = ();

    fn map(&self, _: VirtAddr, _: usize, _: Protection, (): &mut ()) -> bool {
        true
    }

    fn unmap(&self, _: VirtAddr, _: usize, (): &mut ()) -> bool {
        true
    }

    fn protect(&self, _: VirtAddr, _: usize, _: Protection, (): &mut ()) -> bool {
        true
    }
}

fn bytes(pages: Pages) -> (VirtAddr, usize) {
    (VirtAddr::from(pages.start.address().0 as usize), pages.count() as usize * PAGE)
}

impl Map for Mutex<MemorySet<Nothing>> {
    type Thread = ();

    fn thread(&'static self, _: usize) {}

    fn map(&self, (): &(), pages: Pages) {
        let (start, size) = bytes(pages);
        let area = MemoryArea::new(start, size, WRITABLE, Nothing);
        self.lock().unwrap().map(area, &mut (), false).expect("nothing is mapped there");
    }

    fn unmap(&self, (): &(), pages: Pages) {
        let (start, size) = bytes(pages);
        self.lock().unwrap().unmap(start, size, &mut ()).expect("the backend does it");
    }

    fn is_writable(&self, (): &(), page: Page) -> bool {
        let address = VirtAddr::from(page.address().0 as usize);
        let set = self.lock().unwrap();
        set.find(address).is_some_and(|area| area.flags().contains(Protection::WRITE))
    }
}
