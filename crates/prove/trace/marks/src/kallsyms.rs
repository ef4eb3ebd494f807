//! Lines of `/proc/kallsyms`.

/// A function or variable of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSymbol<'t> {
    /// Its virtual address.
    pub address: u64,
    /// Its kind, as in nm(1): `T` and `t` are code.
    pub kind: &'t str,
    /// Its name.
    pub name: &'t str,
    /// Whether the symbol belongs to a module.
    pub is_of_module: bool,
}

/// The symbols in the text of `/proc/kallsyms`, in the order of the text. Lines that are not
/// symbols are skipped. The addresses are zeroes if the text was not read as root.
pub fn kernel_symbols(kallsyms: &str) -> impl Iterator<Item = KernelSymbol<'_>> {
    kallsyms.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let (kind, name) = (words.next()?, words.next()?);
        Some(KernelSymbol { address, kind, name, is_of_module: words.next().is_some() })
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_line_that_is_not_a_symbol_is_skipped() {
        let text = "nonsense\n\n10 T\n20 T a\n30 t b\t[module]\nx T c\n";
        let symbol =
            |address, kind, name, is_of_module| KernelSymbol { address, kind, name, is_of_module };
        let found: Vec<_> = kernel_symbols(text).collect();
        assert_eq!(found, [symbol(0x20, "T", "a", false), symbol(0x30, "t", "b", true)]);
    }
}
