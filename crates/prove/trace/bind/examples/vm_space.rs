//! `knee_vm::Space`: every operation, each CPU on pages of its own.
//!
//! The small ranges of two CPUs are in neighbouring leaf tables; the large ranges are in neighbouring tables
//! one level above the leaf tables. Operations called `near_…` use pages of one leaf table, whose lock both
//! CPUs take. Before each call, the binding makes the spaces and pools look as if the program had already run
//! for a while: the tree has its nodes, and the pools of the CPUs have frames.

mod machine;

use std::cell::UnsafeCell;
use std::process::ExitCode;
use std::sync::Arc;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Model, models::independent::independent};
use knee_vm::{
    Object, PAGE, Page, Pager, PagerError, Pages, Protection, Quota, Sharing, Space, Swap, Usage,
    VirtAddr,
};

use machine::{CPUS, Cpus, MAIN, TABLE, Uncached, load, store, warm_up};

const OPERATIONS: &[(&str, &str)] = &[
    ("map", "(): maps four pages"),
    ("map_large", "(): maps pages of many tables"),
    ("map_anywhere", "(): maps pages at an address that the space chooses"),
    ("map_guarded", "(): maps a stack between guard pages"),
    ("map_object", "(): maps pages of an object that is the CPU's own"),
    ("map_object_anywhere", "(): maps pages of an object at an address that the space chooses"),
    ("unmap", "(): unmaps four present pages"),
    ("unmap_large", "(): unmaps pages of many tables"),
    ("unmap_anywhere", "(): unmaps pages whose address the space has chosen"),
    ("unmap_object", "(): unmaps present pages of an object"),
    ("unmap_lazy", "(): unmaps present pages of a lazy space that both CPUs use"),
    ("protect", "(): makes four present pages read-only"),
    ("protect_large", "(): makes pages of many tables read-only"),
    ("discard", "(): frees the frames of four pages"),
    ("populate", "(): makes four pages present"),
    ("fault", "(): handles a write fault on an absent page"),
    ("fault_object", "(): handles a write fault on a page of an object"),
    ("fault_private", "(): handles a write fault that copies a private page of an object"),
    ("fault_swapped", "(): handles a write fault on a page that was swapped out"),
    ("load", "(): loads from a present page"),
    ("store", "(): stores to a present page"),
    ("remap", "(): moves four present pages"),
    ("remap_anywhere", "(): grows a mapping that cannot grow in place and therefore moves"),
    ("replace", "(): replaces four present pages by new ones"),
    ("replace_object", "(): replaces four present pages by pages of an object"),
    ("read", "(): copies bytes from two pages to the kernel"),
    ("write", "(): copies bytes from the kernel to two pages"),
    ("usage", "(): the usage of four present pages, which the call clears"),
    ("promote", "(): makes a large page of a range with four present pages"),
    ("swap_out", "(): swaps out four present pages"),
    ("reclaim", "(): swaps out up to four pages of the space that were not accessed recently"),
    ("pin", "(): pins a present page for a device, and ends the pin"),
    ("prune", "(): frees the table of unmapped pages"),
    ("query", "(): the protection of a page"),
    ("mappings", "(): lists the mappings of both CPUs"),
    ("sharers", "(): the spaces that have the frame of a page"),
    ("activate", "(): adds a CPU to the shootdown set, which contains it already"),
    ("switch", "(): removes a CPU from the shootdown set and adds it again"),
    ("resident", "(): the number of present pages, which is exact only if no CPU changes it"),
    ("settle", "(): frees the frames of pages that were unmapped lazily"),
    ("near_fault", "(): handles a write fault on a page in a table that both CPUs use"),
    ("near_map", "(): maps a page in a table that both CPUs use"),
    ("near_query", "(): the protection of a page in a table that both CPUs use"),
    ("near_load", "(): loads from a present page in a table that both CPUs use"),
];

/// The number of pages that are mapped by a table one level above the leaf tables.
const TABLES: u64 = 512 * TABLE;

/// The number of slots of the swap area.
const SLOTS: u64 = 32;

/// A page of the swap device.
#[repr(align(4096))]
struct Slot(UnsafeCell<[u8; PAGE]>);

/// A swap device in memory.
struct Disk(Box<[Slot]>);

// SAFETY: no two calls of the device use one slot at the same time.
unsafe impl Sync for Disk {}

impl Pager for Disk {
    fn page_in(&self, slot: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        // SAFETY: no other call uses this slot.
        page.copy_from_slice(unsafe { &*self.0[slot as usize].0.get() });
        Ok(())
    }

    fn page_out(&self, slot: u64, page: &[u8; PAGE]) -> Result<(), PagerError> {
        // SAFETY: no other call uses this slot.
        unsafe { (*self.0[slot as usize].0.get()).copy_from_slice(page) };
        Ok(())
    }
}

/// An address 16 bytes before the end of a page.
fn across(page: Page) -> VirtAddr {
    VirtAddr((page + 1).address().0 - 16)
}

