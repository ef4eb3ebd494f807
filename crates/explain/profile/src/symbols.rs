//! Names of addresses.

mod budget;
mod demangler;
mod object_file;
mod perf_map;
mod search;

use std::borrow::Cow;
use std::path::Path;
use std::rc::Rc;

use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use budget::Budget;
use demangler::{Demangler, cut, demangled};
use foldhash::{HashMap, HashMapExt};
use object_file::ObjectFile;
use perf_map::PerfMap;

use crate::capture::{Function, Kind, Stacks};
use crate::kernel_symbols::KernelSymbols;
use crate::records::{FileId, Place};

/// The module of the kernel's own functions, and the name of unknown kernel functions.
const KERNEL: &str = "[kernel]";

/// The most addresses whose functions are kept. They take about 100 MiB.
const MOST_KNOWN: usize = 1 << 20;

/// Finds the functions at addresses.
pub(crate) struct Symbols {
    symbolizer: Symbolizer,
    /// `None` if the kernel hides where its functions are.
    kernel: Option<KernelSymbols>,
    /// How much higher the running kernel is than the kernel of the addresses.
    kernel_moved: u64,
    known: HashMap<Address, Box<[u32]>>,
    /// Demangled names by symbol, and whether it is of a file that other users cannot change. Those of other files may
    /// stay mangled.
    names: HashMap<(bool, Box<str>), String>,
    demangler: Option<Demangler>,
    /// Functions with lower numbers are already charged to the budget.
    functions: u32,
    /// The open files by path and identity; `None` if the path does not lead to such a file, or not to a regular one.
    files: HashMap<(Rc<str>, Option<FileId>), Option<ObjectFile>>,
    perf_maps: HashMap<i32, PerfMap>,
    has_perf_maps: bool,
    budget: Budget,
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
            demangler: None,
            functions: 0,
            files: HashMap::new(),
            perf_maps: HashMap::new(),
            has_perf_maps: true,
            budget: Budget::default(),
        }
    }

    /// Does not name code of just-in-time compilers. For processes of another time or machine, whose IDs
    /// belong to other processes here.
    pub(crate) fn without_perf_maps(self) -> Symbols {
        Symbols { has_perf_maps: false, ..self }
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

    /// How many files of names were left out because they take too much memory or time. The file with the symbol at
    /// which demangling ended is one of them.
    pub(crate) fn left_out(&self) -> u64 {
        let ended = self.demangler.as_ref().is_some_and(Demangler::has_ended);
        self.budget.left_out + u64::from(ended)
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
            Address::File(path, id, offset) => self.in_file(path, *id, *offset, stacks),
            Address::Memory(pid, area, address) => {
                let read = || match self.has_perf_maps {
                    true => PerfMap::read(*pid, &mut self.budget),
                    false => PerfMap::default(),
                };
                let names = self.perf_maps.entry(*pid).or_insert_with(read);
                let found = names.find(*address).map(|name| Cow::Borrowed(cut(name)));
                let name = found.unwrap_or_else(|| bracketed(area).into());
                [function(stacks, &name, area, Kind::User, false)].into()
            }
        };
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(address.clone(), functions.clone());
        functions
    }

    fn in_file(
        &mut self,
        path: &Rc<str>,
        id: Option<FileId>,
        offset: u64,
        stacks: &mut Stacks,
    ) -> Box<[u32]> {
        // Files have other numbers on another machine.
        let id = id.filter(|_| self.has_perf_maps);
        let mut function = |name: &str, inlined| function(stacks, name, path, Kind::User, inlined);
        let open = || ObjectFile::open(Path::new(&**path), id, &mut self.budget);
        let file = self.files.entry((Rc::clone(path), id)).or_insert_with(open);
        let is_trusted = file.as_ref().is_none_or(ObjectFile::is_trusted);
        if file.as_ref().is_some_and(|file| !is_trusted && !self.budget.take_steps(file.steps)) {
            *file = None;
        }
        let found = file.as_ref().and_then(|file| {
            self.symbolizer.symbolize_single(&file.source(), Input::FileOffset(offset)).ok()
        });
        let Some(symbol) = found.as_ref().and_then(Symbolized::as_sym) else {
            return [function(&bracketed(path), false)].into();
        };
        let mut demangle = |name: &str| match is_trusted {
            true => demangled(name).into_owned(),
            false => self.demangler.get_or_insert_default().demangled(name),
        };
        let inlined = symbol.inlined.iter().rev().map(|inlined| (&*inlined.name, true));
        let all = inlined.chain([(&*symbol.name, false)]);
        all.map(|(name, inlined)| {
            // Many symbols of a file may have parts of one long name.
            let name = cut(name);
            let names = self.names.entry((is_trusted, name.into()));
            let symbol = name.len();
            let name = names.or_insert_with(|| demangle(name));
            let number = function(name, inlined);
            if !is_trusted && number >= self.functions {
                // The capture contains the name, and the map of names contains both.
                self.budget.take((symbol + 2 * name.len()) as u64);
                self.functions = number.saturating_add(1);
            }
            number
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
    File(Rc<str>, Option<FileId>, u64),
    /// In memory of a process that belongs to no file, and the kernel's name for that memory.
    Memory(i32, Rc<str>, u64),
}

impl Address {
    /// An address in user space, and its place if that is known.
    pub(crate) fn user(address: u64, place: Option<Place>) -> Address {
        match place {
            None => Address::Unknown,
            Some(Place { file, id, offset, .. }) if is_on_disk(&file) => {
                Address::File(file, id, offset)
            }
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

/// The name of functions in a file without symbols: that of the file, as stackcollapse-perf.pl writes it.
fn bracketed(file: &str) -> String {
    if file.starts_with("//") {
        return "[unknown]".to_owned();
    }
    let name = file.rsplit('/').next().unwrap_or(file);
    format!("[{}]", name.trim_start_matches('[').trim_end_matches(']'))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc;
    use std::time::Duration;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::search::tests::{symbols, with_section};
    use super::*;

    #[test]
    fn functions_without_symbols_have_the_name_of_their_file() {
        assert_eq!(bracketed("/usr/lib/libc.so.6"), "[libc.so.6]");
        assert_eq!(bracketed("[vdso]"), "[vdso]");
        assert_eq!(bracketed("//anon"), "[unknown]");
    }

    /// What the functions at an address are called. A symbolizer that waits for a FIFO fails the test.
    fn names(
        symbols: impl FnOnce() -> Symbols + Send + 'static,
        address: fn(&str) -> Address,
        path: &Path,
    ) -> Vec<String> {
        let (done, names) = mpsc::channel();
        let path = path.to_str().unwrap().to_owned();
        std::thread::spawn(move || {
            let mut stacks = Stacks::default();
            let found = symbols().find(&address(&path), &mut stacks);
            let functions = stacks.finish().functions;
            let names = found.iter().map(|nr| functions[*nr as usize].name.clone());
            let _ = done.send(names.collect());
        });
        names.recv_timeout(Duration::from_secs(60)).expect("the symbolizer waits")
    }

    #[test]
    fn a_mapped_path_that_leads_to_no_regular_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        let address = |path: &str| Address::File(path.into(), None, 0x1000);
        assert_eq!(names(|| Symbols::new(None), address, &fifo), ["[fifo]"]);
        assert_eq!(names(|| Symbols::new(None), address, Path::new("/dev/null")), ["[null]"]);
    }

    #[test]
    fn a_program_of_another_user_with_many_symbols_at_one_place_has_names_for_a_limited_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let program = std::fs::read("/bin/true").unwrap();
        std::fs::write(&path, with_section(program, ".dynsym", &symbols(10_000, 0x10))).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let (mut symbols, mut stacks) = (Symbols::new(None), Stacks::default());
        symbols.budget.steps = 1_000_000;
        let path: Rc<str> = path.to_str().unwrap().into();
        let mut offsets = 0x100..0x200;
        let last = offsets.find(|offset| {
            symbols.find(&Address::File(Rc::clone(&path), None, *offset), &mut stacks);
            symbols.left_out() > 0
        });
        // Each address takes 20,000 steps, and some hundreds for the headers.
        assert!(last.is_some_and(|last| (0x120..0x134).contains(&last)), "{last:?}");
        symbols.find(&Address::File(path, None, 0x8000), &mut stacks);
        assert_eq!(symbols.left_out(), 1, "a file counts once");
    }

    #[test]
    fn the_names_of_a_program_of_another_user_take_limited_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        // Each symbol has another end of one long name.
        let text: String = (0..10_000).map(|number| format!("{number},")).collect();
        let symbol = |nr: u32| {
            let mut symbol = symbols(1, 0x100 + u64::from(nr) * 16);
            symbol[..4].copy_from_slice(&nr.to_ne_bytes());
            (symbol[6], symbol[16]) = (1, 16);
            symbol
        };
        let program = std::fs::read("/bin/true").unwrap();
        let program = with_section(program, ".dynstr", format!("{text}\0").as_bytes());
        let all: Vec<u8> = (0..100).flat_map(symbol).collect();
        std::fs::write(&path, with_section(program, ".dynsym", &all)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let (mut symbols, mut stacks) = (Symbols::new(None), Stacks::default());
        symbols.budget = Budget::of(1 << 20);
        let path: Rc<str> = path.to_str().unwrap().into();
        for nr in 0..100 {
            symbols.find(&Address::File(Rc::clone(&path), None, 0x100 + nr * 16), &mut stacks);
        }
        let names: usize = stacks.finish().functions.iter().map(|known| known.name.len()).sum();
        assert!((100_000..550_000).contains(&names), "{names} bytes");
        assert_eq!(symbols.left_out(), 1);
    }

    #[test]
    fn maps_of_jit_compilers_are_not_read_for_processes_of_another_machine() {
        let name = format!("perf-{}", std::process::id());
        let mut map = tempfile::Builder::new();
        let map = map.prefix(&name).suffix(".map").rand_bytes(0).tempfile_in("/tmp").unwrap();
        std::fs::write(map.path(), "1000 10 compiled\n").unwrap();
        let address =
            |_: &str| Address::Memory(std::process::id().cast_signed(), "//anon".into(), 0x1000);
        assert_eq!(names(|| Symbols::new(None), address, map.path()), ["compiled"]);
        std::fs::write(map.path(), format!("1000 10 {}\n", "x".repeat(1 << 20))).unwrap();
        assert_eq!(names(|| Symbols::new(None), address, map.path()), ["x".repeat(16 << 10)]);
        let foreign = || Symbols::new(None).without_perf_maps();
        assert_eq!(names(foreign, address, map.path()), ["[unknown]"]);
    }
}
