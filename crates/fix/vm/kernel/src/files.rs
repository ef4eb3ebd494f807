//! Files and descriptors, as far as `mmap` needs them. The set-up of a test opens files; no system call does.

use alloc::vec::Vec;
use core::array;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use knee_plan::MOST;
use knee_vm::{Object, Page, Pages, Protection, Sharing};

use crate::cpu::current;
use crate::late::Late;
use crate::machine::{Board, Space};

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct File(u8);

/// The number of files, and the number of lengths that a file can have.
const FILES: usize = MOST;
const LENGTHS: usize = MOST + 1;

/// For each file, an object for each length that the file can have. All of these objects exist before the
/// first test, like the caches of a kernel that has run for a while.
static OBJECTS: Late<Vec<Object<'static, Board>>> = Late::new();
/// The space through which the kernel writes files.
static WINDOW: Late<Space> = Late::new();
/// Where this space maps a page of a file.
const AT: Page = Page(1);

/// Creates the files.
///
/// # Safety
/// Must be called at most once.
pub(crate) unsafe fn init() {
    let objects = (0..FILES * LENGTHS).map(|index| {
        let length = (index % LENGTHS) as u64;
        Object::new(current(), length).expect("there is memory")
    });
    let space = Space::new(current()).expect("there is memory");
    // SAFETY: the caller guarantees that `init` is called at most once, and nothing else sets these statics.
    unsafe {
        OBJECTS.set(objects.collect());
        WINDOW.set(space);
    }
}

/// The pages of a file.
pub(crate) fn object(file: File) -> &'static Object<'static, Board> {
    &OBJECTS.get().expect("`init` was called")[usize::from(file.0)]
}

/// Makes each page of the file with this number begin with the given byte. Returns `None` if there is no file
/// with this number, or if files cannot have that many pages.
pub(crate) fn make(number: usize, pages: impl ExactSizeIterator<Item = u8>) -> Option<File> {
    if number >= FILES || pages.len() >= LENGTHS {
        return None;
    }
    let file = File((number * LENGTHS + pages.len()) as u8);
    let (window, at) = (WINDOW.get().expect("`init` was called"), Pages::new(AT, 1));
    for (index, byte) in (0..).zip(pages) {
        let (write, shared) = (Protection::READ_WRITE, Sharing::Shared);
        let mapped = window.map_object(current(), at, object(file), index, write, shared);
        mapped.expect("the page is free, and there is memory");
        window.write(current(), AT.address(), &[byte]).expect("the file has this page");
        window.unmap(current(), at).expect("no page is pinned");
    }
    Some(file)
}

/// What a descriptor refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    File(File),
    /// The ends of a pipe.
    ReadEnd,
    WriteEnd,
}

/// The descriptors of a process. No system call opens or closes a descriptor, so calls do not conflict on
/// descriptors.
pub(crate) struct Descriptors([AtomicU8; 64]);

const CLOSED: u8 = 0;
const READ_END: u8 = 1;
const WRITE_END: u8 = 2;
const FIRST_FILE: u8 = 3;
const _: () = assert!(FILES * LENGTHS + FIRST_FILE as usize <= u8::MAX as usize);

impl Default for Descriptors {
    fn default() -> Descriptors {
        Descriptors(array::from_fn(|_| AtomicU8::new(CLOSED)))
    }
}

impl Descriptors {
    /// What a descriptor refers to, if it is open.
    pub(crate) fn get(&self, descriptor: u64) -> Option<Open> {
        let slot = self.0.get(usize::try_from(descriptor).ok()?)?;
        Some(match slot.load(Relaxed) {
            CLOSED => return None,
            READ_END => Open::ReadEnd,
            WRITE_END => Open::WriteEnd,
            file => Open::File(File(file - FIRST_FILE)),
        })
    }

    /// Opens or closes a descriptor. Does nothing if the table has no slot for the descriptor: no call uses
    /// such a descriptor.
    pub(crate) fn set(&self, descriptor: i32, open: Option<Open>) {
        let slot = usize::try_from(descriptor).ok().and_then(|number| self.0.get(number));
        let value = match open {
            None => CLOSED,
            Some(Open::ReadEnd) => READ_END,
            Some(Open::WriteEnd) => WRITE_END,
            Some(Open::File(file)) => FIRST_FILE + file.0,
        };
        slot.into_iter().for_each(|slot| slot.store(value, Relaxed));
    }

    /// Closes all descriptors.
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|slot| slot.store(CLOSED, Relaxed));
    }
}
