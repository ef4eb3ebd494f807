//! Uses the kernel's types to name fields and the contents of slabs and pages.

use std::collections::{HashMap, HashSet};

use super::btf::{Btf, TypeId};
use super::fields::{Field, Place, field};
use super::learned::CodeHistory;
use super::memory::{Memory, PAGE_BYTES};
use super::pages::{Page, Pages};
use super::propagate::{Known, Scan};
use super::role;
use super::slab::{Cache, Caches};
use super::statics::Statics;
use super::symbols::Symbols;

/// Maximum number of searches of memory for pointers to unknown objects.
const MAX_SCANS: usize = 50;
/// Structs that are nodes of a tree. A field of a node does not show what the tree is used for, so the whole
/// node has one name.
const WHOLE_STRUCTS: &[&str] = &["maple_node", "xa_node"];

/// The kernel's types, and what is known about objects and pages from searches and from earlier accesses.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) btf: Btf,
    pub(super) pages: Option<Pages>,
    pub(super) caches: Option<Caches>,
    pub(super) statics: Statics,
    /// Pages and objects of general caches, as found by the last search.
    known: HashMap<u64, Known>,
    /// For each slab cache and code address: the objects of the cache that the code has accessed. This
    /// history identifies objects that have since been freed.
    objects_of_code: CodeHistory<(u64, u64), Known>,
    /// For each code address: the use of the pages that the code has accessed. This history names pages that
    /// have since been freed.
    pub(super) pages_of_code: CodeHistory<u64, String>,
    /// The keys of the earlier searches: slab cache, offset in an object, addresses of code.
    searched: HashSet<(u64, u64, Vec<u64>)>,
    /// Fields, by type, offset and alternative.
    fields: HashMap<(TypeId, u64, Option<&'static str>), Field>,
}

/// The name of the data at an address. The name applies to the `bytes` bytes that begin at this address.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// If the data are a field of a struct: where it is defined.
    pub(super) place: Option<Place>,
}

impl Types {
    pub(super) fn new(memory: &Memory, symbols: &Symbols, btf: Btf) -> Types {
        Types {
            pages: Pages::new(&btf),
            caches: Caches::new(&btf),
            statics: Statics::new(memory, symbols, &btf),
            btf,
            known: HashMap::new(),
            objects_of_code: CodeHistory::default(),
            pages_of_code: CodeHistory::default(),
            searched: HashSet::new(),
            fields: HashMap::new(),
        }
    }

    /// The field of a type that contains the byte at `offset`; see [`field`].
    pub(super) fn field(
        &mut self,
        of: TypeId,
        offset: u64,
        alternative: Option<&'static str>,
    ) -> Named {
        let btf = &self.btf;
        let field = self
            .fields
            .entry((of, offset, alternative))
            .or_insert_with(|| field(btf, of, offset, alternative));
        let (name, place) = (field.path.clone(), Some(field.place));
        Named { name, bytes: field.end - offset, place }
    }

    /// Names the byte at `physical`, which is in a slab. `cache_at` is the virtual address of the
    /// slab's cache, and `first` is the physical address of the slab's first byte.
    pub(super) fn object(
        &mut self,
        memory: &Memory,
        (cache_at, first): (u64, u64),
        physical: u64,
        code: &[u64],
    ) -> Named {
        let cache = self.caches.as_mut().and_then(|caches| caches.get(memory, &self.btf, cache_at));
        let Some(cache) = cache.cloned() else { return whole("slab object") };
        let begin = first + cache.object_at(physical - first);
        let Some(offset) = physical.checked_sub(begin) else { return whole("slab padding") };
        let object = memory.direct(begin);
        let known = match cache.of {
            Some(of) => Some(Known::Struct(of)),
            None => {
                // All objects of a dedicated cache have the same type. So the key contains no offset, and
                // memory is searched only once for such a cache.
                let offset = if cache.is_general() { Some(offset) } else { None };
                self.known_object(memory, object, (cache_at, offset), code)
            }
        };
        match known {
            Some(Known::Struct(of)) if WHOLE_STRUCTS.contains(&self.btf.name(of)) => {
                Named::at(self.btf.name(of), cache.object.saturating_sub(offset))
            }
            Some(Known::Struct(of)) => {
                let role = role::of(memory, &self.btf, object, of);
                let field = self.field(of, offset, role.and_then(role::own_field));
                field.with(role.unwrap_or_default())
            }
            Some(Known::Structs(of)) => self.field(of, offset % self.btf.bytes(of).max(1), None),
            Some(Known::Elements(name)) => {
                Named::at(format!("{name}[]"), cache.object.saturating_sub(offset))
            }
            Some(Known::Begin(of)) if offset < self.btf.bytes(of) => self.field(of, offset, None),
            Some(Known::Begin(of)) => {
                let name = format!("what follows {}", self.btf.name(of));
                Named::at(name, cache.object.saturating_sub(offset))
            }
            opaque @ (Some(Known::Opaque(_) | Known::Page(_)) | None) => {
                let name = match opaque {
                    Some(Known::Opaque(field)) if cache.is_general() => format!("*{field}"),
                    _ => cache.name,
                };
                let word = offset & !7;
                let place = if word == 0 { String::new() } else { format!("+{word:#x}") };
                Named::at(format!("{name}{place}"), 8 - offset % 8)
            }
        }
    }

