//! `knee_vm::Space`: operations of two CPUs on pages that are apart, of which none has to wait for
//! another or write what another writes.
//!
//! Each CPU has pages of its own, whatever it does. Small ranges of the two are in neighbouring tables,
//! and large ones in neighbouring tables of tables; `beside_…` are in one table, whose lock both take.
//! All is as it is when a program has run for a while: CPUs have frames, and the tree has nodes.
//!
//! CPUs remember nothing of tables here, so that nobody has to tell them what to forget: how that is done
//! is the embedder's matter.

use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::ptr::NonNull;
use std::sync::Arc;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Interface, Model, Operation, Outcome, Truth, state};
use knee_sync::epoch::Domain;
use knee_vm::hosted::Hosted;
use knee_vm::{
    Cpu, CpuSet, Flush, Frame, FrameMeta, Machine, Page, Pages, Protection, Quota, Space, X86_64,
};

state! {
    /// Nothing that anyone looks at.
    struct Nothing {
        nothing: Truth,
    }
}

/// All of it commutes, as no two calls are about the same pages.
fn own_pages() -> Interface<Nothing> {
    let operation = |name, about| Operation { name, about, apply: |_, _| Ok(Outcome::nothing()) };
    Interface {
        name: "own_pages",
        about: "a space where each CPU has pages of its own: all of it commutes",
        operations: vec![
            operation("map", "(): maps pages of a table"),
            operation("unmap", "(): unmaps pages of a table, which are present"),
            operation("protect", "(): makes pages of a table read-only, which are present"),
            operation("discard", "(): frees the frames of pages of a table"),
            operation("fault", "(): makes a page present"),
            operation("query", "(): what may be done with a page"),
            operation("map_large", "(): maps pages of many tables"),
            operation("unmap_large", "(): unmaps pages of many tables"),
            operation("protect_large", "(): makes pages of many tables read-only"),
            operation("map_anywhere", "(): maps pages wherever there is room"),
            operation("unmap_anywhere", "(): unmaps such pages"),
            operation("beside_fault", "(): makes a page present in a table of both CPUs"),
        ],
        ..Interface::default()
    }
}

const CPUS: usize = 4;

/// Pages of a table, and of one that has tables.
const TABLE: u64 = 512;
const TABLES: u64 = 512 * TABLE;

/// A hosted machine's memory, and CPUs that remember nothing of tables.
struct Forgetful(Hosted);

// SAFETY: frames are the hosted machine's; CPUs look at tables at each access.
unsafe impl Machine for Forgetful {
    type Platform = <Hosted as Machine>::Platform;
    type Format = X86_64;

    fn epoch(&self) -> &Domain<Self::Platform> {
        self.0.epoch()
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        self.0.allocate(frames)
    }

    unsafe fn free(&self, frames: &[Frame]) {
        // SAFETY: said by the caller.
        unsafe { self.0.free(frames) }
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        self.0.address(frame)
    }

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        self.0.frame_meta(frame)
    }

    unsafe fn shoot_down(&self, _: usize, on: &CpuSet, _: u64, _: Flush) {
        // Who is to be told is looked up in any case.
        std::hint::black_box(on.iter().count());
    }

    unsafe fn flush_local(&self, _: usize, _: u64, _: Flush) {}
}

