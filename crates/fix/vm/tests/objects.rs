//! Compares objects in two spaces with a model: which space sees a store, what the pager gets, and where
//! pages are mapped.

#[path = "architectures/each.rs"]
mod each;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use each::{ARCHITECTURES, on_architecture, on_each_architecture};
use knee_models::disk::Disk;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{
    Fault, MapError, MappedObject, Object, ObjectId, PAGE, Page, Pager, PagerError, Pages,
    Protection, ResizeError, Sharing, Space,
};
use proptest::prelude::*;

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;

/// The pages of each space, around the end of a leaf.
const FIRST: u64 = 500;
const PAGES: u64 = 24;
/// The maximum number of pages of an object in this test.
const CAPACITY: u64 = 12;

/// A pager that stores pages in memory, and returns [`PagerError::Retry`] on every third call.
#[derive(Default, Clone)]
struct Store {
    words: Arc<Mutex<BTreeMap<u64, Box<[u8; PAGE]>>>>,
    asked: Arc<Mutex<u64>>,
}

impl Store {
    fn is_ready(&self) -> bool {
        let mut asked = self.asked.lock().unwrap();
        *asked += 1;
        !asked.is_multiple_of(3)
    }

    fn word(&self, index: u64) -> u64 {
        let words = self.words.lock().unwrap();
        words.get(&index).map_or(0, |page| u64::from_ne_bytes(page[..8].try_into().unwrap()))
    }
}

impl Pager for Store {
    fn page_in(&self, index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        if !self.is_ready() {
            page.fill(0xff);
            return Err(PagerError::Retry);
        }
        if let Some(stored) = self.words.lock().unwrap().get(&index) {
            page.copy_from_slice(&**stored);
        }
        Ok(())
    }

    fn page_out(&self, index: u64, page: &[u8; PAGE]) -> Result<(), PagerError> {
        if !self.is_ready() {
            return Err(PagerError::Retry);
        }
        self.words.lock().unwrap().insert(index, Box::new(*page));
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Map(usize, Pages, Protection),
    MapObject(usize, Pages, usize, u64, Protection, Sharing),
    Unmap(usize, Pages),
    Protect(usize, Pages, Protection),
    Discard(usize, Pages),
    Remap(usize, Pages, Pages),
    Store(usize, Page, u64),
    Load(usize, Page),
    /// Replaces the second space with a fork of the first.
    Fork,
    Resize(usize, u64),
    Evict(u64, u64),
    WriteBack(u64, u64),
    Punch(usize, u64, u64),
    /// Swaps out private pages.
    SwapOut(usize, Pages),
}

fn pages() -> impl Strategy<Value = Pages> {
    (0..PAGES, 1_u64..10).prop_map(|(first, count)| Pages {
        start: Page(FIRST + first),
        end: Page(FIRST + (first + count).min(PAGES)),
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let protection = || prop_oneof![Just(READ), Just(WRITE), Just(Protection::NONE)];
    let sharing = || prop_oneof![Just(Sharing::Shared), Just(Sharing::Private)];
    let page = || (FIRST..FIRST + PAGES).prop_map(Page);
    let map = (0..2_usize, pages(), 0..2_usize, 0..CAPACITY, protection(), sharing());
    prop_oneof![
        1 => (0..2_usize, pages(), protection())
            .prop_map(|(space, pages, protection)| Operation::Map(space, pages, protection)),
        4 => map.prop_map(|(space, pages, object, first, protection, sharing)| {
            Operation::MapObject(space, pages, object, first, protection, sharing)
        }),
        2 => (0..2_usize, pages()).prop_map(|(space, pages)| Operation::Unmap(space, pages)),
        2 => (0..2_usize, pages(), protection())
            .prop_map(|(space, pages, protection)| Operation::Protect(space, pages, protection)),
        1 => (0..2_usize, pages()).prop_map(|(space, pages)| Operation::Discard(space, pages)),
        3 => (0..2_usize, pages(), pages()).prop_map(|(space, old, new)| Operation::Remap(space, old, new)),
        8 => (0..2_usize, page(), 1_u64..)
            .prop_map(|(space, page, value)| Operation::Store(space, page, value)),
        4 => (0..2_usize, page()).prop_map(|(space, page)| Operation::Load(space, page)),
        1 => Just(Operation::Fork),
        1 => (0..2_usize, 0..=CAPACITY).prop_map(|(object, pages)| Operation::Resize(object, pages)),
        1 => (0..CAPACITY, 0..=CAPACITY).prop_map(|(start, end)| Operation::Evict(start, end)),
        1 => (0..CAPACITY, 0..=CAPACITY).prop_map(|(start, end)| Operation::WriteBack(start, end)),
        1 => (0..2_usize, 0..CAPACITY, 0..=CAPACITY)
            .prop_map(|(object, start, end)| Operation::Punch(object, start, end)),
        3 => (0..2_usize, pages()).prop_map(|(space, pages)| Operation::SwapOut(space, pages)),
    ]
}

/// The state of a page of a space.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mapped {
    protection: Protection,
    object: Option<(usize, u64, Sharing)>,
}

/// The model of a space.
#[derive(Default, Clone)]
struct ModelSpace {
    mapped: BTreeMap<Page, Mapped>,
    /// The first words of the space's private pages.
    own: BTreeMap<Page, u64>,
}

/// A mapping that [`Space::mappings`] lists.
type Listed = (Pages, Protection, Option<(ObjectId, u64, Sharing)>);

impl ModelSpace {
    fn mappings(&self, ids: [ObjectId; 2]) -> Vec<Listed> {
        let mut all: Vec<Listed> = Vec::new();
        for (&page, mapped) in &self.mapped {
            let object =
                mapped.object.map(|(object, index, sharing)| (ids[object], index, sharing));
            match all.last_mut() {
                Some((pages, protection, first))
                    if (pages.end, *protection) == (page, mapped.protection)
                        && first
                            .map(|(id, first, sharing)| (id, first + pages.count(), sharing))
                            == object =>
                {
                    pages.end = page + 1;
                }
                _ => all.push((Pages::new(page, 1), mapped.protection, object)),
            }
        }
        all
    }
}

fn listed<'m, A: Architecture>(
    space: &Space<'m, Hosted<A>>,
    cpu: &Processor<'m, A>,
) -> Vec<Listed> {
    let object = |object: MappedObject| (object.id, object.first, object.sharing);
    let mappings = space.mappings(cpu);
    mappings
        .map(|mapping| (mapping.pages, mapping.protection, mapping.object.map(object)))
        .collect()
}

struct ModelObject {
    len: u64,
    words: BTreeMap<u64, u64>,
}

struct Model {
    spaces: [ModelSpace; 2],
    objects: [ModelObject; 2],
    /// The words that the second object's pager has stored.
    stored: BTreeMap<u64, u64>,
}

type Outcome = Result<u64, Result<MapError, Fault>>;

impl Model {
    fn new() -> Model {
        let object = || ModelObject { len: CAPACITY, words: BTreeMap::new() };
        Model {
            spaces: [const { ModelSpace { mapped: BTreeMap::new(), own: BTreeMap::new() } }; 2],
            objects: [object(), object()],
            stored: BTreeMap::new(),
        }
    }

