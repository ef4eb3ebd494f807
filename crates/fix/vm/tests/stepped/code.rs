//! Pages that CPUs execute. A fetch finds the content that the page's frame had when the machine last prepared
//! the frame. The machine panics if an executable entry maps a frame that was not prepared.

use knee_models::disk::Disk;
use knee_vm::hosted::Architecture;
use knee_vm::{Cpu, Object, Page, Pages, Protection, Sharing, Space};

use crate::each::on_each_architecture;
use crate::machine::{Stepped, with_frames};
use crate::{FAR, HERE, NEXT, WRITE, only};

const CODE: Protection = Protection::READ.union(Protection::EXECUTE);
const ALL: Protection = Protection::all().difference(Protection::GUARD);

on_each_architecture!(
    a_new_page_is_prepared,
    a_page_that_becomes_executable_is_prepared,
    a_page_of_an_object_is_prepared,
    a_copy_is_prepared_with_its_content,
    a_page_from_swap_is_prepared_with_its_content,
    all_pages_of_a_large_page_are_prepared,
    a_page_that_moves_after_it_became_executable_is_prepared,
);

/// Passes to `with` a machine, a CPU, and a space in which nothing is mapped.
fn with_space<A: Architecture>(
    with: impl for<'m> FnOnce(&'m Stepped<A>, &Cpu<'m, Stepped<A>>, &Space<'m, Stepped<A>>),
) {
    with_frames::<A>(4096, |machine, [cpu, ..]| {
        let space = Space::with_swap(&cpu, None, Disk::default().swap(4)).unwrap();
        with(machine, &cpu, &space);
    });
}

/// Maps a page that contains 7, and that no CPU may execute yet.
fn with_page<A: Architecture>(
    with: impl for<'m> FnOnce(&'m Stepped<A>, &Cpu<'m, Stepped<A>>, &Space<'m, Stepped<A>>),
) {
    with_space::<A>(|machine, cpu, space| {
        space.map(cpu, only(HERE), WRITE).unwrap();
        machine.store(cpu, space, HERE, 7).unwrap();
        with(machine, cpu, space);
    });
}

fn a_new_page_is_prepared<A: Architecture>() {
    with_space::<A>(|machine, cpu, space| {
        for _ in 0..2 {
            space.map(cpu, only(HERE), CODE).unwrap();
            assert_eq!(machine.load(cpu, space, HERE), Ok(0));
            assert_eq!(machine.fetch(cpu, space, HERE), Ok(0));
            space.unmap(cpu, only(HERE)).unwrap();
        }
    });
}

fn a_page_that_becomes_executable_is_prepared<A: Architecture>() {
    with_page::<A>(|machine, cpu, space| {
        for value in [7, 8] {
            machine.store(cpu, space, HERE, value).unwrap();
            space.protect(cpu, only(HERE), CODE).unwrap();
            assert_eq!(machine.fetch(cpu, space, HERE), Ok(value));
            space.protect(cpu, only(HERE), WRITE).unwrap();
        }
    });
}

fn a_page_of_an_object_is_prepared<A: Architecture>() {
    with_space::<A>(|machine, cpu, space| {
        let object = Object::new(cpu, 1).unwrap();
        space.map_object(cpu, only(HERE), &object, 0, WRITE, Sharing::Shared).unwrap();
        machine.store(cpu, space, HERE, 7).unwrap();
        for (page, sharing) in [(NEXT, Sharing::Shared), (FAR, Sharing::Private)] {
            space.map_object(cpu, only(page), &object, 0, CODE, sharing).unwrap();
            assert_eq!(machine.fetch(cpu, space, page), Ok(7));
        }
    });
}

/// The first copy belongs to the space whose store ends the sharing; the second belongs to the fork, because a
/// pinned page is copied at once.
fn a_copy_is_prepared_with_its_content<A: Architecture>() {
    with_page::<A>(|machine, cpu, space| {
        space.protect(cpu, only(HERE), ALL).unwrap();
        assert_eq!(machine.fetch(cpu, space, HERE), Ok(7));
        let first = space.fork(cpu).unwrap();
        assert_eq!(machine.fetch(cpu, &first, HERE), Ok(7));
        let frame = space.frame(cpu, HERE);
        let pinned = space.pin(cpu, HERE, Protection::READ).unwrap();
        assert_ne!(space.frame(cpu, HERE), frame);
        assert_eq!(machine.fetch(cpu, space, HERE), Ok(7));
        let second = space.fork(cpu).unwrap();
        assert_ne!(second.frame(cpu, HERE), Some(pinned.frame()));
        assert_eq!(machine.fetch(cpu, &second, HERE), Ok(7));
    });
}

fn a_page_from_swap_is_prepared_with_its_content<A: Architecture>() {
    with_page::<A>(|machine, cpu, space| {
        space.protect(cpu, only(HERE), CODE).unwrap();
        assert_eq!(space.swap_out(cpu, only(HERE)), Ok(1));
        assert_eq!(machine.fetch(cpu, space, HERE), Ok(7));
    });
}

/// A fault makes the first large page, and a promotion makes the second.
fn all_pages_of_a_large_page_are_prepared<A: Architecture>() {
    with_space::<A>(|machine, cpu, space| {
        space.set_large_pages(true);
        let pages = Pages::new(Page(512 * 3), 512);
        space.map(cpu, pages, CODE).unwrap();
        for page in pages.iter() {
            assert_eq!(machine.fetch(cpu, space, page), Ok(0));
        }
        assert_eq!(space.resident(), 512);
        assert_eq!(space.promote(cpu, pages), Ok(1), "the first fetch made a large page");

        space.set_large_pages(false);
        let pages = Pages::new(Page(512 * 4), 512);
        space.map(cpu, pages, WRITE).unwrap();
        let last = pages.end - 1;
        machine.store(cpu, space, last, 7).unwrap();
        space.protect(cpu, pages, CODE).unwrap();
        assert_eq!(space.promote(cpu, pages), Ok(1));
        assert_eq!(machine.fetch(cpu, space, pages.start), Ok(0));
        assert_eq!(machine.fetch(cpu, space, last), Ok(7));
    });
}

/// After `protect`, the entry does not allow execution until a fault. The entry of a moved page allows what the
/// mapping allows.
fn a_page_that_moves_after_it_became_executable_is_prepared<A: Architecture>() {
    with_page::<A>(|machine, cpu, space| {
        space.protect(cpu, only(HERE), CODE).unwrap();
        space.remap(cpu, only(HERE), only(FAR)).unwrap();
        assert_eq!(machine.load(cpu, space, FAR), Ok(7));
        assert_eq!(machine.fetch(cpu, space, FAR), Ok(7));
    });
}
