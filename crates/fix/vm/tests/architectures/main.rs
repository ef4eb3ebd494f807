//! Checks that changes to page tables follow the rules of each architecture. The hosted machines cache as
//! much as the manuals allow. A hosted machine panics instead of letting a program access another program's
//! memory or fault forever.

mod each;

use each::on_each_format;
use knee_vm::hosted::{Architecture, Hosted};
use knee_vm::{
    Fault, Object, PAGE, Page, Pager, PagerError, Pages, Protection, Sharing, Space, VirtAddr,
};

const WRITE: Protection = Protection::READ_WRITE;

fn address(page: u64) -> VirtAddr {
    Page(page).address()
}

on_each_format!(
    a_translation_of_one_space_is_not_used_in_another,
    a_file_page_that_was_read_can_be_written,
    a_page_made_writable_again_can_be_written,
    a_forked_page_that_was_read_can_be_written,
    a_cpu_finds_a_page_that_another_cpu_made_present,
    a_cpu_finds_a_table_that_another_cpu_added,
    no_cpu_walks_pruned_tables,
    no_cpu_walks_tables_that_unmap_freed,
);

/// A CPU that tags translations with address-space identifiers is active in two spaces at once, and keeps the
/// translations of both.
fn a_translation_of_one_space_is_not_used_in_another<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let spaces = [Space::new(&cpu).unwrap(), Space::new(&cpu).unwrap()];
    for space in &spaces {
        space.map(&cpu, Pages::new(Page(16), 2), WRITE).unwrap();
    }
    let [one, other] = &spaces;
    cpu.store(one, address(16), 1).unwrap();
    assert_eq!(cpu.load(other, address(16)), Ok(0));
    assert_eq!(cpu.load(one, address(16)), Ok(1));
}

/// A file of zeros.
struct Zeros;

impl Pager for Zeros {
    fn page_in(&self, _: u64, _: &mut [u8; PAGE]) -> Result<(), PagerError> {
        Ok(())
    }

    fn page_out(&self, _: u64, _: &[u8; PAGE]) -> Result<(), PagerError> {
        Ok(())
    }
}

/// The entry is not writable before the first store, so that this store raises a fault, which marks the
/// page dirty.
fn a_file_page_that_was_read_can_be_written<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let object = Object::with_pager(&cpu, 4, 4, Box::new(Zeros)).unwrap();
    let space = Space::new(&cpu).unwrap();
    space.map_object(&cpu, Pages::new(Page(16), 4), &object, 0, WRITE, Sharing::Shared).unwrap();
    assert_eq!(cpu.load(&space, address(16)), Ok(0));
    cpu.store(&space, address(16), 7).unwrap();
    assert_eq!(cpu.load(&space, address(16)), Ok(7));
}

/// `protect` revokes permissions at once. New permissions take effect at the next fault.
fn a_page_made_writable_again_can_be_written<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(Page(16), 4), WRITE).unwrap();
    cpu.store(&space, address(16), 1).unwrap();
    space.protect(&cpu, Pages::new(Page(16), 4), Protection::READ).unwrap();
    assert_eq!(cpu.store(&space, address(16), 2), Err(Fault::AccessDenied));
    assert_eq!(cpu.load(&space, address(16)), Ok(1));
    space.protect(&cpu, Pages::new(Page(16), 4), WRITE).unwrap();
    cpu.store(&space, address(16), 3).unwrap();
    assert_eq!(cpu.load(&space, address(16)), Ok(3));
}

fn a_forked_page_that_was_read_can_be_written<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(Page(16), 4), WRITE).unwrap();
    cpu.store(&space, address(16), 1).unwrap();
    let copy = space.fork(&cpu).unwrap();
    for one in [&space, &copy] {
        assert_eq!(cpu.load(one, address(16)), Ok(1));
        cpu.store(one, address(16), one.number()).unwrap();
        assert_eq!(cpu.load(one, address(16)), Ok(one.number()));
    }
}

/// A CPU may have cached the page as absent or read-only before another CPU changed the page-table entry.
fn a_cpu_finds_a_page_that_another_cpu_made_present<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 2);
    let (cpu, other) = (machine.cpu(0), machine.cpu(1));
    let space = Space::new(&cpu).unwrap();
    assert_eq!(cpu.load(&space, address(16)), Err(Fault::Unmapped));
    space.map(&other, Pages::new(Page(16), 4), WRITE).unwrap();
    other.store(&space, address(16), 7).unwrap();
    assert_eq!(cpu.load(&space, address(16)), Ok(7));
}

/// A CPU may have cached, at any level, that a table was absent.
fn a_cpu_finds_a_table_that_another_cpu_added<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 2);
    let (cpu, other) = (machine.cpu(0), machine.cpu(1));
    let space = Space::new(&cpu).unwrap();
    let one_for_each_level = [16, 16 + (1 << 9), 16 + (1 << 18), 16 + (1 << 27)];
    for page in one_for_each_level.into_iter().take(A::LEVELS.into()) {
        assert_eq!(cpu.load(&space, address(page)), Err(Fault::Unmapped));
        space.map(&other, Pages::new(Page(page), 2), WRITE).unwrap();
        other.store(&space, address(page), page).unwrap();
        assert_eq!(cpu.load(&space, address(page)), Ok(page));
        cpu.store(&space, address(page + 1), page).unwrap();
        assert_eq!(other.load(&space, address(page + 1)), Ok(page));
    }
}

/// Cached pointers to tables are flushed before the frames of the tables are reused.
fn no_cpu_walks_pruned_tables<A: Architecture>() {
    // Few frames, so that frames of tables are soon reused.
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(Page(512 - 1), 2);
    for round in 0..40 {
        space.map(&cpu, pages, WRITE).unwrap();
        for page in [pages.start, pages.start + 1] {
            cpu.store(&space, page.address(), round).unwrap();
        }
        space.unmap(&cpu, pages).unwrap();
        assert!(space.prune(&cpu, space.pages()) > 0);
        assert_eq!(cpu.load(&space, pages.start.address()), Err(Fault::Unmapped));
    }
}

/// An `unmap` of a gibibyte or more prunes tables.
fn no_cpu_walks_tables_that_unmap_freed<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(Page(1 << 18), 2 << 18);
    for round in 0..40 {
        space.map(&cpu, pages, WRITE).unwrap();
        cpu.store(&space, pages.start.address(), round).unwrap();
        space.unmap(&cpu, pages).unwrap();
        assert_eq!(cpu.load(&space, pages.start.address()), Err(Fault::Unmapped));
    }
}
