//! What is measured. Each thread has pages of its own, 64 GiB from those of the other.

use std::hint::black_box;
use std::sync::{Mutex, RwLock};

use knee_vm::{Page, Pages, Protection};
use side_by_side::Row;

use crate::map::{Knee, Map, WRITABLE};
use crate::strategies;
use crate::tree::Tree;

/// Areas that are mapped and unmapped, of 1 to 8 pages, in places of 8 pages.
pub(crate) const AREAS: u64 = 1024;
/// Pages of such a place.
const PLACE: u64 = 8;
/// Pages of 128 MiB, as in will-it-scale's mmap1.
const LARGE: u64 = 1 << 15;

pub(crate) fn of(group: &str) -> Vec<Row> {
    match group {
        "map" => of_all(&[churn, large]).into_iter().chain(anywhere()).collect(),
        "look" => of_all(&[look]),
        "designs" => strategies::rows(),
        _ => faults(),
    }
}

/// Makes a row of a map.
type Make = fn(&'static dyn Shared) -> Row;

/// A [`Map`] whose threads are hidden: it runs a workload.
trait Shared: Sync {
    fn name(&self) -> &'static str;
    fn churn(&'static self, round: &side_by_side::Round);
    fn large(&'static self, round: &side_by_side::Round);
    fn look(&'static self, round: &side_by_side::Round);
}

struct Named<M: 'static>(&'static str, &'static M);

fn churn(map: &'static dyn Shared) -> Row {
    Row::new(format!("{}, unmap and map one of 1,024 areas", map.name()), |round| map.churn(round))
}

fn large(map: &'static dyn Shared) -> Row {
    Row::new(format!("{}, map and unmap 128 MiB", map.name()), |round| map.large(round))
}

fn look(map: &'static dyn Shared) -> Row {
    Row::new(format!("{}, find a page of 1,024 areas", map.name()), |round| map.look(round))
}

fn of_all(make: &[Make]) -> Vec<Row> {
    fn shared<M: Map>(name: &'static str, map: &'static M) -> &'static dyn Shared {
        Box::leak(Box::new(Named(name, map)))
    }
    fn leak<M: Default>() -> &'static M {
        Box::leak(Box::default())
    }
    let all: [&dyn Shared; 6] = [
        shared("**knee-vm**", Knee::new()),
        shared("`Mutex<BTreeMap>`", leak::<Mutex<Tree>>()),
        shared("`RwLock<BTreeMap>`", leak::<RwLock<Tree>>()),
        shared("rangemap", leak::<Mutex<rangemap::RangeMap<Page, Protection>>>()),
        shared("nodit", leak::<Mutex<nodit::NoditMap<u64, nodit::Interval<u64>, Protection>>>()),
        shared("memory_set", Box::leak(Box::new(Mutex::new(memory_set::MemorySet::new())))),
    ];
    make.iter().flat_map(|make| all.map(make)).collect()
}

/// Numbers that look random: Knuth's linear congruential generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    #[inline]
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 32) * count) >> 32
    }
}

/// Where a thread's pages begin.
pub(crate) fn base(thread: usize) -> Page {
    Page((thread as u64 + 1) << 24)
}

pub(crate) fn area(thread: usize, number: u64) -> Pages {
    Pages::new(base(thread) + number * PLACE, 1 + number % PLACE)
}