    /// Whether all objects of the slab cache with this address begin at the same offset in a cache
    /// line. Returns true if there is no valid slab cache at this address.
    pub(super) fn keeps_lines(&mut self, memory: &Memory, cache: u64) -> bool {
        let caches = self.caches.as_mut();
        let cache = caches.and_then(|caches| caches.get(memory, &self.btf, cache));
        cache.is_none_or(Cache::keeps_lines)
    }

    /// Identifies an object whose cache has no known type. `object` may have been freed since it was accessed.
    /// So if the same code has accessed an object of this cache before, and the type of that object is known,
    /// the function assumes that `object` has the same type.
    fn known_object(
        &mut self,
        memory: &Memory,
        object: u64,
        (cache, offset): (u64, Option<u64>),
        code: &[u64],
    ) -> Option<Known> {
        let keys = || code.iter().map(|code| (cache, *code));
        if let Some(known) = self.objects_of_code.recall(keys()) {
            return Some(known.clone());
        }
        let code_of_offset = offset.map_or(Vec::new(), |_| code.to_vec());
        self.search(memory, (cache, offset.unwrap_or(0), code_of_offset));
        let known = self.known.get(&object)?.clone();
        if !matches!(known, Known::Opaque(_)) {
            self.objects_of_code.learn(keys(), &known);
        }
        Some(known)
    }

    /// The name of the slab cache at an address.
    pub(super) fn cache_name(&mut self, memory: &Memory, cache: u64) -> Option<String> {
        let caches = self.caches.as_mut()?;
        caches.get(memory, &self.btf, cache).map(|cache| cache.name.clone())
    }

    /// The use of a page that is not a slab. If the use is unknown, for example because the page has been
    /// freed, returns the use of the pages that the same code has accessed before.
    pub(super) fn page_use(
        &mut self,
        memory: &Memory,
        page: Option<Page>,
        physical: u64,
        code: &[u64],
    ) -> Option<String> {
        let now = match page {
            Some(Page::Table) => Some("page table".to_owned()),
            Some(Page::Anonymous) => Some("anonymous memory".to_owned()),
            Some(Page::File(mapping)) => {
                let kind = self.file_system(memory, mapping);
                Some(kind.map_or("page cache".to_owned(), |kind| format!("page cache of {kind}")))
            }
            Some(Page::Other) => self.other_page(memory, physical, code),
            Some(Page::Free | Page::Slab { .. }) | None => None,
        };
        self.pages_of_code.known(code, now)
    }

    /// Finds out what a page is used for if the page's `struct page` does not show the use.
    fn other_page(&mut self, memory: &Memory, physical: u64, code: &[u64]) -> Option<String> {
        if self.pages_of_code.recall(code.iter().copied()).is_none() {
            self.search(memory, (0, 0, code.to_vec()));
        }
        match self.known.get(&memory.direct(physical & !(PAGE_BYTES - 1)))? {
            Known::Elements(field) => Some(format!("{field}[]")),
            Known::Page(field) => Some(format!("page of {field}")),
            _ => None,
        }
    }

    /// Searches memory for unknown objects, at most once for each `key`.
    fn search(&mut self, memory: &Memory, key: (u64, u64, Vec<u64>)) {
        if self.searched.len() < MAX_SCANS
            && self.searched.insert(key)
            && let (Some(pages), Some(caches)) = (&self.pages, &mut self.caches)
        {
            let roots = self.statics.all().collect::<Vec<_>>();
            let operations = &self.statics.pipe_operations;
            self.known = Scan::new(memory, &self.btf, pages, caches, operations).run(&roots);
        }
    }

    /// The name of the file system that contains the file of an address space.
    pub(super) fn file_system(&self, memory: &Memory, mapping: u64) -> Option<String> {
        let at = |address: u64, path| memory.word(address.checked_add(self.btf.offset(path)?)?);
        let inode = at(mapping, "address_space.host")?;
        let block = at(inode, "inode.i_sb")?;
        let kind = at(block, "super_block.s_type")?;
        memory.name(at(kind, "file_system_type.name")?)
    }
}

impl Named {
    /// A name that applies to this many bytes.
    pub(super) fn at(name: impl Into<String>, bytes: u64) -> Named {
        Named { name: name.into(), bytes, place: None }
    }

    /// In the name of a field, replaces the struct's name with the name of a variable.
    pub(super) fn inside(self, variable: &str) -> Named {
        let path = self.name.split_once('.').map_or(String::new(), |(_, path)| format!(".{path}"));
        Named { name: format!("{variable}{path}"), ..self }
    }

    /// The name, followed by a role in parentheses if `role` is not empty.
    pub(super) fn with(self, role: &str) -> Named {
        match role {
            "" => self,
            role => Named { name: format!("{} ({role})", self.name), ..self },
        }
    }
}

/// A name that applies to all bytes from an address on.
pub(super) fn whole(name: &str) -> Named {
    Named::at(name, u64::MAX)
}