    fn word(&self, object: usize, index: u64) -> u64 {
        let stored = || (object == 1).then(|| self.stored.get(&index)).flatten();
        self.objects[object].words.get(&index).or_else(stored).copied().unwrap_or(0)
    }

    fn map(&mut self, space: usize, pages: Pages, mapped: impl Fn(Page) -> Mapped) -> Outcome {
        let space = &mut self.spaces[space];
        if space.mapped.range(pages.start..pages.end).next().is_some() {
            return Err(Ok(MapError::Occupied));
        }
        space.mapped.extend(pages.iter().map(|page| (page, mapped(page))));
        Ok(0)
    }

    fn remap(&mut self, space: usize, old: Pages, new: Pages) -> Outcome {
        let space = &mut self.spaces[space];
        if old.start != new.start && old.overlaps(new) {
            return Err(Ok(MapError::Overlap));
        }
        let old_pages: Vec<_> =
            old.iter().map_while(|page| space.mapped.get(&page).copied()).collect();
        if (old_pages.len() as u64) < old.count() {
            return Err(Ok(MapError::Unmapped));
        }
        let others = |page: &Page| old.start != new.start || !old.contains(*page);
        if new.iter().filter(others).any(|page| space.mapped.contains_key(&page)) {
            return Err(Ok(MapError::Occupied));
        }
        let words: Vec<_> = old.iter().map(|page| space.own.remove(&page)).collect();
        space.mapped.retain(|&page, _| !old.contains(page));
        for (page, number) in new.iter().zip(0..) {
            let last = number.min(old_pages.len() - 1);
            let mut mapped = old_pages[last];
            if let Some((_, index, _)) = &mut mapped.object {
                *index += (number - last) as u64;
            }
            space.mapped.insert(page, mapped);
            if let Some(&Some(word)) = words.get(number) {
                space.own.insert(page, word);
            }
        }
        Ok(0)
    }

