//! Compares a space whose pages are pinned, and a fork of the space, with a model.

#[path = "architectures/each.rs"]
mod each;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use each::{ARCHITECTURES, on_architecture};
use knee_models::disk::Disk;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{
    Fault, MapError, Object, PAGE, Page, Pager, PagerError, Pages, PinnedPage, Protection, Sharing,
    Space,
};
use proptest::prelude::*;

const WRITE: Protection = Protection::READ_WRITE;
/// The pages of the model begin just before the end of a leaf table.
const START: Page = Page(510);
/// The number of pages.
const PAGES: u64 = 6;
const ALL: Pages = Pages::new(START, PAGES);

/// What is mapped at a page.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Anonymous,
    /// The object's page, which all mappings share.
    Shared,
    /// The object's page, which the space copies before it writes.
    Private,
}

/// What `map` maps at the page with this index. Page `index` of the object is mapped nowhere else, so only the
/// pages of kind `Shared` ever change in the object.
fn kind(index: usize) -> Kind {
    [Kind::Anonymous, Kind::Anonymous, Kind::Anonymous, Kind::Shared, Kind::Shared, Kind::Private]
        [index]
}

/// The first word of page `index` of the object before any store.
fn content(index: u64) -> u64 {
    100 + index
}

/// The backing store of the object.
#[derive(Default)]
struct File(Mutex<BTreeMap<u64, u64>>);

impl Pager for File {
    fn page_in(&self, index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        let word = self.0.lock().unwrap().get(&index).copied().unwrap_or(content(index));
        page[..8].copy_from_slice(&word.to_ne_bytes());
        Ok(())
    }

    fn page_out(&self, index: u64, page: &[u8; PAGE]) -> Result<(), PagerError> {
        let word = u64::from_ne_bytes(page[..8].try_into().unwrap());
        self.0.lock().unwrap().insert(index, word);
        Ok(())
    }
}

/// An operation. Pages are given by their index, and pins by their place in the list of pins.
#[derive(Debug, Clone)]
enum Operation {
    Map(usize),
    Unmap(Pages),
    Discard(Pages),
    Replace(Pages),
    Store(usize, u64),
    Load(usize),
    Pin(usize, bool),
    Unpin(usize),
    /// A device stores a word to a pinned page.
    DeviceStore(usize, u64),
    SwapOut(Pages),
    Reclaim(u64),
    Evict,
    WriteBack,
    /// Forks the space. The copy replaces the previous copy.
    Fork,
    StoreInCopy(usize, u64),
    UnmapInCopy(Pages),
}

