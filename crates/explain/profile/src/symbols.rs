//! Names of addresses.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{InlinedFn, Input, Sym, Symbolizer};
use foldhash::{HashMap, HashMapExt};

use crate::capture::{Function, Kind, Stacks};
use crate::kernel_symbols::KernelSymbols;
use crate::records::{File, Place};

/// The module of the kernel's own functions, and what stands for those without a name.
const KERNEL: &str = "[kernel]";

/// Names of addresses, as numbers of functions, from the innermost inlined one outward.
pub(crate) struct Symbols {
    symbolizer: Symbolizer,
    /// None of a kernel of which we do not know where its functions are.
    kernel: Option<KernelSymbols>,
    /// How much further up the running kernel is than the one with the addresses.
    kernel_moved: u64,
    of_kernel: HashMap<u64, Box<[u32]>>,
    /// By number of the file.
    of_files: Vec<OfFile>,
    perf_maps: HashMap<i32, PerfMap>,
    unknown: Option<Box<[u32]>>,
}

impl Symbols {
    /// `kernel` has the names of the kernel's functions, if there are any.
    pub(crate) fn new(kernel: Option<KernelSymbols>) -> Symbols {
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            // Without, there is nothing about what is inlined.
            .enable_code_info(true)
            .enable_inlined_fns(true)
            // It takes a C function that is called `f` for the C++ type of that letter.
            .enable_demangling(false)
            .build();
        Symbols {
            symbolizer,
            kernel,
            kernel_moved: 0,
            of_kernel: HashMap::new(),
            of_files: Vec::new(),
            perf_maps: HashMap::new(),
            unknown: None,
        }
    }

    /// A file of `perf record` says where a symbol of the kernel was, by its name and address: the same
    /// kernel is elsewhere after each boot.
    pub(crate) fn kernel_mapped(&mut self, path: &str, address: u64) {
        let Some(symbol) = path.strip_prefix("[kernel.kallsyms]") else { return };
        let now = self.kernel.as_ref().and_then(|kernel| kernel.start(symbol));
        match now.filter(|_| address != 0) {
            Some(now) => self.kernel_moved = now.wrapping_sub(address),
            None => self.kernel = None,
        }
    }

    /// The functions at an address of the kernel.
    fn kernel(&mut self, address: u64, stacks: &mut Stacks) -> &[u32] {
        let Symbols { kernel, kernel_moved, of_kernel, .. } = self;
        of_kernel.entry(address).or_insert_with(|| {
            let found =
                kernel.as_ref().and_then(|names| names.find(address.wrapping_add(*kernel_moved)));
            let (name, module) = found.unwrap_or((KERNEL, None));
            [function(stacks, name, module.unwrap_or(KERNEL), Kind::Kernel, false)].into()
        })
    }

    /// The functions at an address.
    pub(crate) fn find(&mut self, address: &Address, stacks: &mut Stacks) -> &[u32] {
        match address {
            Address::Kernel(address) => self.kernel(*address, stacks),
            Address::User(place, address) => self.user(place.as_ref(), *address, stacks),
        }
    }

    /// The functions at a place of a file; the address counts where the place is no file.
    fn user(&mut self, place: Option<&Place>, address: u64, stacks: &mut Stacks) -> &[u32] {
        let Some(Place { file: File { number, path }, offset, pid }) = place else {
            return self.unknown.get_or_insert_with(|| {
                let unknown = Function::new("[unknown]", Kind::User);
                [stacks.function(&unknown)].into()
            });
        };
        let is_file = is_on_disk(path);
        // Each process has other things in memory that is no file's.
        let at = if is_file { *offset } else { address ^ (*pid as u64) << 48 };
        let number = *number as usize;
        if self.of_files.len() <= number {
            self.of_files.resize_with(number + 1, OfFile::default);
        }
        let of_file = &mut self.of_files[number];
        if !of_file.addresses.contains_key(&at) {
            let of_compiler = match is_file {
                true => None,
                false => {
                    let names = self.perf_maps.entry(*pid).or_insert_with(|| PerfMap::read(*pid));
                    names.find(address)
                }
            };
            let functions = match of_compiler {
                Some(name) => [function(stacks, name, path, Kind::User, false)].into(),
                None => {
                    let found = is_file.then(|| {
                        let source = Source::Elf(Elf::new(Path::new(&**path)));
                        self.symbolizer.symbolize_single(&source, Input::FileOffset(*offset))
                    });
                    let sym = found.as_ref().and_then(|found| found.as_ref().ok()?.as_sym());
                    of_file.functions(sym, path, stacks)
                }
            };
            of_file.addresses.insert(at, functions);
        }
        &of_file.addresses[&at]
    }
}