    fn find(
        &self,
        space: usize,
        page: Page,
        access: Protection,
    ) -> Result<Mapped, Result<MapError, Fault>> {
        let mapped = *self.spaces[space].mapped.get(&page).ok_or(Err(Fault::Unmapped))?;
        if !mapped.protection.contains(access) {
            return Err(Err(Fault::AccessDenied));
        }
        let is_own = self.spaces[space].own.contains_key(&page);
        match mapped.object {
            Some((object, index, _)) if !is_own && index >= self.objects[object].len => {
                Err(Err(Fault::BeyondEnd))
            }
            _ => Ok(mapped),
        }
    }

    fn apply(&mut self, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Map(space, pages, protection) => {
                self.map(space, pages, |_| Mapped { protection, object: None })
            }
            Operation::MapObject(space, pages, object, first, protection, sharing) => {
                let index = |page| first + (page - pages.start);
                self.map(space, pages, |page| Mapped {
                    protection,
                    object: Some((object, index(page), sharing)),
                })
            }
            Operation::Unmap(space, pages) => {
                self.spaces[space].mapped.retain(|&page, _| !pages.contains(page));
                self.spaces[space].own.retain(|&page, _| !pages.contains(page));
                Ok(0)
            }
            Operation::Protect(space, pages, protection) => {
                if pages.iter().any(|page| !self.spaces[space].mapped.contains_key(&page)) {
                    return Err(Ok(MapError::Unmapped));
                }
                for (_, mapped) in self.spaces[space].mapped.range_mut(pages.start..pages.end) {
                    mapped.protection = protection;
                }
                Ok(0)
            }
            Operation::Discard(space, pages) => {
                self.spaces[space].own.retain(|&page, _| !pages.contains(page));
                Ok(0)
            }
            Operation::Remap(space, old, new) => self.remap(space, old, new),
            Operation::Store(space, page, value) => {
                match self.find(space, page, WRITE)?.object {
                    Some((object, index, Sharing::Shared)) => {
                        self.objects[object].words.insert(index, value);
                    }
                    _ => {
                        self.spaces[space].own.insert(page, value);
                    }
                }
                Ok(0)
            }
            Operation::Load(space, page) => {
                let mapped = self.find(space, page, READ)?;
                Ok(match (self.spaces[space].own.get(&page), mapped.object) {
                    (Some(&value), _) => value,
                    (None, Some((object, index, _))) => self.word(object, index),
                    (None, None) => 0,
                })
            }
            Operation::Fork => {
                self.spaces[1] = self.spaces[0].clone();
                Ok(0)
            }
            Operation::Resize(object, len) => {
                self.objects[object].len = len;
                self.objects[object].words.retain(|&index, _| index < len);
                Ok(0)
            }
            // The pager may refuse some dirty pages, so the model cannot predict which pages the pager
            // stores. `are_as_modelled` copies the stored words from the pager.
            Operation::Evict(..) | Operation::WriteBack(..) | Operation::SwapOut(..) => Ok(0),
            Operation::Punch(object, start, end) => {
                self.objects[object].words.retain(|&index, _| index < start || index >= end);
                Ok(0)
            }
        }
    }
}

