//! A task of this family: a CPU of a machine and an address space that all tasks share.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use knee_baselines::AddressSpace;
use knee_run::{Count, Outcome, Task, TaskError};
use knee_vm::hosted::Hosted;
use knee_vm::{Object, PAGE, Pages, Protection, Quota, Sharing, Space, VirtAddr};

use super::choices::LAZY;
use super::memory::{Cpu, LIMIT, Memory};
use super::older;

/// Frames of each task beside those of its pages and their tables: what a CPU keeps for itself,
/// tables of pages that were mapped before, and upper ones.
const FRAMES: usize = 512;
/// Entries of a page table.
const PAGES_OF_TABLE: usize = 512;

/// A CPU in a space.
pub(super) struct User<S: ?Sized + 'static = dyn Memory> {
    cpu: Cpu,
    space: &'static S,
}

/// Frames of a machine with memory for as many `bytes` for each task.
fn frames(task: &Task<'_>, bytes: usize) -> usize {
    let pages = bytes.div_ceil(PAGE);
    task.tasks * (pages + pages.div_ceil(PAGES_OF_TABLE) + FRAMES)
}

/// The CPU that this task is.
fn cpu(task: &Task<'_>, bytes: usize) -> Cpu {
    static MACHINE: OnceLock<Hosted> = OnceLock::new();
    MACHINE.get_or_init(|| Hosted::new(frames(task, bytes), task.tasks)).cpu(task.nr)
}

impl User {
    /// The CPU that this task is, in a space of the design that is asked for. The machine has as
    /// many `bytes` for each task.
    pub(super) fn new(task: &Task<'_>, bytes: usize) -> Result<Self, TaskError> {
        static SPACE: OnceLock<Result<Box<dyn Memory>, TaskError>> = OnceLock::new();
        let cpu = cpu(task, bytes);
        let space = SPACE.get_or_init(|| match task.settings.value("map") {
            Some("tree" | "rcu") => older::space(task.settings, &cpu, frames(task, bytes)),
            _ => {
                let space = own_space(&cpu);
                space.set_lazy(task.has(LAZY));
                Ok(Box::new(space))
            }
        });
        Ok(Self { cpu, space: space.as_deref().map_err(Clone::clone)? })
    }
}

impl User<Space<'static, Hosted>> {
    /// The same for testcases that map objects, which the older designs do not have.
    pub(super) fn with_objects(task: &Task<'_>, bytes: usize) -> Self {
        static SPACE: OnceLock<Space<'static, Hosted>> = OnceLock::new();
        let cpu = cpu(task, bytes);
        let space = SPACE.get_or_init(|| own_space(&cpu));
        Self { cpu, space }
    }

    /// An object of `bytes` bytes, none of which has been accessed.
    pub(super) fn object(&self, bytes: usize) -> Result<Object<'static, Hosted>, TaskError> {
        let object = Object::new(&self.cpu, bytes.div_ceil(PAGE) as u64);
        during(object, "make an object")
    }

    /// The same with all of its pages in memory, because the first access to a page of an object
    /// does more work than later ones.
    pub(super) fn object_in_memory(
        &self,
        bytes: usize,
    ) -> Result<Object<'static, Hosted>, TaskError> {
        let object = self.object(bytes)?;
        let region = self.map_object(&object, Sharing::Shared)?;
        region.write_to_all()?;
        region.unmap()?;
        Ok(object)
    }

    /// Maps the object where there is room.
    #[inline]
    pub(super) fn map_object(
        &self,
        object: &Object<'static, Hosted>,
        sharing: Sharing,
    ) -> Result<Region<'_, Space<'static, Hosted>>, TaskError> {
        let (count, write) = (object.pages(), Protection::READ_WRITE);
        let pages = self.space.map_object_anywhere(&self.cpu, count, object, 0, write, sharing);
        Ok(self.region(during(pages, "map an object")?))
    }
}

