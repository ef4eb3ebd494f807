//! What designs need of memory: what is allocated, and frames that are not pages.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use knee_baselines::AddressSpace;
use knee_vm::hosted::{Hosted, Processor};
use knee_vm::{FrameMeta, PAGE, Page, Pages};
use serde_json::{Value, json};

use crate::designs::{Design, ForEach, for_each};
use crate::map::WRITABLE;

/// The system's allocator, with what is allocated counted when somebody asks.
pub(crate) struct Counting;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_COUNTING.load(Relaxed) {
            ALLOCATED.fetch_add(layout.size(), Relaxed);
        }
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if IS_COUNTING.load(Relaxed) {
            ALLOCATED.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: as the caller says.
        unsafe { System.dealloc(pointer, layout) };
    }
}

/// Bytes that are allocated while something is done.
fn allocated<R>(with: impl FnOnce() -> R) -> (R, usize) {
    IS_COUNTING.store(true, Relaxed);
    let before = ALLOCATED.load(Relaxed);
    let result = with();
    let after = ALLOCATED.load(Relaxed);
    IS_COUNTING.store(false, Relaxed);
    (result, after.wrapping_sub(before))
}

/// Bytes of a design.
pub(crate) struct Bytes {
    name: &'static str,
    /// For each frame of the machine.
    frame: f64,
    /// For an entry of a map, in 8 pages of which one is mapped.
    dense: f64,
    /// For an entry of a map that has 4 MiB for itself.
    sparse: f64,
    /// For a page that one space has, without tables, in an entry of 8,192.
    page: f64,
    /// For a page that a fork shares, without tables and what each space has.
    shared: f64,
    /// For a fork of a space with one entry, without tables and what each of its pages needs.
    fork: f64,
}

/// A gibibyte in pages, as DragonFly's case has.
const GIBIBYTE: u64 = 1 << 18;
const PROCESSES: u64 = 1000;

struct Measure;

impl ForEach for Measure {
    type Result = Bytes;

    fn of<D: Design>(&mut self, name: &'static str) -> Bytes {
        const FRAMES: usize = 1 << 17;
        const ENTRIES: u64 = 20_000;
        let machine: &'static Hosted = Box::leak(Box::new(Hosted::new(FRAMES, 1)));
        let (design, all) = allocated(|| D::on(machine, FRAMES));
        // The CPU goes before frames are counted, and gives back what it has in stock.
        let used = |with: &mut dyn FnMut(&Processor<'static>)| {
            let free = machine.free_frames();
            let ((), bytes) = allocated(|| with(&machine.cpu(0)));
            bytes as f64 + (free - machine.free_frames()) as f64 * PAGE as f64
        };
        let space = || design.space(&machine.cpu(0));
        let entries = |distance: u64, count: u64| {
            let space = space();
            let bytes = used(&mut |cpu| {
                for number in 0..count {
                    let pages = Pages::new(Page(16 + number * distance), 1);
                    space.map(cpu, pages, WRITABLE).expect("nothing is mapped there");
                }
            });
            std::mem::forget(space);
            bytes / count as f64
        };
        let (dense, sparse) = (entries(8, ENTRIES), entries(1024, ENTRIES));

        let pages = |count: u64| Pages::new(Page(512), count);
        // Those of the lowest level, and one of each of the other three.
        let tables = |count: u64| ((3 + count.div_ceil(512)) * PAGE as u64) as f64;
        let populate = |count: u64| {
            let space = space();
            let bytes = used(&mut |cpu| {
                space.map(cpu, pages(count), WRITABLE).expect("nothing is mapped there");
                space.populate(cpu, pages(count)).expect("there are frames");
            });
            // The uppermost table was there before.
            let tables = tables(count) - PAGE as f64;
            (space, bytes - (count * PAGE as u64) as f64 - tables)
        };
        let (parent, one) = populate(16 * 512);
        let page = one / (16.0 * 512.0);

        // Forks that differ in nothing but how many pages are present.
        let forks = |parent: &D::Space, present: u64| {
            const FORKS: u64 = 100;
            let bytes = used(&mut |cpu| {
                for _ in 0..FORKS {
                    std::mem::forget(parent.fork(cpu).expect("there is memory"));
                }
            });
            bytes / FORKS as f64 - tables(present)
        };
        let few = 512;
        let (small, _) = populate(few);
        let (large, small) = (forks(&parent, 16 * few), forks(&small, few));
        let shared = (large - small) / (15 * few) as f64;
        std::mem::forget(parent);
        let fork = small - shared * few as f64;
        // A design without a table of frames of its own has the notes that the machine has for it.
        let own = all as f64 / FRAMES as f64;
        let frame = if own < 1.0 { size_of::<FrameMeta>() as f64 } else { own };
        Bytes { name, frame, dense, sparse, page, shared, fork }
    }
}

/// A table for people, and the same for programs.
pub(crate) fn measure() -> (String, Vec<Value>) {
    let all = for_each(Measure);
    let mut table =
        "| bytes | a frame | a map entry, near others | one by itself | a page that is there \
        | a fork | a page that it shares | 1,000 processes share 1 GiB |\n\
        | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for Bytes { name, frame, dense, sparse, page, shared, fork } in &all {
        let gibibyte = PROCESSES as f64 * (fork + shared * GIBIBYTE as f64);
        table += &format!(
            "| {name} | {frame:.0} | {dense:.0} | {sparse:.0} | {page:.1} | {fork:.0} | {shared:.1} | \
             {:.1} MiB |\n",
            gibibyte / f64::from(1 << 20)
        );
    }
    let json = |of: &Bytes| {
        json!({
            "group": "bytes", "name": of.name.replace('*', ""), "frame": of.frame,
            "dense_entry": of.dense, "sparse_entry": of.sparse, "present_page": of.page,
            "fork": of.fork, "shared_page": of.shared,
        })
    };
    (table, all.iter().map(json).collect())
}
