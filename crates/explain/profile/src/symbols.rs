//! Names of addresses.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use foldhash::{HashMap, HashMapExt};

use crate::capture::{Function, Kind, Stacks};
use crate::kernel_symbols::KernelSymbols;
use crate::records::Place;

/// The module of the kernel's own functions, and the name of unknown kernel functions.
const KERNEL: &str = "[kernel]";

/// Finds the functions at addresses.
pub(crate) struct Symbols {
    symbolizer: Symbolizer,
    /// `None` if the kernel hides where its functions are.
    kernel: Option<KernelSymbols>,
    /// How much higher the running kernel is than the kernel of the addresses.
    kernel_moved: u64,
    known: HashMap<Address, Box<[u32]>>,
    /// Demangled names by symbol.
    names: HashMap<Box<str>, String>,
    perf_maps: HashMap<i32, PerfMap>,
}

impl Symbols {
    /// `kernel` contains the names of the kernel's functions, if they are known.
    pub(crate) fn new(kernel: Option<KernelSymbols>) -> Symbols {
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            // Inlined functions require this.
            .enable_code_info(true)
            .enable_inlined_fns(true)
            // blazesym would take a C function named `f` for the C++ type with that letter.
            .enable_demangling(false)
            .build();
        Symbols {
            symbolizer,
            kernel,
            kernel_moved: 0,
            known: HashMap::new(),
            names: HashMap::new(),
            perf_maps: HashMap::new(),
        }
    }

    /// Takes in the address that a symbol of the kernel had in a file of `perf record`. Addresses of one
    /// kernel differ between boots.
    pub(crate) fn kernel_mapped(&mut self, path: &str, address: u64) {
        let Some(symbol) = path.strip_prefix("[kernel.kallsyms]") else { return };
        let now = self.kernel.as_ref().and_then(|kernel| kernel.start(symbol));
        match now.filter(|_| address != 0) {
            Some(now) => self.kernel_moved = now.wrapping_sub(address),
            None => self.kernel = None,
        }
    }

    /// The functions at an address, by number, from the innermost inlined one outward.
    pub(crate) fn find(&mut self, address: &Address, stacks: &mut Stacks) -> Box<[u32]> {
        if let Some(functions) = self.known.get(address) {
            return functions.clone();
        }
        let functions: Box<[u32]> = match address {
            Address::Unknown => [stacks.function(&Function::new("[unknown]", Kind::User))].into(),
            Address::Kernel(address) => {
                let address = address.wrapping_add(self.kernel_moved);
                let found = self.kernel.as_ref().and_then(|names| names.find(address));
                let (name, module) = found.unwrap_or((KERNEL, None));
                [function(stacks, name, module.unwrap_or(KERNEL), Kind::Kernel, false)].into()
            }
            Address::File(path, offset) => self.in_file(path, *offset, stacks),
            Address::Memory(pid, area, address) => {
                let names = self.perf_maps.entry(*pid).or_insert_with(|| PerfMap::read(*pid));
                let name = names.find(*address).map_or_else(|| bracketed(area), str::to_owned);
                [function(stacks, &name, area, Kind::User, false)].into()
            }
        };
        self.known.insert(address.clone(), functions.clone());
        functions
    }

    fn in_file(&mut self, path: &str, offset: u64, stacks: &mut Stacks) -> Box<[u32]> {
        let mut function = |name: &str, inlined| function(stacks, name, path, Kind::User, inlined);
        let source = Source::Elf(Elf::new(Path::new(path)));
        let found = self.symbolizer.symbolize_single(&source, Input::FileOffset(offset));
        let Some(symbol) = found.as_ref().ok().and_then(Symbolized::as_sym) else {
            return [function(&bracketed(path), false)].into();
        };
        let inlined = symbol.inlined.iter().rev().map(|inlined| (&*inlined.name, true));
        let all = inlined.chain([(&*symbol.name, false)]);
        all.map(|(name, inlined)| {
            let names = self.names.entry(name.into());
            function(names.or_insert_with(|| demangled(name).into_owned()), inlined)
        })
        .collect()
    }
}

