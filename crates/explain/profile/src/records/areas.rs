//! The code areas of one process at one time, and how many areas all processes have together.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use rangemap::RangeMap;

/// A file, whatever its path is and in which mount namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    /// Major and minor number of its device.
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
}

/// A file of code, as a process has mapped it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeFile<'a> {
    /// Its path in the mount namespace of the process, or the kernel's name for memory without a file.
    pub(crate) path: &'a str,
    /// `None` if it is not known.
    pub(crate) id: Option<FileId>,
}

#[cfg(test)]
impl<'a> From<&'a str> for CodeFile<'a> {
    fn from(path: &'a str) -> Self {
        Self { path, id: None }
    }
}

/// Code that is mapped from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapped {
    /// A path, or the kernel's name for memory without a file.
    pub(super) file: Rc<str>,
    pub(super) id: Option<FileId>,
    /// The difference of an offset in the file and its address.
    pub(super) shift: u64,
}

/// Areas, which count into a total with those of all other values that share this total.
#[derive(Debug)]
pub(super) struct Areas {
    mapped: RangeMap<u64, Mapped>,
    total: Rc<Cell<usize>>,
}

impl Areas {
    /// No areas.
    pub(super) fn none(total: &Rc<Cell<usize>>) -> Areas {
        Areas { mapped: RangeMap::new(), total: Rc::clone(total) }
    }

    /// Adds an area, which must not be empty, and removes what it covers.
    pub(super) fn insert(&mut self, area: Range<u64>, mapped: Mapped) {
        let others = self.total.get() - self.mapped.len();
        self.mapped.insert(area, mapped);
        self.total.set(others + self.mapped.len());
    }

    pub(super) fn get(&self, address: u64) -> Option<&Mapped> {
        self.mapped.get(&address)
    }

    pub(super) fn len(&self) -> usize {
        self.mapped.len()
    }
}

impl Clone for Areas {
    fn clone(&self) -> Areas {
        self.total.set(self.total.get() + self.mapped.len());
        Areas { mapped: self.mapped.clone(), total: Rc::clone(&self.total) }
    }
}

impl Drop for Areas {
    fn drop(&mut self) {
        self.total.set(self.total.get() - self.mapped.len());
    }
}
