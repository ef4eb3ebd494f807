//! Symbols of a guest's kernel: the text of `/proc/kallsyms`, searched by address and by name.

use std::cmp::Reverse;

use knee_marks::{KernelSymbol, kernel_symbols};

use crate::name_limit::NameLimit;

/// The symbol that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The name of the function, variable or section.
    pub name: &'a str,
    /// The offset of the address from the symbol, in bytes.
    pub offset: u64,
    /// The distance from the symbol to the next symbol, in bytes.
    pub bytes: u64,
}

/// A symbol's address, and the start and end of its name in the text.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    name: (usize, usize),
}

/// Functions and variables, including static ones and those of modules.
///
/// ```
/// use knee_trace::Symbols;
///
/// let symbols = Symbols::parse("ffffffff81000000 T _stext\nffffffff82745e20 D init_mm\n");
/// assert_eq!(symbols.address_of("init_mm"), Some(0xffff_ffff_8274_5e20));
/// let symbol = symbols.at(0xffff_ffff_8274_5e28).unwrap();
/// assert_eq!((symbol.name, symbol.offset), ("init_mm", 8));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    text: String,
    /// Sorted by address. Among symbols at the same address, the one with the most specific name is last.
    entries: Vec<Entry>,
}

impl Symbols {
    /// Reads the text of `/proc/kallsyms` as root sees it. Lines that are not symbols, and names that are too long
    /// for Linux, are skipped.
    pub fn parse(text: &str) -> Symbols {
        let mut symbols = Symbols { text: text.to_owned(), entries: Vec::new() };
        let entry = |symbol: KernelSymbol| {
            let begin = symbol.name.as_ptr() as usize - text.as_ptr() as usize;
            Entry { address: symbol.address, name: (begin, begin + symbol.name.len()) }
        };
        let mut names = NameLimit::of_linux(text.len());
        let admitted = kernel_symbols(text).filter(|symbol| names.admits(symbol.name));
        let mut entries: Vec<Entry> = admitted.map(entry).collect();
        // A section has the same address as the first variable in it. The variable's name is more specific
        // than the section's.
        entries.sort_by_key(|entry| {
            let name = symbols.name(entry);
            (entry.address, !name.starts_with("__"), Reverse(name.len()), name)
        });
        symbols.entries = entries;
        symbols
    }

    /// The symbol at or before an address.
    pub fn at(&self, address: u64) -> Option<Symbol<'_>> {
        let after = self.entries.partition_point(|entry| entry.address <= address);
        let entry = self.entries[..after].last()?;
        let next = self.entries.get(after).map_or(u64::MAX, |next| next.address);
        let bytes = next - entry.address;
        Some(Symbol { name: self.name(entry), offset: address - entry.address, bytes })
    }

    /// The address of the symbol with this name. If several symbols have this name, returns the
    /// lowest address. Searches linearly.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        self.entries.iter().find(|entry| self.name(entry) == name).map(|entry| entry.address)
    }

    /// The number of symbols.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no symbols.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn name(&self, entry: &Entry) -> &str {
        &self.text[entry.name.0..entry.name.1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_not_a_symbol_is_skipped() {
        let symbols = Symbols::parse("nonsense\n\n10 T\n20 T a\n30 t b [module]\n");
        assert_eq!((symbols.len(), symbols.address_of("b")), (2, Some(0x30)));
        assert_eq!(symbols.at(0x1f), None);
        assert_eq!(symbols.at(0x2f).map(|symbol| (symbol.name, symbol.offset)), Some(("a", 0xf)));
    }

    #[test]
    fn a_variable_is_preferred_to_the_section_that_begins_with_it() {
        let symbols = Symbols::parse("10 D __start_data\n10 D count\n10 D __data\n");
        assert_eq!(symbols.at(0x10).map(|symbol| symbol.name), Some("count"));
    }
}
