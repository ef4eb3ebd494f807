//! `knee_vm::Space::fork`: a space and its copy, which share pages until one of the two writes.

mod machine;

use std::process::ExitCode;

use knee_bind::{Action, Binding, Call as Made, Returned, Setup};
use knee_commute::{
    Call, Execution, Interface, Model, Natural, Operation, Outcome, Part, State, Stop, Term,
    TotalMap, Truth, sort, state,
};
use knee_vm::{Fault, Pages, Protection, Space};

use machine::{Cpus, MAIN, TABLE, Uncached, load, store, warm_up};

sort!(Page);

state! {
    /// A page of one of the spaces.
    struct Copy {
        mapped: Truth,
        content: Natural,
    }
}

state! {
    /// The same page in each of the two spaces.
    struct Pair {
        /// Whether both spaces initially map the page to the same frame, and so have the same content.
        shared: Truth,
        parent: Copy,
        child: Copy,
    }
}

state! {
    /// A space and its copy, and the copies that later forks make of these two.
    struct Spaces {
        pages: TotalMap<Term<Page>, Pair>,
        forks: knee_commute::Map<Term<Fork>, Snapshot>,
    }
}

sort!(Fork);

/// One of the spaces at the moment of a fork.
#[derive(Debug, Clone)]
struct Snapshot {
    child: bool,
    pages: TotalMap<Term<Page>, Pair>,
}

impl Snapshot {
    fn get(&self, page: &Term<Page>, execution: &mut Execution) -> Result<Copy, Stop> {
        let pair = pair(&self.pages, page, execution)?;
        Ok(if self.child { pair.child } else { pair.parent })
    }
}