struct Real<'c, 'm, A: Architecture> {
    cpu: &'c Processor<'m, A>,
    spaces: [Space<'m, Hosted<A>>; 2],
    objects: [Object<'m, Hosted<A>>; 2],
}

impl<A: Architecture> Real<'_, '_, A> {
    fn apply(&mut self, operation: &Operation) -> Outcome {
        let cpu = self.cpu;
        match *operation {
            Operation::Map(space, pages, protection) => {
                self.spaces[space].map(cpu, pages, protection).map_err(Ok)?;
            }
            Operation::MapObject(space, pages, object, first, protection, sharing) => {
                let object = &self.objects[object];
                self.spaces[space]
                    .map_object(cpu, pages, object, first, protection, sharing)
                    .map_err(Ok)?;
            }
            Operation::Unmap(space, pages) => self.spaces[space].unmap(cpu, pages).map_err(Ok)?,
            Operation::Protect(space, pages, protection) => {
                self.spaces[space].protect(cpu, pages, protection).map_err(Ok)?;
            }
            Operation::Discard(space, pages) => {
                self.spaces[space].discard(cpu, pages).map_err(Ok)?
            }
            Operation::Remap(space, old, new) => {
                self.spaces[space].remap(cpu, old, new).map_err(Ok)?;
            }
            Operation::Store(space, page, value) => {
                cpu.store(&self.spaces[space], page.address(), value).map_err(Err)?;
            }
            Operation::Load(space, page) => {
                return cpu.load(&self.spaces[space], page.address()).map_err(Err);
            }
            Operation::Fork => self.spaces[1] = self.spaces[0].fork(cpu).map_err(Ok)?,
            Operation::Resize(object, len) => self.objects[object].resize(cpu, len).unwrap(),
            Operation::Evict(start, end) => {
                let _ = self.objects[1].evict(cpu, start..end);
            }
            Operation::WriteBack(start, end) => {
                let _ = self.objects[1].write_back(cpu, start..end);
            }
            Operation::Punch(object, start, end) => {
                self.objects[object].discard(cpu, start..end);
            }
            Operation::SwapOut(space, pages) => {
                self.spaces[space].swap_out(cpu, pages).expect("the device works");
            }
        }
        Ok(0)
    }

    /// Where a page of an object is mapped and present, found by checking all pages.
    fn walk(&self, model: &Model, object: usize, index: u64) -> BTreeSet<(u64, Page)> {
        let frame = self.objects[object].frame(index);
        let mut found = BTreeSet::new();
        for (space, modelled) in self.spaces.iter().zip(&model.spaces) {
            for (&page, mapped) in &modelled.mapped {
                let is_it = mapped.object.is_some_and(|(of, at, _)| (of, at) == (object, index));
                let own = space.frame(self.cpu, page);
                if own.is_some() && own == frame {
                    assert!(is_it, "page {page:#x} has the frame of another page");
                    found.insert((space.number(), page));
                }
            }
        }
        found
    }
}

/// Compares objects and two spaces with their model.
fn are_as_modelled<A: Architecture>(operations: &[Operation]) -> Result<(), TestCaseError> {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let (store, swap) = (Store::default(), Disk::default().swap(20));
        let mut real = Real {
            cpu: &cpu,
            spaces: [(); 2].map(|()| Space::with_swap(&cpu, None, Arc::clone(&swap)).unwrap()),
            objects: [
                Object::new(&cpu, CAPACITY).unwrap(),
                Object::with_pager(&cpu, CAPACITY, CAPACITY, Box::new(store.clone())).unwrap(),
            ],
        };
        let mut model = Model::new();
        for operation in operations {
            let before = model.objects[1].words.clone();
            prop_assert_eq!(real.apply(operation), model.apply(operation), "{:?}", operation);
            // Only `evict` and `write_back` store words in the pager, and they store the words of the
            // object.
            for index in 0..CAPACITY {
                let word = store.word(index);
                if word != model.stored.get(&index).copied().unwrap_or(0) {
                    prop_assert!(matches!(
                        operation,
                        Operation::Evict(..) | Operation::WriteBack(..)
                    ));
                    prop_assert_eq!(before.get(&index), Some(&word));
                    model.stored.insert(index, word);
                }
            }
            if let Operation::Evict(start, end) = *operation {
                for index in start..end {
                    let is_gone = real.objects[1].frame(index).is_none();
                    let is_stored =
                        before.get(&index).is_none_or(|&word| word == store.word(index));
                    prop_assert!(
                        !is_gone || is_stored,
                        "the pager has not stored evicted page {}",
                        index
                    );
                }
            }
            for object in 0..2 {
                for index in 0..CAPACITY {
                    let mut found = BTreeSet::new();
                    real.objects[object].mappings(&cpu, index, |space, page| {
                        assert!(
                            found.insert((space, page)),
                            "the reverse map lists a mapping twice"
                        );
                    });
                    prop_assert_eq!(found, real.walk(&model, object, index));
                }
            }
            for (space, modelled) in real.spaces.iter().zip(&model.spaces) {
                let audit = space.audit(&cpu);
                prop_assert_eq!(audit.mapped, modelled.mapped.len() as u64);
                prop_assert_eq!(audit.present, space.resident());
                let ids = real.objects.each_ref().map(Object::id);
                prop_assert_eq!(listed(space, &cpu), modelled.mappings(ids));
            }
        }
        drop(real);
        prop_assert_eq!(swap.used(), 0, "all slots are free again");
    }
    prop_assert_eq!(machine.free_frames(), all, "all frames are free again");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 600 }, ..ProptestConfig::default() })]

    #[test]
    fn objects_and_their_mappings_agree_with_the_model(
        operations in prop::collection::vec(operation(), 1..if cfg!(miri) { 12 } else { 80 }),
        architecture in 0..ARCHITECTURES
    ) {
        on_architecture!(architecture, are_as_modelled(&operations))?;
    }
}

