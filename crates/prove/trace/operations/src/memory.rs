//! Operations on the memory of an address space.

use crate::operation::Operation;
use crate::random::Random;

/// The size of a page in bytes.
pub const PAGE: usize = 4096;
/// The address of the first task's page, far from all other mappings of a program.
pub const PAGES_AT: usize = 0x1234_5600_0000;
/// The distance between the pages of two tasks, in bytes. Each page has its own page table: in one
/// table, the entries of two pages might share a cache line merely because of their positions.
pub const PAGES_APART: usize = 2 << 20;

/// The address of the page with this number: a page of a test, or the page of a task.
pub fn page_at(nr: u8) -> usize {
    PAGES_AT + usize::from(nr) * PAGES_APART
}

/// The distance from a task's page to its second page, in bytes. One page table maps both pages.
const NEIGHBOUR: usize = PAGES_APART / 2;
/// The parameters of the testcases `page_fault1` and `mmap_churn1`: the memory in bytes, the number of
/// mappings, and the size of the largest mapping in KiB.
const REGION: usize = 128 << 20;
const MAPS: usize = 1024;
const LARGEST: u32 = 32;
/// The size of a huge page, and of the memory of `huge_fault`, in bytes. Linux refuses to map more memory
/// than the guest has.
const HUGE: usize = 2 << 20;
const HUGE_REGION: usize = 512 << 20;

/// The names of [`Operation::MEMORY`].
pub const MEMORY_NAMES: [&str; 9] = [
    "mmap",
    "munmap",
    "mprotect",
    "memread",
    "memwrite",
    "huge_fault",
    "page_fault1",
    "mmap_churn1",
    "mmap_churn2",
];

/// The system calls and memory accesses of a kernel's programs.
pub trait Calls {
    /// Why a call failed.
    type Error;

    /// Maps a writable page at this address, and replaces an existing mapping.
    fn map_page(&mut self, at: usize) -> Result<(), Self::Error>;
    /// Maps writable memory at an address that the kernel chooses. Returns the address.
    fn map(&mut self, bytes: usize) -> Result<usize, Self::Error>;
    /// Unmaps memory.
    fn unmap(&mut self, at: usize, bytes: usize) -> Result<(), Self::Error>;
    /// Makes a page writable or read-only.
    fn protect_page(&mut self, at: usize, writable: bool) -> Result<(), Self::Error>;
    /// Discards pages, so that the next access allocates new ones.
    fn discard(&mut self, at: usize, bytes: usize) -> Result<(), Self::Error>;
    /// Loads from an address. Fails if the memory is not readable.
    fn load(&mut self, at: usize) -> Result<(), Self::Error>;
    /// Stores to an address. Fails if the memory is not writable.
    fn store(&mut self, at: usize) -> Result<(), Self::Error>;
    /// Makes sure that memory consists of pages of [`PAGE`] bytes.
    fn avoid_huge_pages(&mut self) -> Result<(), Self::Error>;
    /// Makes sure that the kernel may use huge pages for this memory.
    fn allow_huge_pages(&mut self, at: usize, bytes: usize) -> Result<(), Self::Error>;
    /// The error when memory has run out.
    fn out_of_memory() -> Self::Error;
}

/// The objects of a task, which include its [`Memory`].
pub trait Owner {
    /// The kernel's calls.
    type Calls: Calls;

    /// The task's memory.
    fn memory(&mut self) -> &mut Memory<Self::Calls>;
}

/// The memory of a task.
pub struct Memory<C> {
    calls: C,
    /// The number of tasks in the address space.
    tasks: usize,
    /// The address of the task's page.
    at: usize,
    /// The part of the task's region to which the task has not written yet.
    region: Map,
    maps: [Map; MAPS],
    /// The number of mappings in `maps`.
    count: usize,
    random: Random,
}

#[derive(Clone, Copy)]
struct Map {
    at: usize,
    bytes: usize,
}

impl<C: Calls> Memory<C> {
    /// Returns the memory of task `nr`; `tasks` is the number of tasks in its address space.
    pub fn new(calls: C, nr: usize, tasks: usize) -> Memory<C> {
        let none = Map { at: 0, bytes: 0 };
        Memory {
            calls,
            tasks,
            at: PAGES_AT + nr * PAGES_APART,
            region: none,
            maps: [none; MAPS],
            count: 0,
            random: Random::new(nr as u64),
        }
    }

    fn map_page(&mut self) -> Result<(), C::Error> {
        self.calls.map_page(self.at)
    }

    /// Maps and writes a second page, so that the page table of the task's page stays allocated.
    fn map_neighbour(&mut self) -> Result<(), C::Error> {
        self.calls.map_page(self.at + NEIGHBOUR)?;
        self.calls.store(self.at + NEIGHBOUR)
    }

    fn map_written_page(&mut self) -> Result<(), C::Error> {
        self.map_page()?;
        self.write_page()
    }

    fn unmap_page(&mut self) -> Result<(), C::Error> {
        self.calls.unmap(self.at, PAGE)
    }

    fn protect_page(&mut self, writable: bool) -> Result<(), C::Error> {
        self.calls.protect_page(self.at, writable)
    }

    fn discard_page(&mut self) -> Result<(), C::Error> {
        self.calls.discard(self.at, PAGE)
    }

    fn read_page(&mut self) -> Result<(), C::Error> {
        self.calls.load(self.at)
    }

    fn write_page(&mut self) -> Result<(), C::Error> {
        self.calls.store(self.at)
    }

    /// Maps the task's region, without huge pages.
    fn map_region(&mut self) -> Result<(), C::Error> {
        self.calls.avoid_huge_pages()?;
        self.region = Map { at: self.calls.map(REGION)?, bytes: REGION };
        Ok(())
    }