fn pages() -> impl Strategy<Value = Pages> {
    (0..PAGES, 0..PAGES).prop_map(|(one, other)| Pages {
        start: START + one.min(other),
        end: START + one.max(other) + 1,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let index = || 0..PAGES as usize;
    prop_oneof![
        3 => index().prop_map(Operation::Map),
        1 => pages().prop_map(Operation::Unmap),
        1 => pages().prop_map(Operation::Discard),
        1 => pages().prop_map(Operation::Replace),
        3 => (index(), 1_u64..).prop_map(|(index, word)| Operation::Store(index, word)),
        2 => index().prop_map(Operation::Load),
        4 => (index(), any::<bool>()).prop_map(|(index, writes)| Operation::Pin(index, writes)),
        2 => (0_usize..8).prop_map(Operation::Unpin),
        2 => (0_usize..8, 1_u64..).prop_map(|(pin, word)| Operation::DeviceStore(pin, word)),
        2 => pages().prop_map(Operation::SwapOut),
        1 => (0_u64..PAGES).prop_map(Operation::Reclaim),
        1 => Just(Operation::Evict),
        1 => Just(Operation::WriteBack),
        2 => Just(Operation::Fork),
        1 => (index(), 1_u64..).prop_map(|(index, word)| Operation::StoreInCopy(index, word)),
        1 => pages().prop_map(Operation::UnmapInCopy),
    ]
}

/// The pages of a space: what is mapped at each, and the first word of each private page.
#[derive(Clone, Default)]
struct Model([Option<(Kind, u64)>; PAGES as usize]);

impl Model {
    /// Unmaps pages, or changes them to what `new` returns.
    fn set(&mut self, pages: Pages, new: impl Fn(usize, Kind) -> Option<(Kind, u64)>) {
        for index in (pages.start - START) as usize..(pages.end - START) as usize {
            self.0[index] = self.0[index].and_then(|(kind, _)| new(index, kind));
        }
    }

    /// The first word of a page. `shared` contains the words of the object.
    fn word<'a>(&'a mut self, index: usize, shared: &'a mut [u64]) -> Result<&'a mut u64, Fault> {
        match &mut self.0[index] {
            None => Err(Fault::Unmapped),
            Some((Kind::Shared, _)) => Ok(&mut shared[index]),
            Some((_, word)) => Ok(word),
        }
    }
}

/// The first word of a private page that has just been mapped or discarded.
fn fresh(index: usize, kind: Kind) -> (Kind, u64) {
    (kind, if kind == Kind::Private { content(index as u64) } else { 0 })
}

/// A pin, and what it pins.
struct Pin<'m, A: Architecture> {
    page: PinnedPage<'m, Hosted<A>>,
    index: usize,
    kind: Kind,
    /// Whether the device may store to the page.
    is_writable: bool,
}

impl<A: Architecture> Pin<'_, A> {
    fn word(&self) -> &AtomicU64 {
        // SAFETY: the frame is RAM and stays allocated until the pin ends, and all accesses are atomic.
        unsafe { self.page.address().cast().as_ref() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_pinned_page_keeps_its_frame_and_its_content(
        operations in prop::collection::vec(operation(), 1..60),
        architecture in 0..ARCHITECTURES
    ) {
        on_architecture!(architecture, agrees_with_the_model(&operations));
    }
}

/// Performs the operations on a space and on its model. Compares the results of each operation, and all pinned
/// pages after each operation.
fn agrees_with_the_model<A: Architecture>(operations: &[Operation]) {
    let machine = Hosted::<A>::with_architecture(512, 1);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let swap = Disk::default().swap(32);
        let object = Object::with_pager(&cpu, PAGES, PAGES, Box::<File>::default()).unwrap();
        let space = Space::with_swap(&cpu, None, swap).unwrap();
        let mut state = State {
            cpu: &cpu,
            object: &object,
            space: &space,
            model: Model::default(),
            shared: std::array::from_fn(|index| content(index as u64)),
            pins: Vec::new(),
            copy: None,
        };
        for operation in operations {
            state.apply(operation);
            state.check_pins();
            space.audit(&cpu);
        }
        state.check_words();
        state.pins.clear();
        assert_eq!(space.unmap(&cpu, ALL), Ok(()), "no page is pinned any more");
        state.end_copy();
        cpu.leave(&space);
    }
    assert_eq!(machine.free_frames(), all, "all frames are free again");
}

/// A space with its model, and a copy of the space with a model of its own.
struct State<'a, 'm, A: Architecture> {
    cpu: &'a Processor<'m, A>,
    object: &'a Object<'m, Hosted<A>>,
    space: &'a Space<'m, Hosted<A>>,
    model: Model,
    /// The first words of the object's pages.
    shared: [u64; PAGES as usize],
    pins: Vec<Pin<'m, A>>,
    copy: Option<(Space<'m, Hosted<A>>, Model)>,
}

impl<A: Architecture> State<'_, '_, A> {
    /// Whether a private page among `pages` is pinned.
    fn has_pinned(&self, pages: Pages) -> bool {
        self.pins
            .iter()
            .any(|pin| pin.kind != Kind::Shared && pages.contains(START + pin.index as u64))
    }

    /// Checks the result of an operation that removes `pages`. Returns whether it removed them.
    fn removes(&self, pages: Pages, result: Result<(), MapError>) -> bool {
        let is_pinned = self.has_pinned(pages);
        assert_eq!(result, if is_pinned { Err(MapError::Pinned) } else { Ok(()) });
        !is_pinned
    }

    fn apply(&mut self, operation: &Operation) {
        let (cpu, space) = (self.cpu, self.space);
        let at = |index: usize| START + index as u64;
        match *operation {
            Operation::Map(index) => {
                let (one, first) = (Pages::new(at(index), 1), index as u64);
                let result = match kind(index) {
                    Kind::Anonymous => space.map(cpu, one, WRITE),
                    Kind::Shared => {
                        space.map_object(cpu, one, self.object, first, WRITE, Sharing::Shared)
                    }
                    Kind::Private => {
                        space.map_object(cpu, one, self.object, first, WRITE, Sharing::Private)
                    }
                };
                let page = &mut self.model.0[index];
                let is_free = page.is_none();
                assert_eq!(result, if is_free { Ok(()) } else { Err(MapError::Occupied) });
                page.get_or_insert(fresh(index, kind(index)));
            }
            Operation::Unmap(pages) => {
                if self.removes(pages, space.unmap(cpu, pages)) {
                    self.model.set(pages, |_, _| None);
                }
            }
            Operation::Discard(pages) => {
                if self.removes(pages, space.discard(cpu, pages)) {
                    self.model.set(pages, |index, kind| Some(fresh(index, kind)));
                }
            }
            Operation::Replace(pages) => {
                if self.removes(pages, space.replace(cpu, pages, WRITE)) {
                    for page in pages.iter() {
                        self.model.0[(page - START) as usize] = Some((Kind::Anonymous, 0));
                    }
                }
            }
            Operation::Store(index, value) => {
                let stored = cpu.store(space, at(index).address(), value);
                let word = self.model.word(index, &mut self.shared);
                assert_eq!(stored, word.map(|word| *word = value));
            }
            Operation::Load(index) => {
                let word = self.model.word(index, &mut self.shared);
                assert_eq!(cpu.load(space, at(index).address()), word.copied());
            }
            Operation::Pin(index, writes) => {
                let access = if writes { WRITE } else { Protection::READ };
                match (space.pin(cpu, at(index), access), self.model.0[index]) {
                    (Ok(page), Some((kind, _))) => {
                        self.pins.push(Pin { page, index, kind, is_writable: writes });
                    }
                    (result, page) => {
                        assert_eq!((result.err(), page), (Some(Fault::Unmapped), None));
                    }
                }
            }
            Operation::Unpin(pin) if !self.pins.is_empty() => {
                self.pins.swap_remove(pin % self.pins.len());
            }
            Operation::DeviceStore(pin, value) if !self.pins.is_empty() => {
                let pin = &self.pins[pin % self.pins.len()];
                if pin.is_writable {
                    pin.word().store(value, SeqCst);
                    match pin.kind {
                        Kind::Shared => self.shared[pin.index] = value,
                        _ => *self.model.word(pin.index, &mut self.shared).unwrap() = value,
                    }
                }
            }
            Operation::Unpin(_) | Operation::DeviceStore(..) => (),
            Operation::SwapOut(pages) => _ = space.swap_out(cpu, pages).unwrap(),
            Operation::Reclaim(count) => _ = space.reclaim(cpu, count).unwrap(),
            Operation::Evict => _ = self.object.evict(cpu, 0..PAGES).unwrap(),
            Operation::WriteBack => _ = self.object.write_back(cpu, 0..PAGES).unwrap(),
            Operation::Fork => {
                self.end_copy();
                self.copy = Some((space.fork(cpu).unwrap(), self.model.clone()));
            }
            Operation::StoreInCopy(index, value) => {
                let Some((copy, model)) = &mut self.copy else { return };
                let stored = cpu.store(copy, at(index).address(), value);
                let word = model.word(index, &mut self.shared);
                assert_eq!(stored, word.map(|word| *word = value));
            }
            Operation::UnmapInCopy(pages) => {
                let Some((copy, model)) = &mut self.copy else { return };
                assert_eq!(copy.unmap(cpu, pages), Ok(()), "the pages of the copy are not pinned");
                model.set(pages, |_, _| None);
            }
        }
    }

    /// Checks that each pinned page has the content of the model. If the page is private or still mapped, checks
    /// that it is in its frame.
    fn check_pins(&mut self) {
        for pin in &self.pins {
            let (index, page) = (pin.index, START + pin.index as u64);
            let frame = self.space.frame(self.cpu, page);
            let expected = match pin.kind {
                Kind::Shared => self.shared[index],
                _ => {
                    assert_eq!(frame, Some(pin.page.frame()), "{page:?} has left its frame");
                    *self.model.word(index, &mut self.shared).expect("a pinned page stays mapped")
                }
            };
            assert_eq!(pin.word().load(SeqCst), expected, "{page:?} has lost its content");
            if pin.kind == Kind::Shared
                && matches!(self.model.0[index], Some((Kind::Shared, _)))
                && let Some(frame) = frame
            {
                assert_eq!(frame, pin.page.frame(), "the object has two frames for {page:?}");
            }
        }
    }

    /// Checks the content of all pages in the space and in the copy.
    fn check_words(&mut self) {
        let (cpu, copy) = (self.cpu, self.copy.as_mut());
        let both = [(self.space, &mut self.model)].into_iter();
        for (space, model) in both.chain(copy.map(|(copy, model)| (&*copy, model))) {
            for page in ALL.iter() {
                let word = model.word((page - START) as usize, &mut self.shared);
                assert_eq!(cpu.load(space, page.address()), word.copied(), "{page:?}");
            }
        }
    }

    fn end_copy(&mut self) {
        if let Some((copy, _)) = self.copy.take() {
            self.cpu.leave(&copy);
        }
    }
}
