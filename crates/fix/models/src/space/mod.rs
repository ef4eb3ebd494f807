//! The reference model of a space, without nodes and tables: runs of pages, and the words that were stored.
//!
//! `tests/model.rs` of knee-vm, the fuzz target `vm_space` and knee-baselines' `tests/designs` use this
//! model.

#[cfg(feature = "proptest")]
mod strategies;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk::Disk;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{Fault, MapError, Page, Pages, Protection, Quota, Space};

#[cfg(feature = "proptest")]
pub use strategies::operation;

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::WRITE;

/// Returns the model's page with this number. Some pages lie around the end of a leaf table, some around the
/// end of a table one level up, and the others are the first pages of consecutive leaf tables. So a range may
/// lie in one table, span two tables, or cover many.
fn page(number: u64) -> Page {
    Page(match number {
        0..24 => 500 + number,
        24..48 => 512 * 512 - 12 + number - 24,
        _ => 512 * 512 * 3 + 512 * (number - 48),
    })
}

const NUMBERS: u64 = 72;

/// An operation on a space.
#[derive(Debug, Clone)]
pub enum Operation {
    /// [`Space::map`].
    Map(Pages, Protection),
    /// [`Space::map`] of guards.
    Guard(Pages),
    /// [`Space::unmap`].
    Unmap(Pages),
    /// [`Space::replace`].
    Replace(Pages, Protection),
    /// [`Space::protect`].
    Protect(Pages, Protection),
    /// [`Space::discard`].
    Discard(Pages),
    /// [`Space::populate`].
    Populate(Pages),
    /// [`Space::swap_out`].
    SwapOut(Pages),
    /// [`Space::reclaim`] of this many pages.
    Reclaim(u64),
    /// A store to the page's first word.
    Store(Page, u64),
    /// A load of the page's first word.
    Load(Page),
}

/// The error of an operation: a [`MapError`] if the operation changes mappings, a [`Fault`] if it accesses
/// pages.
pub type Wrong = Result<MapError, Fault>;

/// Runs of mapped pages, and the first words of pages.
#[derive(Debug, Default, Clone)]
pub struct Model {
    runs: BTreeMap<Page, (Page, Protection)>,
    words: BTreeMap<Page, u64>,
}

impl Model {
    /// The protection of a page, or `None` if it is unmapped.
    pub fn find(&self, page: Page) -> Option<Protection> {
        let (_, &(end, protection)) = self.runs.range(..=page).next_back()?;
        (page < end).then_some(protection)
    }

    /// Splits the runs that cross the start or the end of these pages.
    fn cut(&mut self, pages: Pages) {
        for at in [pages.start, pages.end] {
            let Some((&start, &(end, protection))) = self.runs.range(..at).next_back() else {
                continue;
            };
            if at < end {
                self.runs.insert(start, (at, protection));
                self.runs.insert(at, (end, protection));
            }
        }
    }

    /// Returns the number of mapped pages in `pages`, without guards.
    pub fn mapped(&self, pages: Pages) -> u64 {
        let is_charged = |protection| protection != Protection::GUARD;
        self.runs_in(pages).filter(|&(_, kind)| is_charged(kind)).map(|(run, _)| run.count()).sum()
    }

    /// The non-empty parts of runs that lie in `pages`, with their protections.
    fn runs_in(&self, pages: Pages) -> impl Iterator<Item = (Pages, Protection)> {
        let part = move |(&start, &(end, protection)): (&Page, &(Page, Protection))| {
            (Pages { start, end }.and(pages), protection)
        };
        self.runs.iter().map(part).filter(|(run, _)| !run.is_empty())
    }