/// After its handle has been dropped, an object lives as long as any space maps it.
fn a_mapped_object_outlives_its_handle<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(256, 2);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let object = Object::new(&cpu, 4).unwrap();
        let space = Space::new(&cpu).unwrap();
        space
            .map_object(&cpu, Pages::new(Page(16), 4), &object, 0, WRITE, Sharing::Shared)
            .unwrap();
        cpu.store(&space, Page(17).address(), 1).unwrap();
        drop(object);
        let copy = space.fork(&cpu).unwrap();
        space.unmap(&cpu, Pages::new(Page(16), 4)).unwrap();
        assert_eq!(cpu.load(&copy, Page(17).address()), Ok(1));
        drop(space);
        // The object is freed when its last mapped part is unmapped.
        copy.unmap(&cpu, Pages::new(Page(17), 2)).unwrap();
        copy.unmap(&cpu, Pages::new(Page(16), 1)).unwrap();
        assert_eq!(cpu.load(&copy, Page(19).address()), Ok(0));
        copy.unmap(&cpu, Pages::new(Page(19), 1)).unwrap();
    }
    assert_eq!(machine.free_frames(), all);
}

/// Each thread owns one word of each page. The thread reads back the value that it last wrote, even if the
/// page was evicted and brought in again meanwhile.
fn no_store_is_lost_while_pages_are_evicted<A: Architecture>() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = if cfg!(miri) { 8 } else { 3000 };
    /// The maximum number of rounds. The evicting thread may get little CPU time, so the threads continue
    /// beyond `ROUNDS` until the pager has stored a page.
    const MOST: u64 = if cfg!(miri) { ROUNDS } else { 400 * ROUNDS };
    let machine = Hosted::<A>::with_architecture(4096, THREADS as usize + 1);
    let all = machine.free_frames();
    {
        let store = Store::default();
        let (object, done) = {
            let cpu = machine.cpu(0);
            let pager = Box::new(store.clone());
            (Object::with_pager(&cpu, 8, 8, pager).unwrap(), AtomicBool::new(false))
        };
        let space = Space::new(&machine.cpu(0)).unwrap();
        thread::scope(|scope| {
            let (machine, object, space, done) = (&machine, &object, &space, &done);
            let store = &store;
            let workers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        let cpu = machine.cpu(1 + thread as usize);
                        let mine = Space::new(&cpu).unwrap();
                        let pages = |at| Pages::new(at, 8);
                        // Each thread maps the object twice: in the common space, where the thread sometimes
                        // unmaps the object and maps it again, and in a space of its own.
                        let common = pages(Page(512 * (1 + thread)));
                        space.map_object(&cpu, common, object, 0, WRITE, Sharing::Shared).unwrap();
                        mine.map_object(&cpu, pages(Page(508)), object, 0, WRITE, Sharing::Shared)
                            .unwrap();
                        let mut written = [0; 8];
                        let mut random = 88_172_645_463_325_252 + thread;
                        for round in 1..=MOST {
                            if round > ROUNDS && !store.words.lock().unwrap().is_empty() {
                                break;
                            }
                            random ^= random << 13;
                            random ^= random >> 7;
                            random ^= random << 17;
                            let page = random % 8;
                            let offset = page * PAGE as u64 + 8 * thread;
                            let own = Page(508).address() + offset;
                            match random >> 8 & 7 {
                                0..3 => {
                                    cpu.store(space, common.start.address() + offset, round)
                                        .unwrap();
                                    written[page as usize] = round;
                                }
                                3..5 => {
                                    cpu.store(&mine, own, round).unwrap();
                                    written[page as usize] = round;
                                }
                                5 => {
                                    let copy = mine.fork(&cpu).unwrap();
                                    let found = cpu.load(&copy, own);
                                    assert_eq!(found, Ok(written[page as usize]));
                                    cpu.store(&copy, own, round).unwrap();
                                    written[page as usize] = round;
                                }
                                6 => {
                                    space.unmap(&cpu, common).unwrap();
                                    space
                                        .map_object(&cpu, common, object, 0, WRITE, Sharing::Shared)
                                        .unwrap();
                                }
                                _ => space.discard(&cpu, common).unwrap(),
                            }
                            let found = cpu.load(space, common.start.address() + offset);
                            assert_eq!(
                                found,
                                Ok(written[page as usize]),
                                "load in the common space"
                            );
                            let found = cpu.load(&mine, own);
                            assert_eq!(
                                found,
                                Ok(written[page as usize]),
                                "load in the thread's space"
                            );
                        }
                    })
                })
                .collect();
            scope.spawn(move || {
                let cpu = machine.cpu(0);
                // The pager is sometimes not ready, so the results are ignored. The workers check the pages
                // that the pager accepted.
                while !done.load(Relaxed) {
                    cpu.handle_ipis();
                    let _ = object.evict(&cpu, 0..8);
                    let _ = object.write_back(&cpu, 2..6);
                }
            });
            let results: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            done.store(true, Relaxed);
            results.into_iter().for_each(|result| result.unwrap());
        });
        assert!(cfg!(miri) || !store.words.lock().unwrap().is_empty(), "the pager stored no page");
    }
    assert_eq!(machine.free_frames(), all);
}

