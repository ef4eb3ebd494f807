//! `knee_vm::Object`: an object with a pager, and two spaces that map it.
//!
//! The names of pages are numbers. Pages with even numbers are in one space, and pages with odd numbers are
//! in the other space. Each of these pages is in a leaf table of its own, and each page of the object is in
//! its own block of the object's index.

mod machine;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use knee_bind::{Action, Binding, Call as Made, Returned, Setup};
use knee_commute::{
    Call, Int, Interface, Map, Model, Natural, Operation, Outcome, Stop, Term, TotalMap, Truth,
    sort, state,
};
use knee_vm::{
    Fault, MapError, Object, PAGE, Pager, PagerError, Pages, Protection, Sharing, Space,
};

use machine::{Cpus, MAIN, TABLE, Uncached, load, store, warm_up};

sort!(Page);

state! {
    /// A page of the object.
    struct Content {
        /// Whether the page has a frame in the initial state. A page without a frame has the content that the
        /// pager has stored.
        resident: Truth,
        content: Natural,
        /// The content that the pager has stored for the page.
        stored: Natural,
    }
}

state! {
    /// The object and its mappings.
    struct Mapped {
        /// The number of pages of the object.
        pages: Natural,
        object: TotalMap<Int, Content>,
        mapped: Map<Term<Page>, Natural>,
    }
}

/// The maximum number of pages of the object.
const MOST: i64 = 2;

fn find(state: &Mapped, call: &mut Call<'_>, index: Int) -> Result<Content, Stop> {
    let mut page = state.object.get(&index, call.execution)?;
    if !page.resident.ask(call.execution)? {
        page.content = page.stored;
    }
    Ok(page)
}

/// Changes page `index` of the object, if the object has this page. `index` is an argument of the call.
fn change(
    state: &mut Mapped,
    call: &mut Call<'_>,
    with: fn(&mut Content),
) -> Result<Outcome, Stop> {
    let index = call.int("index", 0..=MOST - 1);
    if call.execution.at_most(index + 1, state.pages.0)? {
        let mut page = find(state, call, index)?;
        with(&mut page);
        state.object.insert(index, page);
    }
    Ok(Outcome::nothing())
}

/// Looks up the call's argument `page`, and returns the index of the object's page that is mapped there. If
/// nothing is mapped there, or the object ends before that index, returns the outcome of the failed access.
fn access(state: &Mapped, call: &mut Call<'_>) -> Result<Result<Int, Outcome>, Stop> {
    let page: Term<Page> = call.term("page");
    let Some(index) = state.mapped.get(&page, call.execution)? else {
        return Ok(Err(Outcome::of("unmapped")));
    };
    if call.execution.at_most(state.pages.0, index.0)? {
        return Ok(Err(Outcome::of("beyond")));
    }
    Ok(Ok(index.0))
}

