//! `knee_vm::Space`: operations on the same page or on different pages, in a space and in its
//! forks.
//!
//! Each page of a test is in a leaf table of its own.

mod machine;

use std::process::ExitCode;

use knee_bind::{Action, Binding, Call as Made, Returned, Setup};
use knee_commute::{
    Call, Interface, Map, Model, Natural, Operation, Outcome, State, Stop, Term, Truth, sort, state,
};
use knee_vm::{Fault, MapError, Pages, Protection, Space};

use machine::{Cpus, MAIN, TABLE, Uncached, load, store, warm_up};

sort!(Page, Child);

state! {
    /// A mapped page of anonymous memory.
    struct Area {
        writable: Truth,
        /// The value in the page. Before the first store, the value is zero, and the page may be absent.
        content: Natural,
    }
}

state! {
    /// A space, and the copies that forks have made of it.
    struct Memory {
        pages: Map<Term<Page>, Area>,
        children: Map<Term<Child>, Map<Term<Page>, Area>>,
    }
}

/// The result of an operation if the page is not mapped.
const UNMAPPED: &str = "unmapped";

/// A newly mapped page.
fn new() -> Area {
    Area { writable: Truth::Known(true), content: Natural(0.into()) }
}

/// Returns the mapping at `page`. Also asks whether a program has stored to the page, so that knee generates
/// a test for each of the two cases: the library does different work, even if the result is the same.
fn find(state: &Memory, call: &mut Call<'_>, page: &Term<Page>) -> Result<Option<Area>, Stop> {
    let found = state.pages.get(page, call.execution)?;
    if let Some(area) = &found {
        call.execution.at_most(area.content.0, 0)?;
    }
    Ok(found)
}

