//! Maps code addresses to the functions of a kernel or a program.

use std::collections::{BTreeMap, HashMap};

use knee_host::text::one_line;
use knee_marks::{KernelSymbol, kernel_symbols};

use crate::datum::Resolver;
use crate::name_limit::NameLimit;

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

    /// The functions in a kernel's `/proc/kallsyms`. `resolver` names the data of the same kernel. Skips names
    /// that are too long for Linux: a record lists a function again and again.
    pub(crate) fn of(kallsyms: &str, resolver: &Resolver) -> Functions {
        let missing = resolver.missing().to_vec();
        let mut functions = Functions { missing, ..Functions::default() };
        let mut names = NameLimit::of_linux(kallsyms.len());
        let is_function = |symbol: &KernelSymbol| matches!(symbol.kind, "t" | "T");
        for symbol in kernel_symbols(kallsyms).filter(is_function) {
            if !names.admits(symbol.name) {
                continue;
            }
            functions.add(symbol.address, || symbol.name.to_owned());
        }
        functions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::Ram;

    #[test]
    fn a_function_whose_name_is_too_long_for_linux_has_no_name() {
        let (short, long) = ("a".repeat(512), "b".repeat(513));
        let kallsyms = format!("10 T f\n20 t {long}\n30 T {short}\n");
        let resolver = Resolver::new(Ram::new("knee-test", 4096).unwrap(), &kallsyms);
        let functions = Functions::of(&kallsyms, &resolver);
        assert_eq!([0x10, 0x28, 0x30].map(|at| functions.at(at).unwrap()), ["f", "f", &*short]);
        assert_eq!((resolver.symbols().len(), resolver.symbols().address_of(&long)), (2, None));
    }
}