    /// Performs an operation. Returns the loaded word, or 0.
    ///
    /// # Errors
    /// The error that a space must return.
    pub fn apply(&mut self, operation: &Operation) -> Result<u64, Wrong> {
        match *operation {
            Operation::Map(pages, protection) => {
                if self.runs_in(pages).next().is_some() {
                    return Err(Ok(MapError::Occupied));
                }
                self.runs.insert(pages.start, (pages.end, protection));
            }
            Operation::Guard(pages) => {
                return self.apply(&Operation::Map(pages, Protection::GUARD));
            }
            Operation::Unmap(pages) => {
                self.cut(pages);
                self.runs.retain(|start, _| !pages.contains(*start));
                self.words.retain(|page, _| !pages.contains(*page));
            }
            Operation::Replace(pages, protection) => {
                self.apply(&Operation::Unmap(pages))?;
                self.runs.insert(pages.start, (pages.end, protection));
            }
            Operation::Protect(pages, protection) => {
                if self.mapped(pages) < pages.count() {
                    return Err(Ok(MapError::Unmapped));
                }
                self.cut(pages);
                for (_, run) in self.runs.range_mut(pages.start..pages.end) {
                    run.1 = protection;
                }
            }
            Operation::Discard(pages) => self.words.retain(|page, _| !pages.contains(*page)),
            Operation::Populate(pages) => {
                pages.iter().try_for_each(|page| self.allows(page, READ))?;
            }
            Operation::SwapOut(_) | Operation::Reclaim(_) => (),
            Operation::Store(page, value) => {
                self.allows(page, WRITE)?;
                self.words.insert(page, value);
            }
            Operation::Load(page) => {
                self.allows(page, READ)?;
                return Ok(self.words.get(&page).copied().unwrap_or(0));
            }
        }
        Ok(0)
    }

    /// Checks that `query` returns the same protections as this model.
    ///
    /// # Panics
    /// If the protection of a page differs.
    pub fn check_pages(&self, query: impl Fn(Page) -> Option<Protection>) {
        for number in 0..NUMBERS {
            let page = page(number);
            assert_eq!(query(page), self.find(page), "page {page:#x}");
        }
    }

    /// The runs, with adjacent runs of equal protection merged.
    fn mappings(&self) -> Vec<(Pages, Protection)> {
        let mut all: Vec<(Pages, Protection)> = Vec::new();
        for (&start, &(end, protection)) in &self.runs {
            match all.last_mut() {
                Some((last, same)) if (last.end, *same) == (start, protection) => last.end = end,
                _ => all.push((Pages { start, end }, protection)),
            }
        }
        all
    }

    fn allows(&self, page: Page, access: Protection) -> Result<(), Wrong> {
        match self.find(page) {
            None => Err(Err(Fault::Unmapped)),
            Some(Protection::GUARD) => Err(Err(Fault::Guard)),
            Some(protection) if !protection.contains(access) => Err(Err(Fault::AccessDenied)),
            Some(_) => Ok(()),
        }
    }

    /// Checks that the space is consistent and that all its pages are as in this model.
    ///
    /// # Panics
    /// If the space is inconsistent, or differs from this model.
    pub fn check<'m, A: Architecture>(&self, cpu: &Processor<'m, A>, space: &Space<'m, Hosted<A>>) {
        self.check_pages(|page| space.query(cpu, page));
        assert_eq!(space.audit(cpu).mapped, self.mapped(space.pages()));
        let listed = space.mappings(cpu).map(|mapping| (mapping.pages, mapping.protection));
        assert_eq!(listed.collect::<Vec<_>>(), self.mappings());
    }
}

