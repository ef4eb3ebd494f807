//! A balanced tree under one lock: `vm_map` of the BSDs, and `mm_struct` of Linux until 6.0.
//!
//! Changes take the lock for writing. Faults take the lock for reading, so all faults write to the lock's
//! cache line.

use std::collections::BTreeMap;

use knee_vm::{Cpu, Machine, Page, Pages, Protection};

use super::entries::{Entries, Entry, View};
use super::gap_cache::GapCache;
use super::lock::{Shared, Writing};
use super::map::{Map, MapKind};
use super::on_cpu::OnCpu;
use super::reverse::Reverse;

/// A map with a balanced tree under `mmap_lock`.
#[derive(Debug)]
pub enum Tree {}

impl MapKind for Tree {
    type Map<R: Reverse> = TreeMap<R>;
}

/// The map of [`Tree`].
#[derive(Debug)]
pub struct TreeMap<R: Reverse>(Shared<Areas<R>>);

/// Entries, ordered by their first page.
#[derive(Debug)]
struct Areas<R: Reverse> {
    tree: BTreeMap<Page, Area<R>>,
    cache: GapCache,
}

#[derive(Debug)]
struct Area<R: Reverse> {
    end: Page,
    protection: Protection,
    backing: R::Backing,
}

impl<R: Reverse> Map<R> for TreeMap<R> {
    type Writing<'a, 'm: 'a, M: Machine>
        = Held<'a, R>
    where
        M: 'm;

    fn new() -> TreeMap<R> {
        TreeMap(Shared::new(Areas { tree: BTreeMap::new(), cache: GapCache::default() }))
    }

    #[inline]
    fn with_entry<M: Machine, T>(
        &self,
        cpu: &Cpu<'_, M>,
        page: Page,
        with: impl FnOnce(Protection, &R::Backing) -> T,
    ) -> Option<T> {
        let areas = self.0.read(&OnCpu::of(cpu));
        let (_, area) = areas.tree.range(..=page).next_back()?;
        (page < area.end).then(|| with(area.protection, &area.backing))
    }

    #[inline]
    fn write<'a, 'm, M: Machine + 'm>(&'a self, cpu: &'a Cpu<'m, M>) -> Held<'a, R> {
        Held(self.0.write(&OnCpu::of(cpu)))
    }

    fn read<M: Machine, T>(&self, cpu: &Cpu<'_, M>, with: impl FnOnce() -> T) -> T {
        let _areas = self.0.read(&OnCpu::of(cpu));
        with()
    }

    fn clear(&mut self, mut end: impl FnMut(u64, R::Backing)) {
        while let Some((start, area)) = self.0.get_mut().tree.pop_first() {
            end(area.end - start, area.backing);
        }
    }
}

/// A [`TreeMap`] that is locked for writing.
#[derive(Debug)]
pub struct Held<'a, R: Reverse>(Writing<'a, Areas<R>>);

impl<R: Reverse> Held<'_, R> {
    fn area(&mut self, start: Page) -> &mut Area<R> {
        self.0.tree.get_mut(&start).expect("an entry begins there")
    }
}

fn view<'a, R: Reverse>((&start, area): (&Page, &'a Area<R>)) -> View<'a, R> {
    let pages = Pages { start, end: area.end };
    View { pages, protection: area.protection, backing: &area.backing }
}

impl<R: Reverse> Entries<R> for Held<'_, R> {
    #[inline]
    fn up_to(&self, page: Page) -> Option<View<'_, R>> {
        self.0.tree.range(..=page).next_back().map(view)
    }

    #[inline]
    fn from(&self, page: Page) -> Option<View<'_, R>> {
        self.0.tree.range(page..).next().map(view)
    }

    #[inline]
    fn insert(&mut self, Entry { pages, protection, backing }: Entry<R>) {
        self.0.tree.insert(pages.start, Area { end: pages.end, protection, backing });
    }

    #[inline]
    fn remove(&mut self, start: Page) -> R::Backing {
        self.0.tree.remove(&start).expect("an entry begins there").backing
    }

    #[inline]
    fn set_end(&mut self, start: Page, end: Page) {
        self.area(start).end = end;
    }

    fn set_start(&mut self, start: Page, new: Page) {
        let area = self.0.tree.remove(&start).expect("an entry begins there");
        self.0.tree.insert(new, area);
    }

    fn set_protection(&mut self, start: Page, protection: Protection) {
        self.area(start).protection = protection;
    }

    fn gap(&mut self, pages: Pages, count: u64) -> Option<Page> {
        let Areas { tree, cache } = &mut *self.0;
        cache.find(pages, count, |from, with| {
            let first = tree.range(..from).next_back();
            let others = tree.range(from..);
            let all = first.into_iter().chain(others).map(|entry| view(entry).pages);
            all.map(with).find(|goes_on| !goes_on);
        })
    }

    fn unmapped(&mut self, start: Page) {
        let before = self.0.tree.range(..start).next_back();
        let gap = before.map_or(Page(0), |(_, before)| before.end);
        self.0.cache.unmapped(gap);
    }

    /// The write lock already excludes faults, which lock the map for reading.
    fn exclude_faults(&mut self) {}

    fn downgrade<T>(self, with: impl FnOnce() -> T) -> T {
        let _areas = self.0.downgrade();
        with()
    }
}