/// A CPU that has written to a page may store to it again without a fault. A read by another CPU does not
/// revoke this permission. In this test, `populate` stands for the read, because it also makes the page
/// present.
fn a_store_after_another_cpus_read_is_not_lost<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let cpu = machine.cpu(0);
    let object = Object::with_pager(&cpu, 4, 4, Box::new(Store::default())).unwrap();
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(Page(16), 4);
    space.map_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
    let address = Page(17).address();
    cpu.store(&space, address, 1).unwrap();
    assert_eq!(space.populate(&cpu, Pages::new(Page(17), 1)), Ok(()));
    while object.write_back(&cpu, 0..4).is_err() {}
    cpu.store(&space, address, 2).unwrap();
    while object.evict(&cpu, 0..4).is_err() {}
    assert_eq!(cpu.load(&space, address), Ok(2));
}

#[test]
fn mapping_an_object_rejects_guards_and_page_numbers_that_overflow() {
    let machine = Hosted::new(256, 1);
    let cpu = machine.cpu(0);
    let object = Object::new(&cpu, 4).unwrap();
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(Page(16), 10);
    let map = |first, protection| {
        space.map_object(&cpu, pages, &object, first, protection, Sharing::Shared)
    };
    assert_eq!(map(0, Protection::GUARD), Err(MapError::Guard));
    assert_eq!(map(u64::MAX - 9, WRITE), Err(MapError::BeyondObject));
    map(u64::MAX - 10, WRITE).unwrap();
    assert_eq!(cpu.load(&space, Page(16).address()), Err(Fault::BeyondEnd));
    assert_eq!(space.remap(&cpu, pages, Pages::new(Page(16), 100)), Err(MapError::BeyondObject));
    object.mappings(&cpu, u64::MAX, |_, _| panic!("this page is not mapped"));
    let (start, end) = (9, 3);
    assert_eq!(object.discard(&cpu, start..end), 0);
}

#[test]
fn an_object_grows_up_to_its_capacity() {
    let machine = Hosted::new(256, 1);
    let cpu = machine.cpu(0);
    let capacity = |pages| Object::new(&cpu, pages).unwrap().capacity();
    assert_eq!([0, 4, 512, 513, 512 * 512].map(capacity), [512, 512, 512, 512 * 512, 512 * 512]);
    assert_eq!(capacity(u64::MAX), u64::MAX);
    let object = Object::new(&cpu, 4).unwrap();
    object.resize(&cpu, 512).unwrap();
    let error = object.resize(&cpu, 513).unwrap_err();
    assert_eq!((error, object.pages()), (ResizeError::BeyondCapacity(512), 512));
    assert_eq!(error.to_string(), "the capacity of the object is 512 pages");
}

/// The function that a thread calls in each round.
type Thread<'a, 'm, A> = &'a (dyn Fn(&Processor<'m, A>, u64) + Sync);

/// Runs the threads in rounds. All threads begin each round together.
fn storm<'m, A: Architecture>(machine: &'m Hosted<A>, rounds: u64, threads: &[Thread<'_, 'm, A>]) {
    let rounds = if cfg!(miri) { 4 } else { rounds };
    let start = std::sync::Barrier::new(threads.len());
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        for (number, thread) in threads.iter().enumerate() {
            let (start, failed) = (&start, &failed);
            scope.spawn(move || {
                let mut cpu = machine.cpu(number + 1);
                for round in 0..rounds {
                    cpu.offline(|| start.wait());
                    let run = || thread(&cpu, round);
                    if failed.load(Relaxed) {
                        continue;
                    }
                    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
                        failed.store(true, Relaxed);
                    }
                }
            });
        }
    });
    assert!(!failed.load(Relaxed), "a thread has panicked");
}

