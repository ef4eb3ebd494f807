//! Functions of a kernel or of a program, by the addresses of their code.

use std::collections::{BTreeMap, HashMap};

use knee_marks::kernel_symbols;

use crate::datum::Resolver;

/// Functions of the guest's kernel or of a program, by address.
#[derive(Debug, Clone, Default)]
pub struct Functions {
    /// By the address of the first instruction.
    symbols: BTreeMap<u64, String>,
    /// By the address of one instruction: what is better known than by symbols.
    instructions: HashMap<u64, Vec<String>>,
    missing: Vec<&'static str>,
}

impl Functions {
    /// The function that the code at an address is in.
    pub fn at(&self, address: u64) -> Option<&str> {
        self.frames(address).next()
    }

    /// The function that the code at an address is in, and behind it those that the compiler has
    /// inlined it into, where that is known.
    pub fn frames(&self, address: u64) -> impl Iterator<Item = &str> {
        let inlined = self.instructions.get(&address).map(Vec::as_slice);
        let symbol = || self.symbols.range(..=address).next_back().map(|(_, name)| name);
        let symbol = if inlined.is_none() { symbol() } else { None };
        inlined.unwrap_or_default().iter().chain(symbol).map(String::as_str)
    }

    /// Names what begins at an address, unless it has a name.
    pub(crate) fn add(&mut self, address: u64, name: impl FnOnce() -> String) {
        self.symbols.entry(address).or_insert_with(name);
    }

    /// Names one instruction by the function that it is in, and those that it is inlined into. Without
    /// any, its symbol names it.
    pub(crate) fn add_instruction(&mut self, address: u64, frames: Vec<String>) {
        if !frames.is_empty() {
            self.instructions.insert(address, frames);
        }
    }

    /// Whether an instruction has names of its own.
    pub(crate) fn has_instruction(&self, address: u64) -> bool {
        self.instructions.contains_key(&address)
    }

    /// What the kernel does not describe, so that data have no name or a less precise one. Empty for a
    /// program.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// The functions in the text of /proc/kallsyms, of a kernel whose data the resolver names.
    pub(crate) fn of(kallsyms: &str, resolver: &Resolver) -> Functions {
        let missing = resolver.missing().to_vec();
        let mut functions = Functions { missing, ..Functions::default() };
        for symbol in kernel_symbols(kallsyms).filter(|symbol| matches!(symbol.kind, "t" | "T")) {
            functions.add(symbol.address, || symbol.name.to_owned());
        }
        functions
    }
}
