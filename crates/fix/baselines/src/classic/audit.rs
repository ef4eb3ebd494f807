//! Consistency checks for tests.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use knee_vm::hosted::MmuContext;
use knee_vm::{Audit, Cpu, Entry, Format, Frame, Machine, Page, Pages, Protection};

use super::entries::Entries;
use super::map::Map;
use super::memory::Memory;
use super::space::{Space, for_each};
use super::strategies::Strategies;

impl<'m, M: Machine, S: Strategies> Space<'m, M, S> {
    /// Counts tables and pages. There must be no concurrent changes.
    ///
    /// # Panics
    /// If entries overlap, if tables contain pages that are not mapped, if tables grant more rights than the
    /// map, or if the reverse map differs from the tables.
    #[doc(hidden)]
    pub fn audit(&self, cpu: &Cpu<'m, M>) -> Audit {
        let mut entries = self.map.write(cpu);
        entries.exclude_faults();
        let mut found = Audit::default();
        let mut all: Vec<(Pages, Protection)> = Vec::new();
        for_each(&entries, |entry| {
            let (pages, protection) = (entry.pages, entry.protection);
            assert!(!pages.is_empty() && self.pages().covers(pages), "{pages:?}");
            assert!(all.last().is_none_or(|(before, _)| before.end <= pages.start), "{pages:?}");
            found.mapped += pages.count();
            all.push((pages, protection));
        });
        let frames = &self.memory.frames;
        frames.for_tables(&self.pmap, &mut |_| found.tables += 1);
        let mut seen = HashSet::new();
        for (page, frame) in self.present() {
            found.present += 1;
            assert!(seen.insert(frame), "two pages of the space have {frame:?}");
            let place = all.partition_point(|(pages, _)| pages.end <= page);
            let entry = all.get(place).filter(|(pages, _)| pages.contains(page));
            let (_, allowed) =
                entry.unwrap_or_else(|| panic!("page {page:#x} is present but not mapped"));
            let table = frames.find(&self.pmap, page).expect("the page is present");
            if let Entry::Page { protection, .. } = M::Format::read(table.load(Relaxed), 0) {
                assert!(
                    allowed.contains(protection),
                    "the tables allow {protection:?} for page {page:#x}"
                );
                let is_writable = protection.contains(Protection::WRITE);
                assert!(
                    !is_writable || !frames.is_shared(frame),
                    "page {page:#x} is writable and shared"
                );
            }
            let mappings = self.memory.mappings(cpu, frame);
            let ours = mappings.iter().filter(|found| **found == (self.number(), page)).count();
            assert_eq!(ours, 1, "page {page:#x} has {frame:?}, mapped at {mappings:x?}");
        }
        found
    }
}

impl<'m, M: Machine, S: Strategies> Memory<'m, M, S> {
    /// Compares the reverse map with all tables. There must be no concurrent changes.
    ///
    /// # Panics
    /// If the reverse map and the tables differ, or if `spaces` does not contain all spaces.
    #[doc(hidden)]
    pub fn audit(&self, cpu: &Cpu<'m, M>, spaces: &[&Space<'m, M, S>]) {
        let mut walked: Vec<BTreeSet<(u64, Page)>> = Vec::new();
        walked.resize_with(self.frames.records().len(), BTreeSet::new);
        for space in spaces {
            for (page, frame) in space.present() {
                walked[frame.0 as usize].insert((space.number(), page));
            }
        }
        for (number, walked) in walked.into_iter().enumerate() {
            let frame = Frame(number as u64);
            let found = self.mappings(cpu, frame);
            let count = self.frames.record(frame).count.load(Relaxed) as usize;
            assert_eq!((count, found.len()), (walked.len(), walked.len()), "{frame:?}");
            assert_eq!(BTreeSet::from_iter(found), walked, "{frame:?}");
        }
    }
}