/// Two CPUs unmap parts of one mapping, and one of them then removes the object's pages, while a third CPU
/// has the pages in its TLB.
fn pages_that_are_unmapped_in_parts_are_flushed_before_their_frames_are_freed<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(1024, 4);
    let all = machine.free_frames();
    {
        let space = Space::new(&machine.cpu(0)).unwrap();
        let object = Object::new(&machine.cpu(0), 8).unwrap();
        let rounds = 400;
        let (here, there) = (Pages::new(Page(508), 4), Pages::new(Page(512), 4));
        storm(
            &machine,
            2 * rounds,
            &[
                &|cpu, round| match round % 2 {
                    0 => {
                        let pages = Pages { start: here.start, end: there.end };
                        space.map_object(cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
                        for page in pages.iter() {
                            cpu.store(&space, page.address(), round).unwrap();
                        }
                    }
                    _ => space.unmap(cpu, here).unwrap(),
                },
                &|cpu, round| {
                    if round % 2 == 1 {
                        space.unmap(cpu, there).unwrap();
                        object.discard(cpu, 0..8);
                    }
                },
                &|cpu, _| {
                    for _ in 0..20 {
                        let _ = cpu.load(&space, Page(509).address());
                        thread::yield_now();
                    }
                },
            ],
        );
    }
    assert_eq!(machine.free_frames(), all);
}

/// A space is forked while pages of its object are removed. Loads from the copy find the stored words, or
/// zeros in new pages.
fn pages_are_not_freed_while_a_fork_copies_them<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(2048, 4);
    let all = machine.free_frames();
    {
        let space = Space::new(&machine.cpu(0)).unwrap();
        let object = Object::new(&machine.cpu(0), 8).unwrap();
        let pages = Pages::new(Page(508), 8);
        space.map_object(&machine.cpu(0), pages, &object, 0, WRITE, Sharing::Shared).unwrap();
        storm(
            &machine,
            400,
            &[
                &|cpu, round| {
                    for page in pages.iter() {
                        cpu.store(&space, page.address(), round).unwrap();
                    }
                    let copy = space.fork(cpu).unwrap();
                    for page in pages.iter() {
                        let found = cpu.load(&copy, page.address());
                        assert!(found == Ok(round) || found == Ok(0), "{found:?}");
                    }
                },
                &|cpu, _| {
                    object.discard(cpu, 0..8);
                },
                &|cpu, _| object.mappings(cpu, 3, |_, _| cpu.handle_ipis()),
            ],
        );
    }
    assert_eq!(machine.free_frames(), all);
}

/// Pages are faulted in while the object is truncated.
fn pages_beyond_the_end_are_not_faulted_in<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(1024, 4);
    let all = machine.free_frames();
    {
        let spaces = [0, 1].map(|_| Space::new(&machine.cpu(0)).unwrap());
        let object = Object::new(&machine.cpu(0), 8).unwrap();
        for space in &spaces {
            let pages = Pages::new(Page(16), 8);
            space.map_object(&machine.cpu(0), pages, &object, 0, WRITE, Sharing::Shared).unwrap();
        }
        fn touch<'m, A: Architecture>(cpu: &Processor<'m, A>, space: &Space<'m, Hosted<A>>) {
            for page in 16..24 {
                match cpu.store(space, Page(page).address(), 1) {
                    Ok(()) | Err(Fault::BeyondEnd) => (),
                    other => panic!("{other:?}"),
                }
            }
        }
        storm(
            &machine,
            1000,
            &[&|cpu, _| touch(cpu, &spaces[0]), &|cpu, _| touch(cpu, &spaces[1]), &|cpu, round| {
                object.resize(cpu, if round.is_multiple_of(2) { 3 } else { 8 }).unwrap()
            }],
        );
        object.resize(&machine.cpu(0), 3).unwrap();
        assert!((3..8).all(|index| object.frame(index).is_none()));
    }
    assert_eq!(machine.free_frames(), all);
}