struct OwnPages {
    cpus: Cpus,
    space: Space<'static, Uncached>,
    lazy: Space<'static, Uncached>,
    objects: Vec<Object<'static, Uncached>>,
}

impl Binding for OwnPages {
    fn model() -> impl Model {
        independent("own_pages", "a space where each CPU uses pages of its own", OPERATIONS)
    }

    fn set_up(_: &Setup<'_>) -> Self {
        let cpus = Cpus::start();
        let main = cpus.get(MAIN);
        let quota = Arc::new(Quota::new(main.machine(), 1 << 30).unwrap());
        let disk = Disk((0..SLOTS).map(|_| Slot(UnsafeCell::new([0; PAGE]))).collect());
        let swap = Arc::new(Swap::new(SLOTS, Box::new(disk)).unwrap());
        let space = Space::with_swap(main, Some(Arc::clone(&quota)), swap).unwrap();
        let lazy = Space::with_quota(main, quota).unwrap();
        lazy.set_lazy(true);
        for cpu in (0..CPUS).map(|number| cpus.get(number)) {
            space.activate(cpu);
            lazy.activate(cpu);
        }
        let objects = (0..CPUS).map(|_| Object::new(main, 8).unwrap()).collect();
        Self { cpus, space, lazy, objects }
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let (number, space, lazy) = (call.thread() as u64, &self.space, &self.lazy);
        let (cpu, object) = (self.cpus.get(call.thread()), &self.objects[call.thread()]);
        let (read, write) = (Protection::READ, Protection::READ_WRITE);
        let small = Pages::new(Page((number + 1) * TABLE + 7), 4);
        let other = Pages::new(Page((number + 8) * TABLE + 7), 4);
        let large = Pages::new(Page((number + 1) * TABLES + 7), 64 * TABLE);
        let whole = Pages::new(Page((number + 16) * TABLE), TABLE);
        let near = Pages::new(Page(TABLE / 2 + 64 * number), 1);
        let touch = |pages: Pages| {
            pages.iter().for_each(|page| store(cpu, space, page, 1).unwrap());
        };
        let map_object = |pages, sharing| space.map_object(cpu, pages, object, 0, write, sharing);

        // Fill the CPU's pools of nodes, frames, lists and backings, and leave a share of the quota with the
        // CPU.
        for first in [small, other, near].map(|pages| pages.start) {
            warm_up(cpu, space, first);
            warm_up(cpu, lazy, first);
        }
        (0..3).for_each(|_| {
            space.map(cpu, large, write).unwrap();
            space.protect(cpu, large, read).unwrap();
            space.unmap(cpu, large).unwrap();
            let found = space.map_anywhere(cpu, 4, write).unwrap();
            touch(found);
            space.unmap(cpu, found).unwrap();
            for sharing in [Sharing::Shared, Sharing::Private] {
                map_object(other, sharing).unwrap();
                touch(other);
                space.unmap(cpu, other).unwrap();
            }
        });
        // This frees the lazily unmapped pages of all CPUs to the pool of this CPU. If this were also done
        // before other operations, they would use frames that the first call of the test has unmapped.
        if matches!(call.operation(), "unmap_lazy" | "settle") {
            lazy.settle(cpu);
        }

        // Map the pages that the operation needs.
        match call.operation() {
            "unmap" | "protect" | "discard" | "load" | "store" | "remap" | "query" | "sharers"
            | "replace" | "replace_object" | "read" | "write" | "usage" | "pin" | "swap_out" => {
                space.map(cpu, small, write).unwrap();
                touch(small);
            }
            "reclaim" => {
                space.map(cpu, small, write).unwrap();
                touch(small);
                space.usage(cpu, small, Usage::ACCESSED, |_, _| {}).unwrap();
            }
            "fault_swapped" => {
                space.map(cpu, small, write).unwrap();
                touch(small);
                assert_eq!(space.swap_out(cpu, small), Ok(4));
            }
            "promote" => {
                space.map(cpu, whole, write).unwrap();
                let pages = Pages::new(whole.start, 4);
                touch(pages);
                // A range with a swapped page cannot become a large page, but the attempt leaves the frames
                // of a large page in the CPU's pool.
                let swapped = Pages::new(whole.start, 1);
                assert_eq!(space.swap_out(cpu, swapped), Ok(1));
                assert_eq!(space.promote(cpu, whole), Ok(0));
                touch(swapped);
            }
            "fault" | "populate" => space.map(cpu, small, write).unwrap(),
            "unmap_large" | "protect_large" => {
                space.map(cpu, large, write).unwrap();
                touch(Pages::new(large.start, 4));
            }
            "unmap_object" => {
                map_object(small, Sharing::Shared).unwrap();
                touch(small);
            }
            "fault_object" => map_object(small, Sharing::Shared).unwrap(),
            "fault_private" => map_object(small, Sharing::Private).unwrap(),
            "remap_anywhere" => {
                space.map(cpu, Pages::new(small.start, 8), write).unwrap();
                touch(small);
            }
            "unmap_lazy" => {
                lazy.map(cpu, small, write).unwrap();
                lazy.populate(cpu, small).unwrap();
            }
            "near_fault" | "near_query" | "near_load" => space.map(cpu, near, write).unwrap(),
            _ => {}
        }
        if call.operation() == "near_load" {
            touch(near);
        }
        let found = match call.operation() {
            "unmap_anywhere" => Some(space.map_anywhere(cpu, 4, write).unwrap()),
            _ => None,
        };
        found.into_iter().for_each(touch);

        /// An action whose result the model ignores. The action panics if `call` fails.
        fn succeeds<'a, T, E: std::fmt::Debug>(
            mut call: impl FnMut() -> Result<T, E> + 'a,
        ) -> Option<Action<'a>> {
            Some(Box::new(move || {
                call().unwrap();
                Returned::Nothing
            }))
        }
        /// An action whose result the model ignores.
        fn does<'a, T>(mut call: impl FnMut() -> T + 'a) -> Option<Action<'a>> {
            Some(Box::new(move || {
                call();
                Returned::Nothing
            }))
        }
        let (page, shared) = (small.start, Sharing::Shared);
        match call.operation() {
            "map" => succeeds(move || space.map(cpu, small, write)),
            "map_large" => succeeds(move || space.map(cpu, large, write)),
            "map_anywhere" => succeeds(move || space.map_anywhere(cpu, 4, write)),
            "map_guarded" => succeeds(move || space.map_guarded(cpu, 4, 1, write)),
            "map_object" => {
                succeeds(move || space.map_object(cpu, small, object, 0, write, shared))
            }
            "map_object_anywhere" => {
                succeeds(move || space.map_object_anywhere(cpu, 4, object, 0, write, shared))
            }
            "unmap" | "unmap_object" => succeeds(move || space.unmap(cpu, small)),
            "unmap_large" => succeeds(move || space.unmap(cpu, large)),
            "unmap_anywhere" => succeeds(move || space.unmap(cpu, found.unwrap())),
            "unmap_lazy" => succeeds(move || lazy.unmap(cpu, small)),
            "protect" => succeeds(move || space.protect(cpu, small, read)),
            "protect_large" => succeeds(move || space.protect(cpu, large, read)),
            "discard" => succeeds(move || space.discard(cpu, small)),
            "populate" => succeeds(move || space.populate(cpu, small)),
            "fault" | "fault_object" | "fault_private" | "fault_swapped" => {
                succeeds(move || space.fault(cpu, page, write))
            }
            "load" => succeeds(move || load(cpu, space, page)),
            "store" => succeeds(move || store(cpu, space, page, 2)),
            "remap" => succeeds(move || space.remap(cpu, small, other)),
            // `small` cannot grow in place, because the pages that follow it are mapped.
            "remap_anywhere" => succeeds(move || space.remap_anywhere(cpu, small, 6)),
            "replace" => succeeds(move || space.replace(cpu, small, write)),
            "replace_object" => {
                succeeds(move || space.replace_with_object(cpu, small, object, 0, write, shared))
            }
            "read" => succeeds(move || space.read(cpu, across(page), &mut [0; 32])),
            "write" => succeeds(move || space.write(cpu, across(page), &[1; 32])),
            "usage" => succeeds(move || space.usage(cpu, small, Usage::all(), |_, _| {})),
            "promote" => succeeds(move || match space.promote(cpu, whole) {
                Ok(1) => Ok(()),
                other => Err(other),
            }),
            "swap_out" => succeeds(move || space.swap_out(cpu, small)),
            "reclaim" => succeeds(move || space.reclaim(cpu, 4)),
            "pin" => succeeds(move || space.pin(cpu, page, write).map(drop)),
            "prune" => does(move || space.prune(cpu, Pages::new(Page(page.0 - 7), TABLE))),
            "query" => does(move || space.query(cpu, page)),
            "mappings" => does(move || space.mappings(cpu).count()),
            "sharers" => does(move || space.sharers(cpu, page, |_, _| {})),
            "activate" => does(move || space.activate(cpu)),
            "switch" => does(move || {
                // SAFETY: CPUs of an `Uncached` machine cache nothing of the space's tables, and read the
                // tables only while they borrow the space.
                unsafe { space.deactivate(cpu) };
                space.activate(cpu);
            }),
            "resident" => does(move || space.resident()),
            "settle" => does(move || lazy.settle(cpu)),
            "near_fault" => succeeds(move || space.fault(cpu, near.start, write)),
            "near_map" => succeeds(move || space.map(cpu, near, write)),
            "near_query" => does(move || space.query(cpu, near.start)),
            "near_load" => succeeds(move || load(cpu, space, near.start)),
            _ => None,
        }
    }
}

fn main() -> ExitCode {
    knee_bind::main::<OwnPages>()
}
