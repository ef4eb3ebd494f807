//! Finds names for the data in a guest's memory.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use super::DataNames;
use super::btf::{Btf, MAX_BTF, TypeId};
use super::layout::{Access, FalselyShared, Layouts, short};
use super::memory::{Area, LINE_BYTES, Memory, PAGE_BYTES};
use super::module_types;
use super::pages::Page;
use super::per_cpu::{PerCpu, Place};
use super::symbols::{Symbol, Symbols};
use super::types::{Named, Types, whole};
use crate::ram::Ram;
use crate::record::{Conflict, TestResult};

/// Maximum number of fields in the name of a line; further fields are left out.
const MAX_FIELDS: usize = 4;
/// A static variable of unknown type counts as a table if it has more bytes than this. The name of a
/// table contains no offset, because an offset in a table does not identify a field.
const MAX_STATIC_STRUCT: u64 = 1024;
/// Functions that write only page-table entries, so a page that they touch is a page table. The call that
/// executes one of these functions often frees the page table afterwards, and then the `struct page` of the
/// freed page no longer shows this use.
const PAGE_TABLE_CODE: &[&str] =
    &["native_set_pte", "native_set_pmd", "native_set_pud", "native_set_p4d", "native_set_pgd"];

/// Finds names for the data in a guest's memory.
#[derive(Debug)]
pub struct Resolver {
    memory: Memory,
    symbols: Symbols,
    per_cpu: Option<PerCpu>,
    types: Option<Types>,
    missing: Vec<&'static str>,
    /// The data whose types, and the structs whose layouts, are or were in `layouts`.
    described: (HashSet<String>, HashSet<TypeId>),
    layouts: Layouts,
}

impl Resolver {
    /// A resolver for the guest with this memory. The guest's kernel must have started. `kallsyms` is
    /// the text of the guest's `/proc/kallsyms` as root sees it.
    pub fn new(ram: Ram, kallsyms: &str) -> Resolver {
        let symbols = Symbols::parse(kallsyms);
        let memory = Memory::new(ram, &symbols);
        let mut missing = Vec::new();
        if symbols.is_empty() {
            missing.push("symbols (/proc/kallsyms)");
        }
        let types = read_btf(&memory, &symbols).map(|mut btf| {
            module_types::add(&memory, &symbols, &mut btf);
            Types::new(&memory, &symbols, btf)
        });
        match &types {
            None => missing.push("types (the kernel is built without CONFIG_DEBUG_INFO_BTF)"),
            Some(Types { pages: None, .. }) => missing.push("struct page"),
            Some(Types { caches: None, .. }) => missing.push("struct kmem_cache"),
            Some(_) => {}
        }
        let per_cpu = PerCpu::new(&memory, &symbols, types.as_ref().map(|types| &types.btf));
        if per_cpu.is_none() {
            missing.push("per-CPU areas");
        }
        let (described, layouts) = Default::default();
        Resolver { memory, symbols, per_cpu, types, missing, described, layouts }
    }

    /// The missing information about the kernel, such as its symbols or types. Without this information, some
    /// data have no name or a less precise name.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// The kernel's symbols.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Names the data in the lines that the calls of a test shared.
    pub fn resolve(&mut self, result: &mut TestResult) {
        for conflict in &mut result.conflicts {
            conflict.datum = Some(self.datum(conflict));
            conflict.by_position = self.is_by_position(conflict);
            conflict.object = self.falsely_shared(conflict);
        }
    }

    /// The object in which the calls access different fields; `None` if they access a common byte, several objects, or
    /// data without a type.
    fn falsely_shared(&mut self, conflict: &Conflict) -> Option<FalselyShared> {
        if conflict.by_position || conflict.shared_bytes() != 0 {
            return None;
        }
        let (base, code) = (self.best_address(conflict), code(conflict));
        let mut object: Option<(TypeId, i64)> = None;
        let mut fields: Vec<Access> = Vec::new();
        for side in &conflict.sides {
            for (mut bytes, wrote) in [(side.written, true), (side.read & !side.written, false)] {
                while bytes != 0 {
                    let byte = u64::from(bytes.trailing_zeros());
                    let line = conflict.line.wrapping_add(byte);
                    let named = self.name(base.wrapping_add(byte), line, &code);
                    bytes = behind(bytes, byte, &named);
                    let place = named.place?;
                    let of = (place.within, i64::try_from(place.byte).ok()? - byte as i64);
                    if *object.get_or_insert(of) != of {
                        return None;
                    }
                    self.learn_layout(&named);
                    let btf = &self.types.as_ref()?.btf;
                    let access = Access::of(btf, &named.name, place, side.side, wrote);
                    fields.extend(access.filter(|access| !fields.contains(access)));
                }
            }
        }
        let (within, offset) = object?;
        let within = short(self.types.as_ref()?.btf.name(within));
        Some(FalselyShared { within, offset, fields })
    }