/// An address of which the functions are wanted.
pub(crate) enum Address {
    /// Of the kernel.
    Kernel(u64),
    /// Of a program, and where it is if that is known.
    User(Option<Place>, u64),
}

impl Address {
    /// By file, and in it from low to high.
    pub(crate) fn order(&self) -> (Option<u32>, u64) {
        match self {
            Address::User(Some(place), _) => (Some(place.file.number), place.offset),
            Address::User(None, address) | Address::Kernel(address) => (None, *address),
        }
    }
}

/// What is known of a file.
#[derive(Default)]
struct OfFile {
    /// Functions by address, from the innermost inlined one outward.
    addresses: HashMap<u64, Box<[u32]>>,
    /// Functions by the names that compilers gave them, those that are inlined apart.
    named: HashMap<Box<str>, u32>,
    inlined: HashMap<Box<str>, u32>,
}

impl OfFile {
    fn functions(&mut self, sym: Option<&Sym<'_>>, path: &str, stacks: &mut Stacks) -> Box<[u32]> {
        let Some(sym) = sym else {
            return [function(stacks, &bracketed(path), path, Kind::User, false)].into();
        };
        let mut number = |name: &str, is_inlined: bool| {
            let known = if is_inlined { &mut self.inlined } else { &mut self.named };
            match known.get(name) {
                Some(number) => *number,
                None => {
                    let readable = demangled(name);
                    let number = function(stacks, &readable, path, Kind::User, is_inlined);
                    known.insert(name.into(), number);
                    number
                }
            }
        };
        let inlined = sym.inlined.iter().rev();
        let mut functions: Vec<u32> =
            inlined.map(|inlined: &InlinedFn<'_>| number(&inlined.name, true)).collect();
        functions.push(number(&sym.name, false));
        functions.into()
    }
}

/// Whether a path is one, and not what the kernel says of memory that is no file's.
fn is_on_disk(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//")
}

fn function(stacks: &mut Stacks, name: &str, module: &str, kind: Kind, inlined: bool) -> u32 {
    stacks.function(&Function { name: name.into(), module: Some(module.into()), kind, inlined })
}

/// The name that stands in the source, where a compiler of Rust or C++ made another of it.
fn demangled(name: &str) -> Cow<'_, str> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}").into();
    }
    let is_cpp = name.starts_with("_Z") || name.starts_with("__Z");
    let cpp = is_cpp.then(|| cpp_demangle::Symbol::new(name).ok()?.demangle().ok()).flatten();
    cpp.map_or(name.into(), Cow::from)
}

/// What stands for functions of a file that has no names: its own, as stackcollapse-perf.pl writes it.
fn bracketed(file: &str) -> String {
    if file.starts_with("//") {
        return "[unknown]".to_owned();
    }
    let name = file.rsplit('/').next().unwrap_or(file);
    format!("[{}]", name.trim_start_matches('[').trim_end_matches(']'))
}

/// Names that a just-in-time compiler left for us: `/tmp/perf-PID.map`, from
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
        // Code that was compiled again stands further down, and counts.
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
    fn only_names_that_compilers_made_are_made_readable() {
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangled("_ZNSt6vectorIiE4sizeEv"), "std::vector<int>::size()");
        for c in ["f", "w", "Pi", "PKc", "main", "_Znonsense"] {
            assert_eq!(demangled(c), c);
        }
    }

    #[test]
    fn files_without_names_stand_for_their_functions() {
        assert_eq!(bracketed("/usr/lib/libc.so.6"), "[libc.so.6]");
        assert_eq!(bracketed("[vdso]"), "[vdso]");
        assert_eq!(bracketed("//anon"), "[unknown]");
    }

    #[test]
    fn compilers_names_are_read() {
        let names =
            PerfMap::parse(b"1000 10 old\n0x2000 20 Foo::bar (int)\nnonsense\n1000 8 new\n");
        assert_eq!(names.find(0x1007), Some("new"));
        assert_eq!(names.find(0x1008), None);
        assert_eq!(names.find(0x201f), Some("Foo::bar (int)"));
        assert_eq!(names.find(0xfff), None);
    }
}
