//! Names of the functions of the running kernel and its modules: `/proc/kallsyms`.
//!
//! If an address has several names, knee prefers the same one as perf, so that their reports agree:
//! `choose_best_symbol` in `tools/perf/util/symbol.c`.

use std::fs;
use std::sync::{Arc, OnceLock};

/// The kernel's functions, in the order of their addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelSymbols {
    symbols: Arc<[Symbol]>,
    /// The start of the kernel's text, by each name that perf uses for it.
    starts: Arc<[(Box<str>, u64)]>,
}

/// Names of the start of the kernel's text: `ref_reloc_sym` in `tools/perf/util/machine.c`.
const STARTS: [&str; 2] = ["_text", "_stext"];

#[derive(Debug, PartialEq, Eq)]
struct Symbol {
    address: u64,
    kind: u8,
    name: Box<str>,
    module: Option<Box<str>>,
}

impl KernelSymbols {
    /// The symbols of the running kernel; `None` if it hides their addresses (`kptr_restrict`). Reads them once, because
    /// that takes tens of milliseconds, and a short command is sampled many times.
    pub(crate) fn of_running() -> Option<KernelSymbols> {
        static RUNNING: OnceLock<Option<KernelSymbols>> = OnceLock::new();
        let read = || {
            let symbols = KernelSymbols::parse(&fs::read("/proc/kallsyms").ok()?);
            symbols.are_known().then_some(symbols)
        };
        RUNNING.get_or_init(read).clone()
    }

    pub(crate) fn parse(text: &[u8]) -> KernelSymbols {
        let line = |line: &[u8]| {
            let line = std::str::from_utf8(line).ok()?;
            let (address, rest) = line.split_once(' ')?;
            let (kind, rest) = rest.split_once(' ')?;
            let (name, module) = match rest.split_once('\t') {
                Some((name, module)) => (name, Some(module.trim_matches(['[', ']']))),
                None => (rest, None),
            };
            let kind = *kind.as_bytes().first()?;
            let symbol = Symbol {
                address: u64::from_str_radix(address, 16).ok()?,
                kind,
                name: name.into(),
                module: module.map(|module| format!("[{module}]").into()),
            };
            matches!(kind, b'T' | b't' | b'W' | b'w').then_some(symbol)
        };
        let mut symbols: Vec<Symbol> = text.split(|byte| *byte == b'\n').filter_map(line).collect();
        let start = |symbol: &&Symbol| STARTS.contains(&&*symbol.name);
        let starts =
            symbols.iter().filter(start).map(|start| (start.name.clone(), start.address)).collect();
        symbols.sort_by(|a, b| a.address.cmp(&b.address).then_with(|| b.rank().cmp(&a.rank())));
        symbols.dedup_by_key(|symbol| symbol.address);
        KernelSymbols { symbols: symbols.into(), starts }
    }

    /// Whether the addresses of functions are known.
    pub(crate) fn are_known(&self) -> bool {
        self.symbols.iter().any(|symbol| symbol.address != 0)
    }

    /// The name and the module of the function at an address.
    pub(crate) fn find(&self, address: u64) -> Option<(&str, Option<&str>)> {
        let place = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = &self.symbols[place.checked_sub(1)?];
        Some((&symbol.name, symbol.module.as_deref()))
    }

    /// The start of the kernel's text, by one of its names.
    pub(crate) fn start(&self, name: &str) -> Option<u64> {
        self.starts.iter().find(|start| &*start.0 == name).map(|start| start.1)
    }
}

impl Symbol {
    /// Orders the names of an address. The best one is not weak, is global, has few leading underscores, and is
    /// long.
    fn rank(&self) -> (bool, bool, std::cmp::Reverse<usize>, usize) {
        let underscores = self.name.bytes().take_while(|byte| *byte == b'_').count();
        let (is_strong, is_global) =
            (!matches!(self.kind, b'W' | b'w'), self.kind.is_ascii_uppercase());
        (is_strong, is_global, std::cmp::Reverse(underscores), self.name.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_name_that_perf_prefers() {
        let text = b"ffffffff81000100 t __do_sys_getppid\n\
            ffffffff81000100 T __x64_sys_getppid\n\
            ffffffff81000080 T _text\n\
            ffffffff81000200 W weak_name_that_is_long\n\
            ffffffff81000200 T strong\n\
            ffffffff81000300 t _one\n\
            ffffffff81000300 t __two_of_them\n\
            ffffffff81000400 D data\n\
            ffffffffc0000000 t ext4_write\t[ext4]\n\
            nonsense\n";
        let symbols = KernelSymbols::parse(text);
        let name = |address| symbols.find(address).map(|found| found.0);
        assert_eq!(name(0xffff_ffff_8100_0000), None);
        assert_eq!(name(0xffff_ffff_8100_0100), Some("__x64_sys_getppid"));
        assert_eq!(name(0xffff_ffff_8100_02ff), Some("strong"));
        assert_eq!(name(0xffff_ffff_8100_0404), Some("_one"));
        assert_eq!(symbols.find(0xffff_ffff_c000_0010), Some(("ext4_write", Some("[ext4]"))));
        assert_eq!(symbols.start("_text"), Some(0xffff_ffff_8100_0080));
        assert!(symbols.are_known());
    }

    #[test]
    fn hidden_addresses_are_detected() {
        let symbols = KernelSymbols::parse(b"0000000000000000 T _text\n0000000000000000 t other\n");
        assert!(!symbols.are_known());
        assert!(!KernelSymbols::default().are_known());
    }
}