/// Two CPUs move pages of one mapping. Each CPU moves a page within its own table.
fn parts_of_a_mapping_that_two_cpus_move_keep_their_content<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(1024, 3);
    let all = machine.free_frames();
    {
        let (space, object) = {
            let cpu = machine.cpu(0);
            let (space, object) = (Space::new(&cpu).unwrap(), Object::new(&cpu, 600).unwrap());
            space
                .map_object(&cpu, Pages::new(Page(0), 600), &object, 0, WRITE, Sharing::Shared)
                .unwrap();
            for page in [5, 520] {
                cpu.store(&space, Page(page).address(), page).unwrap();
                // `protect` pushes the extent down to the leaf of `page`.
                space.protect(&cpu, Pages::new(Page(page), 1), READ).unwrap();
                space.unmap(&cpu, Pages::new(Page(page + 10), 1)).unwrap();
            }
            (space, object)
        };
        fn to_and_fro<'m, A: Architecture>(
            cpu: &Processor<'m, A>,
            space: &Space<'m, Hosted<A>>,
            round: u64,
            page: u64,
        ) {
            let (from, to) =
                if round.is_multiple_of(2) { (page, page + 10) } else { (page + 10, page) };
            space.remap(cpu, Pages::new(Page(from), 1), Pages::new(Page(to), 1)).unwrap();
            assert_eq!(cpu.load(space, Page(to).address()), Ok(page));
        }
        storm(
            &machine,
            1000,
            &[&|cpu, round| to_and_fro(cpu, &space, round, 5), &|cpu, round| {
                to_and_fro(cpu, &space, round, 520)
            }],
        );
        for page in [5, 520] {
            let mut found = Vec::new();
            object.mappings(&machine.cpu(0), page, |_, page| found.push(page));
            assert_eq!(found, [Page(page)]);
        }
    }
    assert_eq!(machine.free_frames(), all);
}

/// A CPU's list of free addresses may contain pages that `map` has mapped in the meantime. A mapping that
/// ends directly before one of these pages cannot grow in place.
#[test]
fn a_mapping_that_cannot_grow_in_place_moves() {
    let machine = Hosted::new(256, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let free = space.map_anywhere(&cpu, 100, WRITE).unwrap();
    space.unmap(&cpu, free).unwrap();
    let old = Pages::new(free.start + 10, 5);
    space.map(&cpu, old, WRITE).unwrap();
    space.map(&cpu, Pages::new(old.end + 3, 1), WRITE).unwrap();
    cpu.store(&space, old.start.address(), 7).unwrap();
    let new = space.remap_anywhere(&cpu, old, 20).unwrap();
    assert_eq!(new.count(), 20);
    assert_eq!(cpu.load(&space, new.start.address()), Ok(7));
    assert_eq!(space.map_guarded(&cpu, 0, 1, WRITE), Err(MapError::Empty));
}

/// A page of a private mapping is copied while another CPU writes to it through a shared mapping. No word of
/// the copy mixes two writes, and ThreadSanitizer finds no data race.
fn a_page_copied_during_writes_has_only_whole_words<A: Architecture>() {
    const WORDS: u64 = PAGE as u64 / 8;
    let machine = Hosted::<A>::with_architecture(1024, 4);
    let all = machine.free_frames();
    {
        let object = Object::new(&machine.cpu(0), 1).unwrap();
        let [shared, private] = [0, 1].map(|_| Space::new(&machine.cpu(0)).unwrap());
        let pages = Pages::new(Page(16), 1);
        shared.map_object(&machine.cpu(0), pages, &object, 0, WRITE, Sharing::Shared).unwrap();
        let address = |word: u64| Page(16).address() + 8 * word;
        // The two halves of each written word are equal.
        let is_whole = |word: u64| word >> 32 == word & u64::from(u32::MAX);
        storm(
            &machine,
            200,
            &[
                &|cpu, round| {
                    for word in 1..WORDS {
                        cpu.store(&shared, address(word), round << 32 | round).unwrap();
                    }
                },
                &|cpu, _| {
                    let sharing = Sharing::Private;
                    private.map_object(cpu, pages, &object, 0, WRITE, sharing).unwrap();
                    cpu.store(&private, address(0), 1).unwrap();
                    for word in 1..WORDS {
                        let found = cpu.load(&private, address(word)).unwrap();
                        assert!(is_whole(found), "word {word} is {found:#x}");
                    }
                    private.unmap(cpu, pages).unwrap();
                },
            ],
        );
    }
    assert_eq!(machine.free_frames(), all);
}

on_each_architecture!(
    a_mapped_object_outlives_its_handle,
    no_store_is_lost_while_pages_are_evicted,
    a_store_after_another_cpus_read_is_not_lost,
    pages_that_are_unmapped_in_parts_are_flushed_before_their_frames_are_freed,
    pages_are_not_freed_while_a_fork_copies_them,
    pages_beyond_the_end_are_not_faulted_in,
    a_page_copied_during_writes_has_only_whole_words,
    parts_of_a_mapping_that_two_cpus_move_keep_their_content,
);
