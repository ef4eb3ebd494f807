//! Short histories of three CPUs on four pages. Each history must have a sequential order that explains all
//! its results (Wing and Gong, "Testing and Verifying Concurrent Objects", 1993). The search tries all
//! orders.
//!
//! An operation takes effect at one moment between its start and its end. An operation that revokes an access
//! has two such moments: first its change is *published*, and later it is *flushed*. In between, every other
//! CPU may still use a translation that it has cached, until it first observes the new state. Hardware
//! behaves in the same way: a CPU that has a page in its TLB can still access the page after another CPU has
//! been denied access. If another operation changes the same pages, it takes effect before the publication or
//! after the flush.

#[path = "architectures/each.rs"]
mod each;

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, PoisonError};
use std::thread;

use knee_models::random::{Random, patience};
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{Fault, MapError, Page, Pages, Protection, Space};

use each::on_each_architecture;

const NONE: Protection = Protection::NONE;
const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;

const CPUS: usize = 3;
const STEPS: usize = 4;
const PAGES: usize = 4;

/// The first of the four pages, which are the last two of a table and the first two of the next table.
const FIRST: Page = Page(510);

/// A run of consecutive pages among the four.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
}

impl Run {
    fn pages(self) -> Pages {
        Pages { start: page(self.start), end: page(self.end) }
    }

    fn places(self) -> std::ops::Range<usize> {
        self.start..self.end
    }
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Load(usize),
    Store(usize, u64),
    Query(usize),
    Map(Run, Protection),
    Unmap(Run),
    Protect(Run, Protection),
    Discard(Run),
    Fork,
}

/// A page's protection and, if it may be read, its first word; `None` if the page is unmapped.
type Snapshot = Option<(Protection, Option<u64>)>;

#[derive(Debug, Clone, PartialEq)]
enum Found {
    Word(Result<u64, Fault>),
    Protection(Option<Protection>),
    Changed(Result<(), MapError>),
    Copy([Snapshot; PAGES]),
}

/// An operation with its result, and the positions of its start and its end in the history.
#[derive(Debug, Clone)]
struct Done {
    cpu: usize,
    operation: Operation,
    found: Found,
    begin: u64,
    end: u64,
}

impl Operation {
    /// A random operation. No other operation stores `value`.
    fn any(random: &mut Random, value: u64) -> Operation {
        let start = random.below(PAGES as u64) as usize;
        let count = 1 + random.below((PAGES - start) as u64) as usize;
        let run = Run { start, end: start + count };
        let protection = [NONE, READ, WRITE, WRITE][random.below(4) as usize];
        match random.below(16) {
            0..4 => Operation::Load(start),
            4..8 => Operation::Store(start, value),
            8 => Operation::Query(start),
            9 | 10 => Operation::Map(run, protection),
            11 | 12 => Operation::Unmap(run),
            13 => Operation::Protect(run, protection),
            14 => Operation::Discard(run),
            _ => Operation::Fork,
        }
    }
}

fn page(place: usize) -> Page {
    FIRST + place as u64
}

fn execute<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    space: &Space<'m, Hosted<A>>,
    operation: Operation,
) -> Found {
    match operation {
        Operation::Load(place) => Found::Word(cpu.load(space, page(place).address())),
        Operation::Store(place, value) => {
            Found::Word(cpu.store(space, page(place).address(), value).map(|()| 0))
        }
        Operation::Query(place) => Found::Protection(space.query(cpu, page(place))),
        Operation::Map(run, protection) => Found::Changed(space.map(cpu, run.pages(), protection)),
        Operation::Unmap(run) => Found::Changed(space.unmap(cpu, run.pages())),
        Operation::Protect(run, protection) => {
            Found::Changed(space.protect(cpu, run.pages(), protection))
        }
        Operation::Discard(run) => Found::Changed(space.discard(cpu, run.pages())),
        Operation::Fork => {
            let copy = space.fork(cpu).expect("there is memory");
            Found::Copy(std::array::from_fn(|place| {
                let protection = copy.query(cpu, page(place))?;
                Some((protection, cpu.load(&copy, page(place).address()).ok()))
            }))
        }
    }
}