/// Performs an operation on a space. Returns the loaded word, or 0.
///
/// # Errors
/// The error of the operation.
pub fn apply<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    space: &Space<'m, Hosted<A>>,
    operation: &Operation,
) -> Result<u64, Wrong> {
    match *operation {
        Operation::Map(pages, protection) => {
            space.map(cpu, pages, protection).map(|()| 0).map_err(Ok)
        }
        Operation::Guard(pages) => space.map(cpu, pages, Protection::GUARD).map(|()| 0).map_err(Ok),
        Operation::Unmap(pages) => space.unmap(cpu, pages).map(|()| 0).map_err(Ok),
        Operation::Replace(pages, protection) => {
            space.replace(cpu, pages, protection).map(|()| 0).map_err(Ok)
        }
        Operation::Protect(pages, protection) => {
            space.protect(cpu, pages, protection).map(|()| 0).map_err(Ok)
        }
        Operation::Discard(pages) => space.discard(cpu, pages).map(|()| 0).map_err(Ok),
        Operation::Populate(pages) => space.populate(cpu, pages).map(|()| 0).map_err(Err),
        Operation::SwapOut(pages) => {
            space.swap_out(cpu, pages).expect("the device works");
            Ok(0)
        }
        Operation::Reclaim(count) => {
            let freed = space.reclaim(cpu, count).expect("the device works");
            assert!(freed <= count);
            Ok(0)
        }
        Operation::Store(page, value) => {
            cpu.store(space, page.address(), value).map(|()| 0).map_err(Err)
        }
        Operation::Load(page) => cpu.load(space, page.address()).map_err(Err),
    }
}

/// The quota of a family, in pages. The large ranges together exceed this quota.
const LIMIT: u64 = 5 * 512 * 512;

/// The number of slots of a family's swap area: too few for the pages of a large range.
const SLOTS: u64 = 40;

/// The maximum number of operations in an input. Each operation takes four bytes. More operations could need
/// more memory than the machine has.
const MOST: usize = 120;

/// A space and its model.
struct Member<'m, A: Architecture> {
    space: Space<'m, Hosted<A>>,
    model: Model,
    /// Ranges that `map_anywhere` has mapped.
    found: Vec<Pages>,
    /// Whether the space is or was lazy. If so, a CPU may use cached translations of unmapped pages until it
    /// ticks.
    is_weak: bool,
}

impl<'m, A: Architecture> Member<'m, A> {
    /// Loads a word from each page of the model, so that the CPU caches the translations of the mapped pages.
    fn go_everywhere(&mut self, cpu: &Processor<'m, A>) {
        if self.is_weak {
            cpu.tick();
        }
        for number in 0..NUMBERS {
            let load = Operation::Load(page(number));
            assert_eq!(apply(cpu, &self.space, &load), self.model.apply(&load), "{load:?}");
        }
    }
}

/// The number of CPUs, which take turns.
const CPUS: usize = 2;

/// The index of the next operation. A CPU that waits for its turn acknowledges shootdowns.
#[derive(Default)]
struct Turn(AtomicUsize);

impl Turn {
    /// A thread has panicked, so no thread waits any more.
    const OVER: usize = usize::MAX;

    /// Waits until operation `nr` may run. Returns false if a thread has panicked.
    fn wait(&self, cpu: &Processor<'_, impl Architecture>, nr: usize) -> bool {
        loop {
            match self.0.load(Ordering::Acquire) {
                Turn::OVER => return false,
                next if next >= nr => return true,
                _ => cpu.handle_ipis(),
            }
            std::thread::yield_now();
        }
    }

    /// Calls `with` to perform this operation, and then passes the turn on.
    fn take(&self, nr: usize, with: impl FnOnce()) {
        struct Next<'a>(&'a Turn, usize);
        impl Drop for Next<'_> {
            fn drop(&mut self) {
                let next = if std::thread::panicking() { Turn::OVER } else { self.1 };
                self.0.0.store(next, Ordering::Release);
            }
        }
        let _next = Next(self, nr + 1);
        with();
    }
}