/// An address to look up. The order groups the addresses of a file, from low to high.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Address {
    /// In user space, without a known mapping.
    Unknown,
    /// In the kernel.
    Kernel(u64),
    /// An offset in a file.
    File(Rc<str>, u64),
    /// In memory of a process that belongs to no file, and the kernel's name for that memory.
    Memory(i32, Rc<str>, u64),
}

impl Address {
    /// An address in user space, and its place if that is known.
    pub(crate) fn user(address: u64, place: Option<Place>) -> Address {
        match place {
            None => Address::Unknown,
            Some(place) if is_on_disk(&place.file) => Address::File(place.file, place.offset),
            Some(place) => Address::Memory(place.pid, place.file, address),
        }
    }
}

/// Whether this is a path, and not the kernel's name for anonymous memory.
fn is_on_disk(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//")
}

fn function(stacks: &mut Stacks, name: &str, module: &str, kind: Kind, inlined: bool) -> u32 {
    stacks.function(&Function { name: name.into(), module: Some(module.into()), kind, inlined })
}

/// The name in the source, if a Rust or C++ compiler mangled it.
fn demangled(name: &str) -> Cow<'_, str> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}").into();
    }
    let is_cpp = name.starts_with("_Z") || name.starts_with("__Z");
    let cpp = is_cpp.then(|| cpp_demangle::Symbol::new(name).ok()?.demangle().ok()).flatten();
    cpp.map_or(name.into(), Cow::from)
}

/// The name of functions in a file without symbols: that of the file, as stackcollapse-perf.pl writes it.
fn bracketed(file: &str) -> String {
    if file.starts_with("//") {
        return "[unknown]".to_owned();
    }
    let name = file.rsplit('/').next().unwrap_or(file);
    format!("[{}]", name.trim_start_matches('[').trim_end_matches(']'))
}

/// Names of code from a just-in-time compiler: `/tmp/perf-PID.map`, as in
/// `tools/perf/Documentation/jit-interface.txt`.
#[derive(Debug, Default)]
struct PerfMap {
    /// Start, end and name, in order.
    names: Vec<(u64, u64, String)>,
}

impl PerfMap {
    fn read(pid: i32) -> PerfMap {
        PerfMap::parse(&fs::read(format!("/tmp/perf-{pid}.map")).unwrap_or_default())
    }

    fn parse(text: &[u8]) -> PerfMap {
        let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let line = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (start, size) = (number(words.next()?)?, number(words.next()?)?);
            Some((start, start.checked_add(size)?, words.next()?.to_owned()))
        };
        let mut names: Vec<_> = String::from_utf8_lossy(text).lines().filter_map(line).collect();
        // If code was compiled again, its last entry counts.
        names.reverse();
        names.sort_by_key(|name| name.0);
        names.dedup_by_key(|name| name.0);
        PerfMap { names }
    }

    fn find(&self, address: u64) -> Option<&str> {
        let place = self.names.partition_point(|name| name.0 <= address).checked_sub(1)?;
        let (_, end, name) = &self.names[place];
        (address < *end).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mangled_names_are_demangled() {
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangled("_ZNSt6vectorIiE4sizeEv"), "std::vector<int>::size()");
        for c in ["f", "w", "Pi", "PKc", "main", "_Znonsense"] {
            assert_eq!(demangled(c), c);
        }
    }

    #[test]
    fn functions_without_symbols_have_the_name_of_their_file() {
        assert_eq!(bracketed("/usr/lib/libc.so.6"), "[libc.so.6]");
        assert_eq!(bracketed("[vdso]"), "[vdso]");
        assert_eq!(bracketed("//anon"), "[unknown]");
    }

    #[test]
    fn names_of_a_jit_compiler_are_read() {
        let names =
            PerfMap::parse(b"1000 10 old\n0x2000 20 Foo::bar (int)\nnonsense\n1000 8 new\n");
        assert_eq!(names.find(0x1007), Some("new"));
        assert_eq!(names.find(0x1008), None);
        assert_eq!(names.find(0x201f), Some("Foo::bar (int)"));
        assert_eq!(names.find(0xfff), None);
    }
}