    /// The types of the data that have been named for the first time since the last call, and the layouts of their
    /// structs.
    pub fn take_layouts(&mut self) -> Layouts {
        std::mem::take(&mut self.layouts)
    }

    /// Whether calls share a line only because of an object's position in memory. This is so if the calls
    /// touch different bytes of the line, and the distance from one object of the slab cache to the next is
    /// not a multiple of the line size. In this case, the fields that share a line differ from object to
    /// object.
    fn is_by_position(&mut self, conflict: &Conflict) -> bool {
        let Some(types) = &mut self.types else { return false };
        let page = types.pages.as_ref().and_then(|pages| pages.at(&self.memory, conflict.line));
        let Some(Page::Slab { cache, .. }) = page else { return false };
        conflict.shared_bytes() == 0 && !types.keeps_lines(&self.memory, cache)
    }

    /// The most informative virtual address of a line: a kernel address rather than a user address, and an
    /// address in the kernel's image rather than in the direct map.
    fn best_address(&self, conflict: &Conflict) -> u64 {
        let all = conflict.sides.iter().flat_map(|side| &side.virtuals).copied();
        let rank = |address: &u64| match self.memory.area(*address) {
            Area::Image | Area::Modules => 0,
            Area::Vmemmap => 1,
            Area::Direct(_) => 2,
            Area::User => 4,
            _ => 3,
        };
        all.min_by_key(rank).unwrap_or_else(|| self.memory.direct(conflict.line))
    }

    fn learn_layout(&mut self, Named { name, place, .. }: &Named) {
        let (data, structs) = &mut self.described;
        if let (Some(Types { btf, .. }), Some(place)) = (&self.types, place)
            && !data.contains(name)
        {
            data.insert(name.clone());
            self.layouts.add_field(btf, name, *place);
            if structs.insert(place.within) {
                self.layouts.add_struct(btf, place.within);
            }
        }
    }

    fn name(&mut self, address: u64, physical: u64, code: &[u64]) -> Named {
        match self.per_cpu.as_ref().and_then(|areas| areas.at(address)) {
            Some(Place::Variable(address)) => return self.per_cpu_variable(address),
            Some(Place::Allocated(_)) => return whole("per-cpu allocation"),
            None => {}
        }
        let tables = self.types.as_ref().map(|types| &types.statics);
        if let Some(table) = tables.and_then(|statics| statics.table_at(address)) {
            return whole(&format!("{table}[]"));
        }
        match self.memory.area(address) {
            Area::Image | Area::Modules => self.variable(address),
            Area::Vmemmap => self.page_struct(address, code),
            Area::Direct(physical) => self.memory_at(physical, code),
            Area::User => {
                let named = self.memory_at(physical, code);
                Named { name: format!("user memory ({})", named.name), ..named }
            }
            Area::CpuEntry => whole("cpu entry area"),
            Area::Vmalloc => whole("vmalloc"),
            Area::Other => whole("unknown"),
        }
    }

    fn variable(&mut self, address: u64) -> Named {
        let Some(Symbol { name, offset, bytes }) = self.symbols.at(address) else {
            return whole("static data");
        };
        let name = stable(name);
        if let Some(types) = &mut self.types
            && let Some((begin, of)) = types.statics.at(&types.btf, address)
        {
            return types.field(of, address - begin, None).inside(name);
        }
        let word = offset & !7;
        let place = if word == 0 || bytes > MAX_STATIC_STRUCT {
            String::new()
        } else {
            format!("+{word:#x}")
        };
        Named::at(format!("{name}{place}"), 8 - address % 8)
    }

    fn per_cpu_variable(&mut self, address: u64) -> Named {
        if let (Some(types), Some(areas)) = (&mut self.types, &self.per_cpu)
            && let Some((begin, of)) = areas.variable(&types.btf, address)
            && let Some(symbol) = self.symbols.at(begin)
        {
            let of = types.btf.resolve(of);
            return types
                .field(of, address - begin, None)
                .inside(&format!("per-cpu {}", symbol.name));
        }
        let named = self.variable(address);
        Named { name: format!("per-cpu {}", named.name), ..named }
    }

