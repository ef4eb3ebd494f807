//! What is measured of designs, each with a quota or counter, reverse map, tables and flushes. Threads have
//! pages of their own, in one space or in one for each.

use knee_baselines::AddressSpace;
use knee_vm::hosted::{Hosted, MmuContext};
use knee_vm::{Pages, Protection};
use side_by_side::{Round, Row};

use crate::designs::{Design, ForEach, for_each};
use crate::map::WRITABLE;
use crate::rows::{AREAS, Random, area, base};

/// Frames of each machine.
const FRAMES: usize = 1 << 14;

/// A design, its machine, a space for all threads and one for each.
struct Set<D: Design> {
    name: &'static str,
    machine: &'static Hosted,
    all: D::Space,
    each: [D::Space; side_by_side::THREADS],
}

/// What is measured: the name, and who does it.
type Workload<D> = (&'static str, fn(&'static Set<D>, &Round));

fn workloads<D: Design>() -> [Workload<D>; 6] {
    [
        ("unmap and map one of 1,024 areas", churn),
        ("map, touch and unmap 4 pages", |set, round| touch(set, &set.all, round)),
        ("the same, each thread in a space of its own", |set, round| {
            touch(set, &set.each[round.thread], round);
        }),
        ("a fault on a page that is there", fault),
        ("a fault on a page of zeros, and its share of discarding 512", discard),
        ("forbid and allow to write to a page that is there", flip),
    ]
}

/// Rows of all designs, those of one workload together.
pub(crate) fn rows() -> Vec<Row> {
    let mut of_designs: Vec<_> = for_each(Rows).into_iter().map(Vec::into_iter).collect();
    let mut rows = Vec::new();
    while let Some(row) = of_designs[0].next() {
        rows.push(row);
        rows.extend(of_designs[1..].iter_mut().filter_map(Iterator::next));
    }
    rows
}

struct Rows;

impl ForEach for Rows {
    type Result = Vec<Row>;

    fn of<D: Design>(&mut self, name: &'static str) -> Vec<Row> {
        let machine: &'static Hosted = Box::leak(Box::new(Hosted::new(FRAMES, 3)));
        let (design, cpu) = (D::on(machine, FRAMES), machine.cpu(2));
        let space = || design.space(&cpu);
        let set: &'static Set<D> =
            Box::leak(Box::new(Set { name, machine, all: space(), each: [space(), space()] }));
        let row = |(what, run): Workload<D>| {
            Row::new(format!("{}, {what}", set.name), move |round| run(set, round))
        };
        workloads::<D>().map(row).into()
    }
}

fn churn<D: Design>(set: &'static Set<D>, round: &Round) {
    let (cpu, mut random, space) = (set.machine.cpu(round.thread), Random(1), &set.all);
    let map = |pages| space.map(&cpu, pages, WRITABLE).expect("nothing is mapped there");
    let unmap = |pages| space.unmap(&cpu, pages).expect("there is memory");
    (0..AREAS).for_each(|number| map(area(round.thread, number)));
    round.time(|| {
        let area = area(round.thread, random.below(AREAS));
        unmap(area);
        map(area);
    });
    (0..AREAS).for_each(|number| unmap(area(round.thread, number)));
}

fn touch<D: Design>(set: &'static Set<D>, space: &'static D::Space, round: &Round) {
    let cpu = set.machine.cpu(round.thread);
    let pages = Pages::new(base(round.thread + 4), 4);
    round.time(|| {
        space.map(&cpu, pages, WRITABLE).expect("nothing is mapped there");
        space.populate(&cpu, pages).expect("there are frames");
        space.unmap(&cpu, pages).expect("there is memory");
    });
}

/// Pages of one table that is the thread's own.
fn table(thread: usize) -> Pages {
    Pages::new(base(thread), 512)
}

/// Maps and touches pages, has `with` do something with them, and unmaps them.
fn with_table<D: Design>(
    set: &'static Set<D>,
    round: &Round,
    with: impl FnOnce(&knee_vm::hosted::Processor<'static>, Pages),
) {
    let (cpu, pages) = (set.machine.cpu(round.thread), table(round.thread));
    set.all.map(&cpu, pages, WRITABLE).expect("nothing is mapped there");
    set.all.populate(&cpu, pages).expect("there are frames");
    with(&cpu, pages);
    set.all.unmap(&cpu, pages).expect("there is memory");
}

fn fault<D: Design>(set: &'static Set<D>, round: &Round) {
    with_table(set, round, |cpu, pages| {
        let mut random = Random(1);
        round.time(|| {
            let page = pages.start + random.below(pages.count());
            set.all.fault(cpu, page, WRITABLE).expect("it is mapped");
        });
    });
}

fn discard<D: Design>(set: &'static Set<D>, round: &Round) {
    with_table(set, round, |cpu, pages| {
        let mut page = pages.end;
        round.time(|| {
            if page == pages.end {
                set.all.discard(cpu, pages).expect("there is memory");
                page = pages.start;
            }
            set.all.fault(cpu, page, WRITABLE).expect("there are frames");
            page += 1;
        });
    });
}

fn flip<D: Design>(set: &'static Set<D>, round: &Round) {
    with_table(set, round, |cpu, pages| {
        let page = Pages::new(pages.start + 7, 1);
        round.time(|| {
            set.all.protect(cpu, page, Protection::READ).expect("it is mapped");
            set.all.protect(cpu, page, WRITABLE).expect("it is mapped");
            set.all.fault(cpu, page.start, WRITABLE).expect("it is mapped");
        });
    });
}
