//! Maps code addresses to the functions of a kernel or a program.

use std::collections::{BTreeMap, HashMap};

use knee_host::text::one_line;
use knee_marks::kernel_symbols;

use crate::datum::Resolver;

/// Functions of the guest's kernel or of a program, by address. Newlines in names are marked; see [`one_line`].
#[derive(Debug, Clone, Default)]
pub struct Functions {
    /// The name of each symbol, by the address of its first instruction.
    symbols: BTreeMap<u64, String>,
    /// The functions that contain an instruction, innermost first, by the address of the instruction. These
    /// names come from debug information and are more precise than symbols.
    instructions: HashMap<u64, Vec<String>>,
    missing: Vec<&'static str>,
    /// Whether these are the functions of a program.
    pub(crate) are_of_program: bool,
}

impl Functions {
    /// The function that contains the code at an address.
    pub fn at(&self, address: u64) -> Option<&str> {
        self.frames(address).next()
    }

    /// The function that contains the code at an address, followed by the functions into which this function
    /// was inlined, if known.
    pub fn frames(&self, address: u64) -> impl Iterator<Item = &str> {
        let inlined = self.instructions.get(&address).map(Vec::as_slice);
        let symbol = || self.symbols.range(..=address).next_back().map(|(_, name)| name);
        let symbol = if inlined.is_none() { symbol() } else { None };
        inlined.unwrap_or_default().iter().chain(symbol).map(String::as_str)
    }

    /// Names the code that begins at an address, unless it already has a name.
    pub(crate) fn add(&mut self, address: u64, name: impl FnOnce() -> String) {
        self.symbols.entry(address).or_insert_with(|| one_line(&name()).into_owned());
    }

    /// Names an instruction after its function and the functions into which that function was inlined. If
    /// `frames` is empty, the instruction keeps the name of the symbol that contains it.
    pub(crate) fn add_instruction(&mut self, address: u64, frames: Vec<String>) {
        if !frames.is_empty() {
            let names = frames.iter().map(|name| one_line(name).into_owned());
            self.instructions.insert(address, names.collect());
        }
    }

    /// Whether [`Functions::add_instruction`] has named an instruction.
    pub(crate) fn has_instruction(&self, address: u64) -> bool {
        self.instructions.contains_key(&address)
    }

    /// The missing information about the kernel, such as its symbols or types. Without this information, some
    /// data have no name or a less precise name. The list is empty for a program.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// The functions in a kernel's `/proc/kallsyms`. `resolver` names the data of the same kernel.
    pub(crate) fn of(kallsyms: &str, resolver: &Resolver) -> Functions {
        let missing = resolver.missing().to_vec();
        let mut functions = Functions { missing, ..Functions::default() };
        for symbol in kernel_symbols(kallsyms).filter(|symbol| matches!(symbol.kind, "t" | "T")) {
            functions.add(symbol.address, || symbol.name.to_owned());
        }
        functions
    }
}