impl State for Snapshot {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self { child: false, pages: TotalMap::unknown(execution, label) }
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        let pages: Vec<_> = self.pages.written().chain(other.pages.written()).copied().collect();
        for page in pages {
            let (own, others) = (self.get(&page, execution)?, other.get(&page, execution)?);
            if !own.same(&others, execution)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show(&self, execution: &Execution) -> String {
        self.pages.show(execution)
    }

    fn part(&self, execution: &mut Execution) -> Part {
        self.pages.part(execution)
    }
}

fn pair(
    pages: &TotalMap<Term<Page>, Pair>,
    page: &Term<Page>,
    execution: &mut Execution,
) -> Result<Pair, Stop> {
    let mut pair = pages.get(page, execution)?;
    if pair.shared.ask(execution)? {
        pair.parent.mapped = Truth::Known(true);
        pair.child = pair.parent.clone();
    }
    Ok(pair)
}

/// Returns four values: the arguments `page` and `child`, the pair of copies of this page, and the copy in
/// the space that `child` selects.
fn find(state: &Spaces, call: &mut Call<'_>) -> Result<(Term<Page>, bool, Pair, Copy), Stop> {
    let (page, child) = (call.term("page"), call.flag("child")?);
    let pair = pair(&state.pages, &page, call.execution)?;
    let copy = if child { pair.child.clone() } else { pair.parent.clone() };
    Ok((page, child, pair, copy))
}

/// Replaces a page in one space, so that the spaces no longer share it.
fn replace(
    state: &mut Spaces,
    (page, child, mut pair, _): (Term<Page>, bool, Pair, Copy),
    copy: Copy,
) {
    pair.shared = Truth::Known(false);
    *if child { &mut pair.child } else { &mut pair.parent } = copy;
    state.pages.insert(page, pair);
}

/// Operations on different spaces commute, although the spaces share frames.
fn forked() -> Interface<Spaces> {
    Interface {
        name: "forked",
        about: "a space and its copy, which share pages until one of the two writes",
        operations: vec![
            Operation {
                name: "load",
                about: "(page, child): the content of the page",
                apply: |state, call| {
                    let (_, _, _, copy) = find(state, call)?;
                    match copy.mapped.ask(call.execution)? {
                        true => Ok(Outcome::of(copy.content.0)),
                        false => Ok(Outcome::of("unmapped")),
                    }
                },
            },
            Operation {
                name: "store",
                about: "(page, child, value)",
                apply: |state, call| {
                    let found = find(state, call)?;
                    if !found.3.mapped.ask(call.execution)? {
                        return Ok(Outcome::of("unmapped"));
                    }
                    let content = Natural(call.int("value", 1..=2));
                    replace(state, found, Copy { mapped: Truth::Known(true), content });
                    Ok(Outcome::of("done"))
                },
            },
            Operation {
                name: "unmap",
                about: "(page, child)",
                apply: |state, call| {
                    let found = find(state, call)?;
                    found.3.mapped.ask(call.execution)?;
                    let content = Natural(0.into());
                    replace(state, found, Copy { mapped: Truth::Known(false), content });
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "discard",
                about: "(page, child): frees the frame of the page, so that the page is zero",
                apply: |state, call| {
                    let found = find(state, call)?;
                    if found.3.mapped.ask(call.execution)? {
                        let content = Natural(0.into());
                        replace(state, found, Copy { mapped: Truth::Known(true), content });
                    }
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "sharers",
                about: "(page, child): calls a function for each space that has the page's frame",
                apply: |state, call| {
                    find(state, call)?;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "fork",
                about: "(child): copies the space",
                apply: |state, call| {
                    let (child, fork) = (call.flag("child")?, call.fresh("fork")?);
                    state.forks.insert(fork, Snapshot { child, pages: state.pages.clone() });
                    Ok(Outcome::of(fork))
                },
            },
        ],
        ..Interface::default()
    }
}

struct Bound {
    cpus: Cpus,
    /// The space and its copy.
    spaces: [Space<'static, Uncached>; 2],
}

/// The number of page names in tests.
const PAGES: u64 = 2;

fn page(name: u64) -> knee_vm::Page {
    knee_vm::Page((64 + name) * TABLE + 7)
}

fn accessed(result: Result<Returned, Fault>) -> Returned {
    match result {
        Ok(returned) => returned,
        Err(Fault::Unmapped) => Returned::Word("unmapped"),
        Err(fault) => panic!("{fault}"),
    }
}

impl Binding for Bound {
    fn model() -> impl Model {
        forked()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        let cpus = Cpus::start();
        let (cpu, write) = (cpus.get(MAIN), Protection::READ_WRITE);
        let parent = Space::new(cpu).unwrap();
        (0..PAGES).for_each(|name| warm_up(cpu, &parent, page(name)));
        let field = |name: u64, field: &str| format!("pages[page{name}].{field}");
        let is_shared = |name| setup.flag(&field(name, "shared"));
        let map = |space: &Space<'static, Uncached>, name: u64, side: &str| {
            space.map(cpu, Pages::new(page(name), 1), write).unwrap();
            let content = setup.number(&field(name, side)) as u64;
            store(cpu, space, page(name), content).unwrap();
        };
        let names = || setup.elements("pages").into_iter();
        names()
            .filter(|&name| is_shared(name))
            .for_each(|name| map(&parent, name, "parent.content"));
        let child = parent.fork(cpu).unwrap();
        let spaces = [parent, child];
        (0..PAGES).filter(|&name| !is_shared(name)).for_each(|name| {
            warm_up(cpu, &spaces[1], page(name));
        });
        for name in names().filter(|&name| !is_shared(name)) {
            for (space, side) in spaces.iter().zip(["parent", "child"]) {
                if setup.flag(&field(name, &format!("{side}.mapped"))) {
                    map(space, name, &format!("{side}.content"));
                }
            }
        }
        Self { cpus, spaces }
    }

    fn prepare(&self, call: &Made<'_>) -> Option<Action<'_>> {
        let cpu = self.cpus.get(call.thread());
        let (space, at) = (&self.spaces[usize::from(call.flag("child"))], page(call.name("page")));
        let (pages, value) = (Pages::new(at, 1), call.number("value") as u64);
        warm_up(cpu, space, knee_vm::Page((1 << 20) * (1 + call.thread() as u64)));
        Some(match call.operation() {
            "load" => Box::new(move || {
                accessed(load(cpu, space, at).map(|found| Returned::Number(found as i64)))
            }),
            "store" => Box::new(move || {
                accessed(store(cpu, space, at, value).map(|()| Returned::Word("done")))
            }),
            "unmap" => Box::new(move || {
                space.unmap(cpu, pages).unwrap();
                Returned::Nothing
            }),
            "discard" => Box::new(move || {
                space.discard(cpu, pages).unwrap();
                Returned::Nothing
            }),
            "sharers" => Box::new(move || {
                space.sharers(cpu, at, |_, _| {});
                Returned::Nothing
            }),
            "fork" => Box::new(move || {
                let fork = space.fork(cpu).unwrap();
                let number = fork.number();
                // Nothing that a test allocates is freed.
                std::mem::forget(fork);
                Returned::Chosen(number)
            }),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Bound>()
}