/// Performs the operations of an input, in which four bytes encode each operation and its CPU. The
/// operations use two spaces with one quota. An operation may replace one space with a fork of the other, or
/// make a space lazy. In some inputs, the spaces have large pages, and operations promote pages.
///
/// # Panics
/// If a space differs from its model.
pub fn family<A: Architecture>(text: &[u8]) {
    // A large page needs a frame for each of its pages, even if operations use only a few of them.
    let frames = if has_large_pages(text) { 1 << 14 } else { 1 << 10 };
    let machine = Hosted::<A>::with_architecture(frames, CPUS);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let quota = Arc::new(Quota::new(&machine, LIMIT).expect("there is memory"));
        let swap = Disk::default().swap(SLOTS);
        let family = Mutex::new([(); 2].map(|()| Member {
            space: {
                let space = Space::with_swap(&cpu, Some(Arc::clone(&quota)), Arc::clone(&swap))
                    .expect("there is memory");
                space.set_large_pages(has_large_pages(text));
                space
            },
            model: Model::default(),
            found: Vec::new(),
            is_weak: false,
        }));
        let turn = Turn::default();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| take_turns(machine.cpu(1), &turn, &quota, &family, text));
            take_turns(cpu, &turn, &quota, &family, text);
            // `join` waits for the exit of the thread; the scope waits only for the end of the thread's
            // closure. A leak detector would report the memory of a thread that has not exited.
            other.join().expect("the other thread has not panicked");
        });
        let cpu = machine.cpu(0);
        let mut family = family.into_inner().expect("no thread has panicked");
        for member in &mut family {
            member.model.check(&cpu, &member.space);
            member.go_everywhere(&cpu);
        }
        drop(family);
        assert_eq!(swap.used(), 0, "all slots are free again");
    }
    assert_eq!(machine.free_frames(), all, "all frames are free again");
}

/// Whether the spaces of an input have large pages.
fn has_large_pages(text: &[u8]) -> bool {
    text.first().is_some_and(|byte| byte % 8 == 7)
}

/// Performs those operations of an input that run on this CPU. Before each operation, waits for its turn.
fn take_turns<'m, A: Architecture>(
    cpu: Processor<'m, A>,
    turn: &Turn,
    quota: &Quota,
    family: &Mutex<[Member<'m, A>; 2]>,
    text: &[u8],
) {
    let steps = || text.chunks_exact(4).take(MOST).enumerate();
    for (nr, operation) in steps() {
        if !turn.wait(&cpu, nr) {
            return;
        }
        if usize::from(operation[0] >> 5) % CPUS == cpu.number() {
            let mut family = family.lock().unwrap_or_else(PoisonError::into_inner);
            turn.take(nr, || turn_of(&cpu, quota, &mut family, nr, operation));
        }
    }
    turn.wait(&cpu, steps().count());
}

/// Performs one operation of an input, and checks the result.
fn turn_of<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    quota: &Quota,
    family: &mut [Member<'m, A>; 2],
    nr: usize,
    text: &[u8],
) {
    match text[0] >> 6 {
        0 => (),
        1 => family.iter_mut().for_each(|one| one.go_everywhere(cpu)),
        2 if family.iter().any(|one| one.is_weak) => cpu.tick(),
        2 => (),
        _ => {
            let Member { space, is_weak, .. } = &mut family[usize::from(text[0] & 1)];
            space.set_lazy(text[3] & 1 == 1);
            *is_weak |= text[3] & 1 == 1;
        }
    }
    step(cpu, quota, family, text);
    let used: u64 = family.iter().map(|one| one.model.mapped(one.space.pages())).sum();
    assert_eq!(quota.used(), used);
    for Member { space, model, .. } in family {
        model.check_pages(|page| space.query(cpu, page));
        // A check of all nodes takes far more time than one operation, so it runs only after every 16th
        // operation.
        if nr.is_multiple_of(16) {
            model.check(cpu, space);
        }
    }
}