/// A page as a CPU has cached it: its protection, and the index of its content in [`State::words`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct View {
    protection: Protection,
    content: usize,
}

/// A change that is published but not yet flushed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Leaving {
    /// The position of the change's operation in the history.
    by: usize,
    views: [Option<View>; PAGES],
    /// For each page, the CPUs that have observed the new state.
    left: [[bool; CPUS]; PAGES],
}

/// The state after a part of a history.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct State {
    views: [Option<View>; PAGES],
    /// The words that pages contain, indexed by `View::content`.
    words: Vec<u64>,
    leaving: Vec<Leaving>,
    /// Bit n of `said` is set if operation n is published, and bit n of `over` is set if operation n is
    /// complete.
    said: u32,
    over: u32,
}

impl State {
    /// Whether all published changes of these pages are flushed.
    fn is_quiet(&self, run: Run) -> bool {
        self.leaving.iter().all(|leaving| run.places().all(|place| leaving.views[place].is_none()))
    }

    /// Returns the states that can follow if operation `number` now takes effect, is published or is flushed.
    /// There are none if the operation's result contradicts this order.
    fn next(&self, number: usize, done: &Done) -> Vec<State> {
        let bit = 1 << number;
        let mut next = self.clone();
        if self.said & bit != 0 {
            next.leaving.retain(|leaving| leaving.by != number);
            next.over |= bit;
            return vec![next];
        }
        next.said |= bit;
        match done.operation {
            Operation::Load(place) => self.access(next, done, place, READ, bit, |_, word| word),
            Operation::Store(place, value) => {
                self.access(next, done, place, Protection::WRITE, bit, |words, _| {
                    *words = value;
                    0
                })
            }
            Operation::Query(place) => {
                let found = self.views[place].map(|view| view.protection);
                next.finish(bit, done.found == Found::Protection(found))
            }
            Operation::Fork => {
                let whole = Run { start: 0, end: PAGES };
                let copy = self.views.map(|view| {
                    let view = view?;
                    let word = view.protection.contains(READ).then(|| self.words[view.content]);
                    Some((view.protection, word))
                });
                next.finish(bit, self.is_quiet(whole) && done.found == Found::Copy(copy))
            }
            Operation::Map(run, _)
            | Operation::Unmap(run)
            | Operation::Protect(run, _)
            | Operation::Discard(run)
                if !self.is_quiet(run) =>
            {
                Vec::new()
            }
            Operation::Map(run, protection) => {
                let is_free = run.places().all(|place| self.views[place].is_none());
                for place in run.places().filter(|_| is_free) {
                    next.views[place] = Some(next.new_content(protection));
                }
                let found = if is_free { Ok(()) } else { Err(MapError::Occupied) };
                next.finish(bit, done.found == Found::Changed(found))
            }
            Operation::Unmap(run) => {
                for place in run.places() {
                    next.views[place] = None;
                }
                next.leave(number, self, run, done.found == Found::Changed(Ok(())))
            }
            Operation::Discard(run) => {
                for place in run.places() {
                    let old = self.views[place];
                    next.views[place] = old.map(|view| next.new_content(view.protection));
                }
                next.leave(number, self, run, done.found == Found::Changed(Ok(())))
            }
            Operation::Protect(run, protection) => {
                if run.places().any(|place| self.views[place].is_none()) {
                    let found = Found::Changed(Err(MapError::Unmapped));
                    return next.finish(bit, done.found == found);
                }
                for view in next.views[run.places()].iter_mut().flatten() {
                    view.protection = protection;
                }
                next.leave(number, self, run, done.found == Found::Changed(Ok(())))
            }
        }
    }

    fn new_content(&mut self, protection: Protection) -> View {
        self.words.push(0);
        View { protection, content: self.words.len() - 1 }
    }

    fn finish(mut self, bit: u32, is_as_found: bool) -> Vec<State> {
        self.over |= bit;
        if is_as_found { vec![self] } else { Vec::new() }
    }