    /// Writes to the next page of the task's region.
    fn write_next_page(&mut self) -> Result<(), C::Error> {
        let Map { at, bytes } = self.region;
        let rest = bytes.checked_sub(PAGE).ok_or_else(C::out_of_memory)?;
        self.calls.store(at)?;
        self.region = Map { at: at + PAGE, bytes: rest };
        Ok(())
    }

    /// Maps the task's region, with huge pages.
    fn map_huge_region(&mut self) -> Result<(), C::Error> {
        let at = self.calls.map(HUGE_REGION + HUGE)?.next_multiple_of(HUGE);
        self.calls.allow_huge_pages(at, HUGE_REGION)?;
        self.region = Map { at, bytes: HUGE_REGION };
        Ok(())
    }

    /// Discards the first huge page of the region, and continues with the next one.
    fn leave_huge_page(&mut self) -> Result<(), C::Error> {
        let Map { at, bytes } = self.region;
        self.calls.discard(at, HUGE)?;
        self.region = match bytes - HUGE {
            0 => Map { at: at + HUGE - HUGE_REGION, bytes: HUGE_REGION },
            rest => Map { at: at + HUGE, bytes: rest },
        };
        Ok(())
    }

    /// Adds random mappings.
    fn fill(&mut self, maps: usize) -> Result<(), C::Error> {
        (0..maps).try_for_each(|_| self.add_map())
    }

    /// Unmaps a random mapping of the task, and maps a new one.
    fn churn(&mut self) -> Result<(), C::Error> {
        let place = self.random.below(self.count as u32) as usize;
        let Map { at, bytes } = self.maps[place];
        self.count -= 1;
        self.maps[place] = self.maps[self.count];
        self.calls.unmap(at, bytes)?;
        self.add_map()
    }

    /// Maps memory of a random size.
    fn add_map(&mut self) -> Result<(), C::Error> {
        let bytes = (1 + self.random.below(LARGEST) as usize) << 10;
        self.maps[self.count] = Map { at: self.calls.map(bytes)?, bytes };
        self.count += 1;
        Ok(())
    }
}

impl<O: Owner> Operation<O, <O::Calls as Calls>::Error> {
    /// All operations on memory.
    pub const MEMORY: [Self; 9] = [
        Self::MMAP,
        Self::MUNMAP,
        Self::MPROTECT,
        Self::MEMREAD,
        Self::MEMWRITE,
        Self::HUGE_FAULT,
        Self::PAGE_FAULT1,
        Self::MMAP_CHURN1,
        Self::MMAP_CHURN2,
    ];

    /// Maps a page.
    pub const MMAP: Self = Operation {
        set_up: |own| own.memory().map_neighbour(),
        restore: |own| own.memory().unmap_page(),
        ..Self::plain("mmap", "map a page of memory at a private address", |own| {
            own.memory().map_page()
        })
    };

    /// Unmaps a page.
    pub const MUNMAP: Self = Operation {
        set_up: |own| own.memory().map_neighbour(),
        prepare: |own| own.memory().map_written_page(),
        ..Self::plain("munmap", "unmap a written page", |own| own.memory().unmap_page())
    };

    /// Makes a page read-only.
    pub const MPROTECT: Self = Operation {
        set_up: set_up_page::<O>,
        restore: |own| own.memory().protect_page(true),
        ..Self::plain("mprotect", "make a written page read-only", |own| {
            own.memory().protect_page(false)
        })
    };

    /// Reads a page.
    pub const MEMREAD: Self = Operation {
        set_up: set_up_page::<O>,
        prepare: |own| own.memory().discard_page(),
        ..Self::plain("memread", "read from a page of memory for the first time", |own| {
            own.memory().read_page()
        })
    };

    /// Writes a page.
    pub const MEMWRITE: Self = Operation {
        set_up: set_up_page::<O>,
        prepare: |own| own.memory().discard_page(),
        ..Self::plain("memwrite", "write to a page of memory for the first time", |own| {
            own.memory().write_page()
        })
    };

    /// Writes a huge page.
    pub const HUGE_FAULT: Self = Operation {
        set_up: |own| own.memory().map_huge_region(),
        restore: |own| own.memory().leave_huge_page(),
        ..Self::plain(
            "huge_fault",
            "write to the next huge page (2 MiB) of 512 MB of memory",
            |own| {
                let memory = own.memory();
                memory.calls.store(memory.region.at)
            },
        )
    };

    /// Writes a page of a large region.
    pub const PAGE_FAULT1: Self = Operation {
        set_up: |own| own.memory().map_region(),
        ..Self::plain("page_fault1", "write to the next page of 128 MB of memory", |own| {
            own.memory().write_next_page()
        })
    };

    /// Replaces a mapping. The tasks of an address space share 1,024 mappings.
    pub const MMAP_CHURN1: Self = Operation {
        set_up: |own| {
            let memory = own.memory();
            memory.fill((MAPS / memory.tasks).max(1))
        },
        ..Self::plain(
            "mmap_churn1",
            "unmap one of 1024 mappings (1 to 32 KiB) of an address space, and map a new one",
            |own| own.memory().churn(),
        )
    };

    /// Replaces a mapping. Each task has 1,024 mappings.
    pub const MMAP_CHURN2: Self = Operation {
        set_up: |own| own.memory().fill(MAPS),
        ..Self::plain(
            "mmap_churn2",
            "unmap one of the task's 1024 mappings (1 to 32 KiB), and map a new one",
            |own| own.memory().churn(),
        )
    };
}

/// Maps the page to which operations refer, and writes to it.
fn set_up_page<O: Owner>(own: &mut O) -> Result<(), <O::Calls as Calls>::Error> {
    own.memory().map_neighbour()?;
    own.memory().map_written_page()
}