/// A CPU in lines of its own, which a thread is.
#[repr(align(128))]
struct Own(Cpu<'static, Forgetful>);

/// A space and its machine, which is where it is for as long as anybody has the space.
struct OwnPages {
    cpus: ManuallyDrop<[Own; CPUS]>,
    space: ManuallyDrop<Space<'static, Forgetful>>,
    machine: NonNull<Forgetful>,
}

// SAFETY: the machine may be used by all threads, and each CPU is used by one, or while none makes calls.
unsafe impl Send for OwnPages {}
// SAFETY: as above.
unsafe impl Sync for OwnPages {}

impl Drop for OwnPages {
    fn drop(&mut self) {
        // SAFETY: nobody has the space and CPUs, and then the machine, any more.
        unsafe {
            ManuallyDrop::drop(&mut self.cpus);
            ManuallyDrop::drop(&mut self.space);
            drop(Box::from_raw(self.machine.as_ptr()));
        }
    }
}

impl Binding for OwnPages {
    fn model() -> impl Model {
        own_pages()
    }

    fn set_up(_: &Setup<'_>) -> Self {
        let machine = Box::new(Forgetful(Hosted::new(1024, CPUS)));
        let machine = NonNull::from(Box::leak(machine));
        // SAFETY: it stays until it is dropped above.
        let of: &'static Forgetful = unsafe { machine.as_ref() };
        // SAFETY: each is there once.
        let cpus = std::array::from_fn(|number| Own(unsafe { Cpu::new(of, number) }));
        let quota = Arc::new(Quota::new(of, 1 << 30).unwrap());
        let space = Space::with_quota(&cpus[CPUS - 1].0, quota).unwrap();
        Self { cpus: ManuallyDrop::new(cpus), space: ManuallyDrop::new(space), machine }
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let (number, space) = (call.thread() as u64, &*self.space);
        let cpu = &self.cpus[call.thread()].0;
        let (read, write) = (Protection::READ, Protection::READ_WRITE);
        let small = Pages::new(Page((number + 1) * TABLE + 7), 4);
        let large = Pages::new(Page((number + 1) * TABLES + 7), 64 * TABLE);
        let beside = Pages::new(Page(TABLE / 2 + 64 * number), 1);
        let spare = Pages::new(Page((number + 8) * TABLE), 4);
        let touch = |pages: Pages| space.populate(cpu, pages).unwrap();
        // Nodes, frames, lists and a share of the quota: nothing of the following is left.
        for pages in [spare, small, beside, large] {
            for _ in 0..3 {
                space.map(cpu, pages, write).unwrap();
                space.protect(cpu, pages, read).unwrap();
                touch(Pages::new(pages.start, pages.count().min(4)));
                space.unmap(cpu, pages).unwrap();
            }
        }
        let found = space.map_anywhere(cpu, 4, write).unwrap();
        touch(found);
        space.unmap(cpu, found).unwrap();

        let nothing = |result: Result<(), knee_vm::MapError>| {
            result.unwrap();
            Returned::Nothing
        };
        Some(match call.operation() {
            "map" => Box::new(move || nothing(space.map(cpu, small, write))),
            "map_large" => Box::new(move || nothing(space.map(cpu, large, write))),
            operation @ ("unmap" | "protect" | "discard" | "fault" | "query") => {
                space.map(cpu, small, write).unwrap();
                if operation != "fault" {
                    touch(small);
                }
                match operation {
                    "unmap" => Box::new(move || nothing(space.unmap(cpu, small))),
                    "protect" => Box::new(move || nothing(space.protect(cpu, small, read))),
                    "discard" => Box::new(move || nothing(space.discard(cpu, small))),
                    "query" => Box::new(move || {
                        assert_eq!(space.query(cpu, small.start), Some(write));
                        Returned::Nothing
                    }),
                    _ => Box::new(move || {
                        space.fault(cpu, small.start, write).unwrap();
                        Returned::Nothing
                    }),
                }
            }
            operation @ ("unmap_large" | "protect_large") => {
                space.map(cpu, large, write).unwrap();
                touch(Pages::new(large.start, 4));
                match operation {
                    "unmap_large" => Box::new(move || nothing(space.unmap(cpu, large))),
                    _ => Box::new(move || nothing(space.protect(cpu, large, read))),
                }
            }
            "map_anywhere" => {
                Box::new(move || nothing(space.map_anywhere(cpu, 4, write).map(drop)))
            }
            "unmap_anywhere" => {
                let pages = space.map_anywhere(cpu, 4, write).unwrap();
                touch(pages);
                Box::new(move || nothing(space.unmap(cpu, pages)))
            }
            "beside_fault" => {
                space.map(cpu, beside, write).unwrap();
                Box::new(move || {
                    space.fault(cpu, beside.start, write).unwrap();
                    Returned::Nothing
                })
            }
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<OwnPages>()
}