    /// Publishes a change. Other CPUs may still have the pages cached as they are in `before`.
    fn leave(mut self, by: usize, before: &State, run: Run, is_as_found: bool) -> Vec<State> {
        let mut views = [None; PAGES];
        views[run.places()].copy_from_slice(&before.views[run.places()]);
        self.leaving.push(Leaving { by, views, left: Default::default() });
        if is_as_found { vec![self] } else { Vec::new() }
    }

    /// An access, which uses the current state or a translation that the CPU has cached.
    fn access(
        &self,
        next: State,
        done: &Done,
        place: usize,
        access: Protection,
        bit: u32,
        with: impl Fn(&mut u64, u64) -> u64,
    ) -> Vec<State> {
        let mut states = Vec::new();
        let mut go = |mut state: State, view: Option<View>| {
            let found = match view {
                None => Err(Fault::Unmapped),
                Some(view) if !view.protection.contains(access) => Err(Fault::AccessDenied),
                Some(view) => {
                    let before = state.words[view.content];
                    Ok(with(&mut state.words[view.content], before))
                }
            };
            states.extend(state.finish(bit, done.found == Found::Word(found)));
        };
        for leaving in &self.leaving {
            let knows = !leaving.left[place][done.cpu];
            let view = leaving.views[place].filter(|view| view.protection.contains(access));
            if let Some(view) = view.filter(|_| knows) {
                go(next.clone(), Some(view));
            }
        }
        let mut next = next;
        for leaving in &mut next.leaving {
            leaving.left[place][done.cpu] = true;
        }
        go(next, self.views[place]);
        states
    }
}

/// Whether the rest of the history has a valid sequential order, starting from `state`.
fn is_linearizable(history: &[Done], state: State, seen: &mut HashSet<State>) -> bool {
    let open = |state: &State, number: usize| state.over & 1 << number == 0;
    let first_end = (0..history.len())
        .filter(|&number| open(&state, number))
        .map(|number| history[number].end)
        .min();
    let Some(first_end) = first_end else { return true };
    if !seen.insert(state.clone()) {
        return false;
    }
    (0..history.len())
        .filter(|&number| open(&state, number) && history[number].begin < first_end)
        .flat_map(|number| state.next(number, &history[number]))
        .any(|next| is_linearizable(history, next, seen))
}

/// A barrier, at which the CPUs wait for each other.
fn meet(cpu: &Processor<'_, impl Architecture>, arrived: &AtomicU64, of_round: u64) {
    arrived.fetch_add(1, SeqCst);
    let mut spins = 0_u32;
    while arrived.load(SeqCst) < of_round * CPUS as u64 {
        cpu.handle_ipis();
        spins += 1;
        if spins.is_multiple_of(64) {
            thread::yield_now();
        }
    }
}

/// If a thread panics, keeps the others from waiting at the barrier forever.
struct Meets<'a>(&'a AtomicU64);

impl Drop for Meets<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(u64::MAX / 2, SeqCst);
        }
    }
}