impl<M: Map> Shared for Named<M> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn churn(&'static self, round: &side_by_side::Round) {
        let (thread, mut random) = (self.1.thread(round.thread), Random(1));
        (0..AREAS).for_each(|number| self.1.map(&thread, area(round.thread, number)));
        round.time(|| {
            let area = area(round.thread, random.below(AREAS));
            self.1.unmap(&thread, area);
            self.1.map(&thread, area);
        });
        (0..AREAS).for_each(|number| self.1.unmap(&thread, area(round.thread, number)));
    }

    fn large(&'static self, round: &side_by_side::Round) {
        let thread = self.1.thread(round.thread);
        // Not at the beginning of a table.
        let pages = Pages::new(base(round.thread + 8) + 3, LARGE);
        round.time(|| {
            self.1.map(&thread, pages);
            self.1.unmap(&thread, pages);
        });
    }

    fn look(&'static self, round: &side_by_side::Round) {
        let (thread, mut random) = (self.1.thread(round.thread), Random(1));
        (0..AREAS).for_each(|number| self.1.map(&thread, area(round.thread, number)));
        round.time(|| {
            let page = area(round.thread, random.below(AREAS)).start;
            assert!(black_box(self.1.is_writable(&thread, page)));
        });
        (0..AREAS).for_each(|number| self.1.unmap(&thread, area(round.thread, number)));
    }
}

/// Where the space chooses: with what was unmapped before, and with a quota as well.
fn anywhere() -> Vec<Row> {
    let row = |name: &str, quota| {
        let knee = Knee::with_quota(quota);
        Row::new(format!("**knee-vm**, {name}"), move |round| {
            let (cpu, mut random) = (knee.thread(round.thread), Random(1));
            let map = |number| knee.space.map_anywhere(&cpu, 1 + number % PLACE, WRITABLE);
            let map = |number| map(number).expect("there is room");
            let mut areas: Vec<Pages> = (0..AREAS).map(map).collect();
            round.time(|| {
                let number = random.below(AREAS);
                knee.unmap(&cpu, areas[number as usize]);
                areas[number as usize] = map(number);
            });
            areas.into_iter().for_each(|area| knee.unmap(&cpu, area));
        })
    };
    vec![
        row("unmap one of 1,024 areas and map one anywhere", None),
        row("the same with a quota", Some(1 << 20)),
    ]
}

/// What only knee-vm has: page tables.
fn faults() -> Vec<Row> {
    const TOUCHED: u64 = 1024;
    let knee = Knee::new();
    let pages = |thread: usize| Pages::new(base(thread), TOUCHED);
    vec![
        Row::new("**knee-vm**, a fault on a page that is there", move |round| {
            let (cpu, pages) = (knee.thread(round.thread), pages(round.thread));
            knee.map(&cpu, pages);
            knee.space.populate(&cpu, pages).expect("there are frames");
            let mut random = Random(1);
            round.time(|| {
                let page = pages.start + random.below(TOUCHED);
                knee.space.fault(&cpu, page, WRITABLE).expect("it is mapped");
            });
            knee.unmap(&cpu, pages);
        }),
        Row::new("**knee-vm**, a fault on a page of zeros, and its share of discarding 1,024", {
            move |round| {
                let (cpu, pages) = (knee.thread(round.thread), pages(round.thread));
                knee.map(&cpu, pages);
                let mut page = pages.start;
                round.time(|| {
                    if page == pages.end {
                        knee.space.discard(&cpu, pages).expect("there is memory");
                        page = pages.start;
                    }
                    knee.space.fault(&cpu, page, WRITABLE).expect("there are frames");
                    page += 1;
                });
                knee.unmap(&cpu, pages);
            }
        }),
        Row::new("**knee-vm**, map, fault and unmap 4 pages", move |round| {
            let cpu = knee.thread(round.thread);
            let pages = Pages::new(base(round.thread + 4), 4);
            round.time(|| {
                knee.map(&cpu, pages);
                knee.space.populate(&cpu, pages).expect("there are frames");
                knee.unmap(&cpu, pages);
            });
        }),
        Row::new("**knee-vm**, map and unmap a page, all in one table", move |round| {
            let cpu = knee.thread(round.thread);
            let pages = Pages::new(base(6) + 64 * round.thread as u64, 1);
            round.time(|| {
                knee.map(&cpu, pages);
                knee.unmap(&cpu, pages);
            });
        }),
    ]
}