fn own_space(cpu: &Cpu) -> Space<'static, Hosted> {
    let quota = Quota::new(cpu.machine(), LIMIT).map(Arc::new);
    let space = quota.and_then(|quota| Space::with_quota(cpu, quota));
    space.expect("a machine has frames for the root of a space")
}

impl<S: AddressSpace<'static, Hosted> + ?Sized> User<S> {
    /// [`Task::start`]. The CPU is idle until the gate opens, so that others need not wait for it.
    pub(super) fn start<'a>(&mut self, task: &'a Task<'_>) -> Count<'a> {
        self.cpu.offline(|| task.start())
    }

    /// [`Task::repeat`].
    #[inline]
    pub(super) fn repeat(
        mut self,
        task: &Task<'_>,
        mut iteration: impl FnMut(&Self) -> Result<(), TaskError>,
    ) -> Outcome {
        let mut count = self.start(task);
        loop {
            iteration(&self)?;
            count.add(1);
        }
    }

    /// Maps memory where there is room.
    #[inline]
    pub(super) fn map(&self, bytes: usize) -> Result<Region<'_, S>, TaskError> {
        let pages =
            self.space.map_anywhere(&self.cpu, bytes.div_ceil(PAGE) as u64, Protection::READ_WRITE);
        Ok(self.region(during(pages, "map")?))
    }

    /// Maps memory at `address`, which must be free.
    #[inline]
    pub(super) fn map_at(&self, address: usize, bytes: usize) -> Result<Region<'_, S>, TaskError> {
        let first = VirtAddr(address as u64).page();
        let pages = Pages::new(first, bytes.div_ceil(PAGE) as u64);
        during(self.space.map(&self.cpu, pages, Protection::READ_WRITE), "map at a fixed address")?;
        Ok(self.region(pages))
    }

    fn region(&self, pages: Pages) -> Region<'_, S> {
        Region { cpu: &self.cpu, space: self.space, pages }
    }

    pub(super) fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    pub(super) fn space(&self) -> &'static S {
        self.space
    }
}

/// What went wrong, and with what.
#[inline]
pub(super) fn during<T, E: Display>(result: Result<T, E>, what: &str) -> Result<T, TaskError> {
    result.map_err(|error| TaskError::found(format!("{what}: {error}")))
}

/// A mapping that a testcase makes, touches and unmaps.
pub(super) struct Region<'a, S: ?Sized> {
    cpu: &'a Cpu,
    space: &'a S,
    pages: Pages,
}

impl<S: AddressSpace<'static, Hosted> + ?Sized> Region<'_, S> {
    fn address(&self, offset: usize) -> VirtAddr {
        self.pages.start.address() + offset as u64
    }

    /// The same in a space that was forked.
    pub(super) fn of<'a>(&'a self, space: &'a S) -> Region<'a, S> {
        Region { space, ..*self }
    }

    #[inline]
    pub(super) fn write(&self, offset: usize, value: u64) -> Result<(), TaskError> {
        during(self.cpu.store(self.space, self.address(offset), value), "write")
    }

    #[inline]
    pub(super) fn write_to_all(&self) -> Result<(), TaskError> {
        (0..self.pages.count() as usize).try_for_each(|page| self.write(page * PAGE, 0))
    }

    #[inline]
    pub(super) fn read(&self, offset: usize) -> Result<u64, TaskError> {
        during(self.cpu.load(self.space, self.address(offset)), "read")
    }

    /// `MADV_DONTNEED` on the page at `offset`.
    #[inline]
    pub(super) fn discard(&self, offset: usize) -> Result<(), TaskError> {
        let page = Pages::new(self.address(offset).page(), 1);
        during(self.space.discard(self.cpu, page), "discard")
    }

    #[inline]
    pub(super) fn protect(&self, protection: Protection) -> Result<(), TaskError> {
        during(self.space.protect(self.cpu, self.pages, protection), "protect")
    }

    #[inline]
    pub(super) fn unmap(self) -> Result<(), TaskError> {
        during(self.space.unmap(self.cpu, self.pages), "unmap")
    }
}