/// Runs histories in one space. Each history begins with no page mapped, or with all pages mapped.
fn histories<A: Architecture>(seed: u64, count: u64) {
    let machine = Hosted::<A>::with_architecture(1 << 10, CPUS);
    let all = machine.free_frames();
    {
        let space = Space::new(&machine.cpu(0)).unwrap();
        let (clock, arrived) = (AtomicU64::new(0), AtomicU64::new(0));
        let history = Mutex::new(Vec::new());
        let work = |number: usize| {
            let cpu = machine.cpu(number);
            let _meets = Meets(&arrived);
            let mut random = Random::new(seed * CPUS as u64 + number as u64 + 1);
            let mut rounds = 0;
            let mut meet = || {
                rounds += 1;
                meet(&cpu, &arrived, rounds);
            };
            for nr in 0..count {
                let whole = Run { start: 0, end: PAGES };
                let is_mapped = !(seed + nr).is_multiple_of(3);
                let mut start = State::default();
                if number == 0 {
                    space.unmap(&cpu, whole.pages()).unwrap();
                    if is_mapped {
                        space.map(&cpu, whole.pages(), WRITE).unwrap();
                    }
                }
                if is_mapped {
                    start.views = std::array::from_fn(|_| Some(start.new_content(WRITE)));
                }
                meet();
                // Caches the pages, so that the history begins with filled TLBs.
                if is_mapped && random.below(2) == 0 {
                    for place in 0..PAGES {
                        cpu.load(&space, page(place).address()).unwrap();
                    }
                }
                meet();
                let mut own = Vec::new();
                for step in 0..STEPS {
                    let value = (number * STEPS + step + 1) as u64;
                    let operation = Operation::any(&mut random, value);
                    (0..random.below(200)).for_each(|_| cpu.handle_ipis());
                    let begin = clock.fetch_add(1, SeqCst);
                    let found = execute(&cpu, &space, operation);
                    let end = clock.fetch_add(1, SeqCst);
                    own.push(Done { cpu: number, operation, found, begin, end });
                }
                history.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
                meet();
                if number == 0 {
                    let history = std::mem::take(&mut *history.lock().unwrap());
                    let found = is_linearizable(&history, start, &mut HashSet::new());
                    assert!(found, "no order explains {history:#?}, mapped at first: {is_mapped}");
                    space.audit(&cpu);
                }
            }
        };
        thread::scope(|scope| {
            (0..CPUS).for_each(|number| {
                drop(scope.spawn({
                    let work = &work;
                    move || work(number)
                }))
            });
        });
    }
    assert_eq!(machine.free_frames(), all, "all frames are free again");
}

fn every_history_has_an_order<A: Architecture>() {
    for seed in 0..10 * patience(100) {
        histories::<A>(seed, 40);
    }
}

on_each_architecture!(every_history_has_an_order);

fn done(cpu: usize, begin: u64, end: u64, operation: Operation, found: Found) -> Done {
    Done { cpu, operation, found, begin, end }
}

/// The search rejects histories that have no order.
#[test]
fn wrong_histories_have_no_order() {
    let page = Run { start: 0, end: 1 };
    let mut start = State::default();
    start.views[0] = Some(start.new_content(WRITE));
    let has_order = |history: &[Done]| is_linearizable(history, start.clone(), &mut HashSet::new());
    let word = |word| Found::Word(Ok(word));
    let changed = || Found::Changed(Ok(()));
    let store = |cpu, begin, end, value| done(cpu, begin, end, Operation::Store(0, value), word(0));
    let load = |cpu, begin, end, value| done(cpu, begin, end, Operation::Load(0), word(value));
    let unmap = |end| done(0, 2, end, Operation::Unmap(page), changed());

    // A load must not miss an earlier store.
    assert!(has_order(&[store(1, 0, 1, 7), load(2, 2, 3, 7)]));
    assert!(!has_order(&[store(1, 0, 1, 7), load(2, 2, 3, 0)]));
    // A CPU may use an unmapped page until the unmap ends, but not afterwards.
    assert!(has_order(&[store(1, 0, 1, 7), unmap(9), load(2, 3, 4, 7)]));
    assert!(!has_order(&[store(1, 0, 1, 7), unmap(3), load(2, 4, 5, 7)]));
    // A CPU that has observed the new state does not observe the old state again.
    let gone = |cpu, begin, end| {
        done(cpu, begin, end, Operation::Load(0), Found::Word(Err(Fault::Unmapped)))
    };
    assert!(has_order(&[store(1, 0, 1, 7), unmap(9), gone(1, 3, 4), load(2, 5, 6, 7)]));
    assert!(!has_order(&[store(1, 0, 1, 7), unmap(9), gone(2, 3, 4), load(2, 5, 6, 7)]));
    // A page can be mapped again only after all CPUs have flushed it.
    let map = done(1, 3, 4, Operation::Map(page, WRITE), changed());
    assert!(!has_order(&[store(1, 0, 1, 7), unmap(9), map, load(2, 5, 6, 7)]));
}