    /// Names a byte of a `struct page`.
    fn page_struct(&mut self, address: u64, code: &[u64]) -> Named {
        let Some(types) = &mut self.types else { return whole("struct page") };
        let Some(pages) = &types.pages else { return whole("struct page") };
        let (number, offset) = pages.described_at(&self.memory, address);
        let page = pages.at(&self.memory, number * PAGE_BYTES);
        // The fields of `struct page` depend on the use of the page. If the page is now a slab or a page
        // table, the names come from `struct slab` or `struct ptdesc`. For any other page, the use at the
        // time of the access is unknown, so the names come from `struct page`.
        let (of, alternative) = match page {
            Some(Page::Slab { .. }) => ("slab", "slab_cache"),
            Some(Page::Table) => ("ptdesc", "ptl"),
            _ => ("page", "lru"),
        };
        let known = types.btf.composite(of).or_else(|| types.btf.composite("page"));
        let Some(of) = known else { return whole("struct page") };
        let used_for = match page {
            Some(Page::Slab { cache, .. }) => {
                let cache = types.cache_name(&self.memory, cache);
                types.pages_of_code.known(code, cache)
            }
            page => types.page_use(&self.memory, page, number * PAGE_BYTES, code),
        };
        types.field(of, offset, Some(alternative)).with(used_for.as_deref().unwrap_or_default())
    }

    fn memory_at(&mut self, physical: u64, code: &[u64]) -> Named {
        let Some(types) = &mut self.types else { return whole("memory") };
        let page = types.pages.as_ref().and_then(|pages| pages.at(&self.memory, physical));
        if let Some(Page::Slab { cache, first }) = page {
            return types.object(&self.memory, (cache, first), physical, code);
        }
        // Some structs were allocated before the slab allocator worked, so they are not in a slab.
        if page == Some(Page::Other)
            && let Some((begin, of)) = types.statics.at(&types.btf, self.memory.direct(physical))
        {
            return types.field(of, self.memory.direct(physical) - begin, None);
        }
        let symbols = &self.symbols;
        let writes_tables = |code: &u64| {
            symbols.at(*code).is_some_and(|symbol| PAGE_TABLE_CODE.contains(&symbol.name))
        };
        let page = if code.iter().any(writes_tables) { Some(Page::Table) } else { page };
        let name = types.page_use(&self.memory, page, physical, code);
        whole(name.as_deref().unwrap_or("page"))
    }
}

impl DataNames for Resolver {
    fn fields(&mut self, conflict: &Conflict, mut bytes: u64) -> Vec<String> {
        let base = self.best_address(conflict);
        let code = code(conflict);
        let mut fields: Vec<String> = Vec::new();
        while bytes != 0 && fields.len() < MAX_FIELDS {
            let byte = u64::from(bytes.trailing_zeros());
            let (address, physical) = (base.wrapping_add(byte), conflict.line.wrapping_add(byte));
            let named = self.name(address, physical, &code);
            bytes = behind(bytes, byte, &named);
            if !fields.contains(&named.name) {
                self.learn_layout(&named);
                fields.push(named.name);
            }
        }
        fields
    }
}

/// The bytes of a line that are behind a datum at `byte`.
fn behind(bytes: u64, byte: u64, named: &Named) -> u64 {
    let end = byte.saturating_add(named.bytes.max(1)).min(LINE_BYTES);
    bytes & u64::MAX.checked_shl(end as u32).unwrap_or(0)
}

/// A variable's name without the number that the compiler adds to distinguish variables of the same
/// name.
fn stable(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

/// The addresses of the code that touched a line, in ascending order.
fn code(conflict: &Conflict) -> Vec<u64> {
    let all = conflict.sides.iter().flat_map(|side| side.writers.iter().chain(&side.readers));
    let mut all: Vec<u64> = all.copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn read_btf(memory: &Memory, symbols: &Symbols) -> Option<Btf> {
    let begin = symbols.address_of("__start_BTF")?;
    let bytes = symbols.address_of("__stop_BTF")?.checked_sub(begin)?;
    let mut read = vec![0; usize::try_from(bytes).ok().filter(|_| bytes <= MAX_BTF)?];
    memory.read(begin, &mut read)?;
    Btf::parse(&read).ok()
}