/// Calls `with` to change the mapping at the argument `page`, and returns `done`. Returns [`UNMAPPED`]
/// if there is no mapping.
fn change(
    state: &mut Memory,
    call: &mut Call<'_>,
    with: fn(&mut Area, &mut Call<'_>) -> Result<(), Stop>,
) -> Result<Outcome, Stop> {
    let page = call.term("page");
    let Some(mut area) = find(state, call, &page)? else { return Ok(Outcome::of(UNMAPPED)) };
    with(&mut area, call)?;
    state.pages.insert(page, area);
    Ok(Outcome::of("done"))
}

/// Operations on pages commute if the pages differ, and `fork` commutes with operations that only
/// read.
fn memory() -> Interface<Memory> {
    Interface {
        name: "memory",
        about: "a space with anonymous memory, and its forks",
        operations: vec![
            Operation {
                name: "map",
                about: "(page): maps the page unless something is mapped there",
                apply: |state, call| {
                    let page = call.term("page");
                    if find(state, call, &page)?.is_some() {
                        return Ok(Outcome::of("occupied"));
                    }
                    state.pages.insert(page, new());
                    Ok(Outcome::of("done"))
                },
            },
            Operation {
                name: "map_anywhere",
                about: "(): maps a page at an address that the space chooses",
                apply: |state, call| {
                    let page = call.fresh("page")?;
                    state.pages.assume_presence(&page, false, call.execution)?;
                    state.pages.insert(page, new());
                    Ok(Outcome::of(page))
                },
            },
            Operation {
                name: "unmap",
                about: "(page)",
                apply: |state, call| {
                    let page = call.term("page");
                    find(state, call, &page)?;
                    state.pages.remove(page);
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "protect",
                about: "(page, writable)",
                apply: |state, call| {
                    change(state, call, |area, call| {
                        area.writable = Truth::Known(call.flag("writable")?);
                        Ok(())
                    })
                },
            },
            Operation {
                name: "discard",
                about: "(page): frees the frame of the page, so that the page is zero",
                apply: |state, call| {
                    change(state, call, |area, _| {
                        area.content = new().content;
                        Ok(())
                    })?;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "populate",
                about: "(page): makes the page present",
                apply: |state, call| change(state, call, |_, _| Ok(())),
            },
            Operation {
                name: "query",
                about: "(page): the protection of the page",
                apply: |state, call| {
                    let page = call.term("page");
                    let Some(area) = find(state, call, &page)? else {
                        return Ok(Outcome::of(UNMAPPED));
                    };
                    let writable = area.writable.ask(call.execution)?;
                    Ok(Outcome::of(if writable { "writable" } else { "readable" }))
                },
            },
            Operation {
                name: "load",
                about: "(page): the content of the page",
                apply: |state, call| {
                    let page = call.term("page");
                    let found = find(state, call, &page)?;
                    Ok(found.map_or(Outcome::of(UNMAPPED), |area| Outcome::of(area.content.0)))
                },
            },
            Operation {
                name: "store",
                about: "(page, value)",
                apply: |state, call| {
                    let page = call.term("page");
                    let Some(mut area) = find(state, call, &page)? else {
                        return Ok(Outcome::of(UNMAPPED));
                    };
                    if !area.writable.ask(call.execution)? {
                        return Ok(Outcome::of("denied"));
                    }
                    area.content = Natural(call.int("value", 1..=2));
                    state.pages.insert(page, area);
                    Ok(Outcome::of("done"))
                },
            },
            Operation {
                name: "remap",
                about: "(page, to): moves the page to `to`, where nothing may be mapped",
                apply: |state, call| {
                    let (page, to) = (call.term("page"), call.term("to"));
                    let Some(area) = find(state, call, &page)? else {
                        return Ok(Outcome::of(UNMAPPED));
                    };
                    if page.same(&to, call.execution)? {
                        return Ok(Outcome::of("done"));
                    }
                    if state.pages.contains(&to, call.execution)? {
                        return Ok(Outcome::of("occupied"));
                    }
                    state.pages.remove(page);
                    state.pages.insert(to, area);
                    Ok(Outcome::of("done"))
                },
            },
            Operation {
                name: "prune",
                about: "(page): frees the table of the page if nothing is mapped in it",
                apply: |state, call| {
                    let page = call.term("page");
                    find(state, call, &page)?;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "fork",
                about: "(): copies the space",
                apply: |state, call| {
                    let child = call.fresh("child")?;
                    state.children.insert(child, state.pages.clone());
                    Ok(Outcome::of(child))
                },
            },
        ],
        ..Interface::default()
    }
}

struct Bound {
    cpus: Cpus,
    space: Space<'static, Uncached>,
}

/// The number of page names in tests.
const PAGES: u64 = 6;

/// Returns the page that a name stands for.
fn page(name: u64) -> knee_vm::Page {
    knee_vm::Page((64 + name) * TABLE + 7)
}

fn done(result: Result<(), MapError>) -> Returned {
    Returned::Word(match result {
        Ok(()) => "done",
        Err(MapError::Unmapped) => UNMAPPED,
        Err(MapError::Occupied) => "occupied",
        Err(error) => panic!("{error}"),
    })
}

fn accessed(result: Result<Returned, Fault>) -> Returned {
    match result {
        Ok(returned) => returned,
        Err(Fault::Unmapped) => Returned::Word(UNMAPPED),
        Err(Fault::AccessDenied) => Returned::Word("denied"),
        Err(fault) => panic!("{fault}"),
    }
}

impl Binding for Bound {
    fn model() -> impl Model {
        memory()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        let cpus = Cpus::start();
        let cpu = cpus.get(MAIN);
        let space = Space::new(cpu).unwrap();
        // Allocates the tables in advance, as if the program had already run for a while.
        (0..PAGES).for_each(|name| warm_up(cpu, &space, page(name)));
        for name in setup.elements("pages") {
            let field = |field| format!("pages[page{name}].{field}");
            let pages = Pages::new(page(name), 1);
            space.map(cpu, pages, Protection::READ_WRITE).unwrap();
            let content = setup.number(&field("content"));
            if content > 0 {
                store(cpu, &space, pages.start, content as u64).unwrap();
            }
            if !setup.flag(&field("writable")) {
                space.protect(cpu, pages, Protection::READ).unwrap();
            }
        }
        Self { cpus, space }
    }

    fn prepare(&self, call: &Made<'_>) -> Option<Action<'_>> {
        let (cpu, space, write) =
            (self.cpus.get(call.thread()), &self.space, Protection::READ_WRITE);
        warm_up(cpu, space, knee_vm::Page((1 << 20) * (1 + call.thread() as u64)));
        let found = space.map_anywhere(cpu, 1, write).unwrap();
        space.unmap(cpu, found).unwrap();

        let page_of = |argument| page(call.name(argument));
        let (at, pages) = (page_of("page"), Pages::new(page_of("page"), 1));
        let value = call.number("value") as u64;
        Some(match call.operation() {
            "map" => Box::new(move || done(space.map(cpu, pages, write))),
            "map_anywhere" => Box::new(move || {
                Returned::Chosen(space.map_anywhere(cpu, 1, write).unwrap().start.0)
            }),
            "unmap" => Box::new(move || {
                space.unmap(cpu, pages).unwrap();
                Returned::Nothing
            }),
            "protect" => {
                let to = if call.flag("writable") { write } else { Protection::READ };
                Box::new(move || done(space.protect(cpu, pages, to)))
            }
            "discard" => Box::new(move || {
                space.discard(cpu, pages).unwrap();
                Returned::Nothing
            }),
            "populate" => Box::new(move || {
                accessed(space.populate(cpu, pages).map(|()| Returned::Word("done")))
            }),
            "query" => Box::new(move || {
                Returned::Word(match space.query(cpu, at) {
                    None => UNMAPPED,
                    Some(protection) if protection == write => "writable",
                    Some(_) => "readable",
                })
            }),
            "load" => Box::new(move || {
                accessed(load(cpu, space, at).map(|found| Returned::Number(found as i64)))
            }),
            "store" => Box::new(move || {
                accessed(store(cpu, space, at, value).map(|()| Returned::Word("done")))
            }),
            "remap" => {
                let to = Pages::new(page_of("to"), 1);
                Box::new(move || done(space.remap(cpu, pages, to)))
            }
            "prune" => {
                let table = Pages::new(knee_vm::Page(at.0 / TABLE * TABLE), TABLE);
                Box::new(move || {
                    space.prune(cpu, table);
                    Returned::Nothing
                })
            }
            "fork" => Box::new(move || {
                let child = space.fork(cpu).unwrap();
                let number = child.number();
                // Nothing that a test allocates is freed.
                std::mem::forget(child);
                Returned::Chosen(number)
            }),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Bound>()
}
