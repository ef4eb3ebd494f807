//! Compares knee-vm's module `memory_set` with the crate memory_set. The same small kernel is compiled
//! against each of them.

use std::sync::Arc;

use knee_vm::hosted::Hosted;
use knee_vm::memory_set::{Anonymous, MappingError, MemoryArea, MemorySet, SpaceTable};
use knee_vm::{Fault, PAGE, Protection, Space, VirtAddr};
use memory_addr::va;
use proptest::prelude::*;

mod theirs {
    use memory_set as the_crate;
    include!("usage.rs");
}

mod ours {
    use knee_vm::memory_set as the_crate;
    include!("usage.rs");
}

const BYTES: usize = 64;

/// An area: its start, its end and its flags.
type Listed = (usize, usize, u8);

/// The flags of each address.
#[derive(Debug, Clone, PartialEq)]
struct Table([u8; BYTES]);

impl Default for Table {
    fn default() -> Table {
        Table([0; BYTES])
    }
}

impl Table {
    /// Replaces the flags of all addresses in the range and returns true, or replaces nothing and returns
    /// false if `with` returns `None` for one of these addresses.
    fn replace(&mut self, start: usize, size: usize, with: impl Fn(u8) -> Option<u8>) -> bool {
        let entries = &mut self.0[start..start + size];
        let is_right = entries.iter().all(|&old| with(old).is_some());
        if is_right {
            entries.iter_mut().for_each(|entry| *entry = with(*entry).unwrap_or(*entry));
        }
        is_right
    }
}

#[derive(Debug, Clone)]
enum Change {
    Map { start: usize, size: usize, flags: u8, replace: bool },
    Unmap { start: usize, size: usize },
    Protect { start: usize, size: usize, flags: u8 },
    Clear,
}

/// A start, and a size that may be 0.
fn range() -> impl Strategy<Value = (usize, usize)> {
    (0..BYTES).prop_flat_map(|start| (Just(start), 0..=(BYTES - start).min(20)))
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (range(), 1_u8..32, any::<bool>()).prop_map(|((start, size), flags, replace)| {
            Change::Map { start, size, flags, replace }
        }),
        3 => range().prop_map(|(start, size)| Change::Unmap { start, size }),
        1 => (0..BYTES).prop_map(|start| Change::Unmap { start, size: usize::MAX }),
        // `protect` with a size of 0 is one of the documented differences.
        4 => (range(), 1_u8..8).prop_filter_map("empty", |((start, size), flags)| {
            (size > 0).then_some(Change::Protect { start, size, flags })
        }),
        1 => Just(Change::Clear),
    ]
}

proptest! {
    #[test]
    fn a_kernel_behaves_the_same_with_either_implementation(
        changes in prop::collection::vec(change(), 1..60)
    ) {
        let (mut theirs, mut ours) = (theirs::Kernel::new(), ours::Kernel::new());
        for change in &changes {
            prop_assert_eq!(theirs.change(change), ours.change(change), "{:?}", change);
            prop_assert_eq!(theirs.listed(), ours.listed());
            prop_assert_eq!(theirs.table(), ours.table());
        }
        for address in 0..BYTES {
            prop_assert_eq!(theirs.flags_at(address), ours.flags_at(address));
            for size in 1..BYTES - address {
                prop_assert_eq!(theirs.overlaps(address, size), ours.overlaps(address, size));
            }
            for align in [1, 4, 8] {
                for size in (0..=BYTES).step_by(align) {
                    let (their, our) =
                        (theirs.free(address, size, align), ours.free(address, size, align));
                    // The crate memory_set may return an area that ends beyond the limit. Here, the limit is
                    // the end of the table.
                    let within = their.filter(|start| start + size <= BYTES);
                    prop_assert_eq!(within, our, "{} bytes from {}", size, address);
                }
            }
        }
    }
}