fn step<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    quota: &Quota,
    family: &mut [Member<'m, A>; 2],
    text: &[u8],
) {
    let &[kind, first, second, value] = text else { unreachable!("an operation has four bytes") };
    let (who, kind) = (usize::from(kind & 1), kind >> 1 & 15);
    let left = quota.limit() - quota.used();
    let number = u64::from(first) % NUMBERS;
    let pages = match second {
        0..200 => Pages::new(page(number), 1 + u64::from(second) % 24),
        _ => {
            let other = u64::from(second - 200) % NUMBERS;
            Pages { start: page(number.min(other)), end: page(number.max(other)) + 1 }
        }
    };
    let protection = [READ, READ | WRITE, Protection::NONE, READ | WRITE][usize::from(value % 4)];
    let Member { space, model, found, is_weak } = &mut family[who];
    let operation = match kind {
        0..3 if pages.count() > left => {
            let result = space.map(cpu, pages, protection);
            return assert_eq!(result, Err(MapError::QuotaExceeded), "{pages:?}");
        }
        0..3 => Operation::Map(pages, protection),
        // In older inputs of the corpus, where `value` is small, kind 7 is still a discard.
        7 if value >= 128 => Operation::Guard(pages),
        // Kind 4 is a replacement if `value` is at least 64. Otherwise kind 4 is an unmap, which ignores
        // `value`. So in older inputs of the corpus, where `value` is small, kind 4 is still an unmap.
        4 if value >= 224 => Operation::Replace(pages, Protection::GUARD),
        4 if value >= 64 && pages.count() - model.mapped(pages) > left => {
            let result = space.replace(cpu, pages, protection);
            return assert_eq!(result, Err(MapError::QuotaExceeded), "{pages:?}");
        }
        4 if value >= 64 => Operation::Replace(pages, protection),
        3 | 4 => Operation::Unmap(pages),
        5 | 6 => Operation::Protect(pages, protection),
        7 => Operation::Discard(pages),
        8 if (96..128).contains(&value) && space.has_large_pages() => {
            let around = Pages::new(Page(pages.start.0 / 512 * 512), 1024);
            space.promote(cpu, around).expect("there is memory");
            Operation::Load(pages.start)
        }
        // In older inputs, where `value` is small, kind 8 is still a populate, and kind 12 is still a load.
        8 if value >= 128 => Operation::SwapOut(pages),
        8 => Operation::Populate(Pages::new(pages.start, 1 + u64::from(second % 4))),
        9..12 => Operation::Store(pages.start, 1 + u64::from(value)),
        12 if value >= 128 => Operation::Reclaim(u64::from(second)),
        12 => Operation::Load(pages.start),
        13 => {
            let copied = model.mapped(space.pages());
            match space.fork(cpu) {
                Ok(copy) => {
                    assert!(copied <= left);
                    let (model, found, is_weak) = (model.clone(), found.clone(), *is_weak);
                    family[1 - who] = Member { space: copy, model, found, is_weak };
                }
                Err(error) => assert!(error == MapError::QuotaExceeded && copied > left, "{error}"),
            }
            return;
        }
        14 => {
            let count = 1 + u64::from(second);
            let guards = u64::from(value / 32);
            // Without guards, `map_guarded` would do the same as `map_anywhere`.
            let result = match guards {
                0 => space.map_anywhere(cpu, count, protection),
                _ => space.map_guarded(cpu, count, guards, protection),
            };
            match result {
                Ok(pages) => {
                    assert_eq!(pages.count(), count);
                    let all =
                        Pages { start: Page(pages.start.0 - guards), end: pages.end + guards };
                    model.apply(&Operation::Guard(all)).expect("the range was free");
                    model.apply(&Operation::Replace(pages, protection)).expect("replaces guards");
                    found.push(all);
                }
                Err(error) => assert!(error == MapError::QuotaExceeded && count > left, "{error}"),
            }
            return;
        }
        _ => match found.len() {
            0 => return,
            count => Operation::Unmap(found.swap_remove(usize::from(first) % count)),
        },
    };
    // Only translations of unmapped pages may be stale, so only an access to an unmapped page needs a tick
    // first.
    if *is_weak && model.find(pages.start).is_none() {
        cpu.tick();
    }
    assert_eq!(apply(cpu, space, &operation), model.apply(&operation), "{operation:?}");
}