/// Operations on different pages commute unless one of them changes the size of the object.
fn object() -> Interface<Mapped> {
    let unseen = |name, about| Operation { name, about, apply: |_, _| Ok(Outcome::nothing()) };
    Interface {
        name: "object",
        about: "an object with a pager, mapped in two spaces",
        invariant: |state, execution| execution.assume_at_most(state.pages.0, MOST),
        operations: vec![
            Operation {
                name: "map_object",
                about: "(page, index): maps a page of the object unless something is mapped there",
                apply: |state, call| {
                    let page = call.term("page");
                    if state.mapped.contains(&page, call.execution)? {
                        return Ok(Outcome::of("occupied"));
                    }
                    state.mapped.insert(page, Natural(call.int("index", 0..=MOST - 1)));
                    Ok(Outcome::of("done"))
                },
            },
            Operation {
                name: "unmap",
                about: "(page)",
                apply: |state, call| {
                    let page = call.term("page");
                    state.mapped.get(&page, call.execution)?;
                    state.mapped.remove(page);
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "load",
                about: "(page): the content of the object's page",
                apply: |state, call| match access(state, call)? {
                    Ok(index) => Ok(Outcome::of(find(state, call, index)?.content.0)),
                    Err(outcome) => Ok(outcome),
                },
            },
            Operation {
                name: "store",
                about: "(page, value)",
                apply: |state, call| match access(state, call)? {
                    Ok(index) => {
                        let mut page = find(state, call, index)?;
                        page.content = Natural(call.int("value", 1..=2));
                        page.resident = Truth::Known(true);
                        state.object.insert(index, page);
                        Ok(Outcome::of("done"))
                    }
                    Err(outcome) => Ok(outcome),
                },
            },
            Operation {
                name: "discard",
                about: "(index): frees the frame without writing the page to the pager",
                apply: |state, call| change(state, call, |page| page.content = page.stored),
            },
            Operation {
                name: "evict",
                about: "(index): writes the page to the pager, and frees the frame",
                apply: |state, call| change(state, call, |page| page.stored = page.content),
            },
            Operation {
                name: "write_back",
                about: "(index): writes the page to the pager",
                apply: |state, call| change(state, call, |page| page.stored = page.content),
            },
            Operation {
                name: "resize",
                about: "(): adds a page if there is room",
                apply: |state, call| {
                    if call.execution.at_most(MOST, state.pages.0)? {
                        return Ok(Outcome::of("full"));
                    }
                    state.pages.0 = state.pages.0 + 1;
                    Ok(Outcome::of("done"))
                },
            },
            Operation {
                name: "pages",
                about: "(): the number of pages",
                apply: |state, _| Ok(Outcome::of(state.pages.0)),
            },
            unseen("capacity", "(): the maximum number of pages"),
            unseen("resident", "(): the approximate number of pages with frames"),
            unseen(
                "mappings",
                "(index): calls a function for each place where the page is present",
            ),
        ],
        ..Interface::default()
    }
}

/// Tests use two pages of the object, which are this many pages apart. Pages at this distance are in
/// different blocks of the object's index.
const STRIDE: u64 = 512;

/// A word on cache lines of its own.
#[repr(align(128))]
struct Word(AtomicU64);

/// A pager that stores only the first word of each page.
struct Store([Word; MOST as usize]);

impl Store {
    fn word(&self, index: u64) -> &AtomicU64 {
        &self.0[(index / STRIDE) as usize].0
    }
}

impl Pager for Store {
    fn page_in(&self, index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        page[..8].copy_from_slice(&self.word(index).load(Relaxed).to_ne_bytes());
        Ok(())
    }

    fn page_out(&self, index: u64, page: &[u8; PAGE]) -> Result<(), PagerError> {
        let word = page[..8].try_into().expect("eight bytes");
        self.word(index).store(u64::from_ne_bytes(word), Relaxed);
        Ok(())
    }
}

struct Bound {
    cpus: Cpus,
    spaces: [Space<'static, Uncached>; 2],
    object: Object<'static, Uncached>,
}

fn page(name: u64) -> knee_vm::Page {
    knee_vm::Page((64 + name) * TABLE + 7)
}

fn accessed(result: Result<Returned, Fault>) -> Returned {
    match result {
        Ok(returned) => returned,
        Err(Fault::Unmapped) => Returned::Word("unmapped"),
        Err(Fault::BeyondEnd) => Returned::Word("beyond"),
        Err(fault) => panic!("{fault}"),
    }
}

impl Binding for Bound {
    fn model() -> impl Model {
        object()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        let cpus = Cpus::start();
        let cpu = cpus.get(MAIN);
        let field = |index: usize, field| format!("object[{index}].{field}");
        let stored = |index| setup.number(&field(index, "stored")) as u64;
        let words = std::array::from_fn(|index| Word(AtomicU64::new(stored(index))));
        let (most, write) = (MOST as u64 * STRIDE, Protection::READ_WRITE);
        let object = Object::with_pager(cpu, most, most, Box::new(Store(words))).unwrap();
        let spaces = [(); 2].map(|()| Space::new(cpu).unwrap());
        // Allocates the tables in advance, as if the program had already run for a while.
        (0..4).for_each(|name| warm_up(cpu, &spaces[name as usize % 2], page(name)));
        let first = Pages::new(page(8), MOST as u64 * STRIDE);
        spaces[0].map_object(cpu, first, &object, 0, write, Sharing::Shared).unwrap();
        for index in 0..MOST as usize {
            if setup.flag(&field(index, "resident")) {
                let content = setup.number(&field(index, "content")) as u64;
                store(cpu, &spaces[0], first.start + index as u64 * STRIDE, content).unwrap();
            } else {
                // Allocates the block of the object's index that contains this page.
                load(cpu, &spaces[0], first.start + index as u64 * STRIDE).unwrap();
                object.discard(cpu, index as u64 * STRIDE..index as u64 * STRIDE + 1);
            }
        }
        spaces[0].unmap(cpu, first).unwrap();
        object.resize(cpu, setup.number("pages") as u64 * STRIDE).unwrap();
        for name in setup.elements("mapped") {
            let index = setup.number(&format!("mapped[page{name}]")) as u64;
            let (space, pages) = (&spaces[name as usize % 2], Pages::new(page(name), 1));
            let shared = Sharing::Shared;
            space.map_object(cpu, pages, &object, index * STRIDE, write, shared).unwrap();
            match space.populate(cpu, pages) {
                Ok(()) | Err(Fault::BeyondEnd) => {}
                Err(fault) => panic!("{fault}"),
            }
        }
        Self { cpus, spaces, object }
    }

    fn prepare(&self, call: &Made<'_>) -> Option<Action<'_>> {
        let (cpu, object, name) = (self.cpus.get(call.thread()), &self.object, call.name("page"));
        let (space, at) = (&self.spaces[name as usize % 2], page(name));
        let (pages, write, shared) = (Pages::new(at, 1), Protection::READ_WRITE, Sharing::Shared);
        let own = knee_vm::Page((1 << 20) * (1 + call.thread() as u64));
        warm_up(cpu, space, own);
        // Puts a backing into the pool, and allocates a shard of the object.
        space.map_object(cpu, Pages::new(own, 1), object, 0, write, shared).unwrap();
        space.unmap(cpu, Pages::new(own, 1)).unwrap();

        let index = call.number("index") as u64 * STRIDE;
        let value = call.number("value") as u64;
        let one = move || index..index + 1;
        Some(match call.operation() {
            "map_object" => {
                Box::new(move || match space.map_object(cpu, pages, object, index, write, shared) {
                    Ok(()) => Returned::Word("done"),
                    Err(MapError::Occupied) => Returned::Word("occupied"),
                    Err(error) => panic!("{error}"),
                })
            }
            "unmap" => Box::new(move || {
                space.unmap(cpu, pages).unwrap();
                Returned::Nothing
            }),
            "load" => Box::new(move || {
                accessed(load(cpu, space, at).map(|found| Returned::Number(found as i64)))
            }),
            "store" => Box::new(move || {
                accessed(store(cpu, space, at, value).map(|()| Returned::Word("done")))
            }),
            "discard" => Box::new(move || {
                object.discard(cpu, one());
                Returned::Nothing
            }),
            "evict" => Box::new(move || {
                object.evict(cpu, one()).unwrap();
                Returned::Nothing
            }),
            "write_back" => Box::new(move || {
                object.write_back(cpu, one()).unwrap();
                Returned::Nothing
            }),
            "resize" => {
                let pages = object.pages() + STRIDE;
                let is_full = pages > MOST as u64 * STRIDE;
                Box::new(move || {
                    if is_full {
                        return Returned::Word("full");
                    }
                    object.resize(cpu, pages).unwrap();
                    Returned::Word("done")
                })
            }
            "pages" => Box::new(|| Returned::Number((object.pages() / STRIDE) as i64)),
            "capacity" => Box::new(|| {
                object.capacity();
                Returned::Nothing
            }),
            "resident" => Box::new(|| {
                object.resident();
                Returned::Nothing
            }),
            "mappings" => Box::new(move || {
                object.mappings(cpu, index, |_, _| {});
                Returned::Nothing
            }),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Bound>()
}