#[test]
fn a_free_area_ends_within_the_limit() {
    let limit = memory_addr::va_range!(0..0x3000);
    let machine = Hosted::new(256, 1);
    let cpu = machine.cpu(0);
    let space = Arc::new(Space::new(&cpu).unwrap());
    let mut table = SpaceTable::new(&space, &cpu);
    let mut set = MemorySet::new();
    let area =
        |start: usize| MemoryArea::new(va!(start), PAGE, Protection::READ, Anonymous::default());
    set.map(area(0x1000), &mut table, false).unwrap();
    set.map(area(0x8000), &mut table, false).unwrap();
    assert_eq!(set.find_free_area(va!(0), 0x1000, limit, 0x1000), Some(va!(0)));
    assert_eq!(set.find_free_area(va!(0x1000), 0x1000, limit, 0x1000), Some(va!(0x2000)));
    assert_eq!(set.find_free_area(va!(0x1000), 0x2000, limit, 0x1000), None);
}

#[test]
fn a_space_serves_as_the_page_tables_of_a_set() {
    let machine = Hosted::new(1024, 2);
    let cpu = machine.cpu(0);
    let space = Arc::new(Space::new(&cpu).unwrap());
    let mut table = SpaceTable::new(&space, &cpu);
    let mut set = MemorySet::new();
    let area = |start: usize, pages: usize| {
        MemoryArea::new(va!(start), pages * PAGE, Protection::READ_WRITE, Anonymous::default())
    };
    set.map(area(0x10_0000, 16), &mut table, false).unwrap();
    let taken = set.map(area(0x10_4000, 1), &mut table, false);
    assert_eq!(taken, Err(MappingError::AlreadyExists));
    // Page faults need neither the set nor its lock.
    for page in 0..16 {
        cpu.store(&*space, VirtAddr(0x10_0000) + page * PAGE as u64, page).unwrap();
    }
    set.protect(va!(0x10_2000), 2 * PAGE, |_| Some(Protection::READ), &mut table).unwrap();
    assert_eq!(cpu.store(&*space, VirtAddr(0x10_3000), 1), Err(Fault::AccessDenied));
    assert_eq!(cpu.load(&*space, VirtAddr(0x10_3000)), Ok(3));
    set.unmap(va!(0x10_8000), 4 * PAGE, &mut table).unwrap();
    assert_eq!(cpu.load(&*space, VirtAddr(0x10_8000)), Err(Fault::Unmapped));
    let listed: Vec<_> =
        set.iter().map(|area| (area.start().as_usize(), area.size() / PAGE)).collect();
    assert_eq!(listed, [(0x10_0000, 2), (0x10_2000, 2), (0x10_4000, 4), (0x10_c000, 4)]);
    assert_eq!(space.resident(), 12);

    // An area that does not consist of whole pages is rejected.
    let odd = MemoryArea::new(va!(0x20_0800), PAGE, Protection::READ, Anonymous::default());
    assert_eq!(set.map(odd, &mut table, false), Err(MappingError::BadState));
    set.clear(&mut table).unwrap();
    assert!(set.is_empty());
    assert_eq!(space.resident(), 0);
}

#[test]
fn a_failed_unmap_removes_the_areas_before_the_failed_one() {
    let machine = Hosted::new(256, 1);
    let cpu = machine.cpu(0);
    let space = Arc::new(Space::new(&cpu).unwrap());
    let mut table = SpaceTable::new(&space, &cpu);
    let mut set = MemorySet::new();
    for start in [0x10_0000, 0x20_0000] {
        let area = MemoryArea::new(va!(start), PAGE, Protection::READ, Anonymous::default());
        set.map(area, &mut table, false).unwrap();
    }
    let result = set.unmap(va!(0x10_0000), 0x10_0800, &mut table);
    assert_eq!(result, Err(MappingError::BadState), "the range ends within a page");
    assert_eq!(set.iter().map(MemoryArea::start).collect::<Vec<_>>(), [va!(0x20_0000)]);
}
