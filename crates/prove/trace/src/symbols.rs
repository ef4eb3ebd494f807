//! Names for code and data of a program, from its mappings and the symbols in its files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use knee_host::RegularFile;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::allocated;
use crate::datum::Datum;
use crate::functions::Functions;
use crate::lines::Lines;
use crate::name_limit::NameLimit;
use crate::record::{Conflict, TestResult, Touch};

/// How knee names the main thread's stack, the mapping `[stack]` in `/proc/self/maps`.
const STACK: &str = "the stack of the main thread";
/// The name of a mapping that contains the stack of a thread that makes calls. The C library keeps the
/// thread's thread-local variables in the same mapping.
const THREAD: &str = "the stack or the thread-local variables of a thread";

/// How object files begin.
const ELF: &[u8; 4] = b"\x7fELF";
/// The most bytes of mapped files to read, so that a program cannot keep knee busy with mappings.
const MOST_BYTES: u64 = 512 << 20;

/// Allocators align memory to this many bytes (`max_align_t`), so such a unit is always in one line.
const ALIGNMENT: u64 = 16;

/// The names of a program's code and data, as far as its files contain them.
pub struct ProgramNames {
    functions: Functions,
    /// What symbols may still be named.
    names: NameLimit,
    /// Bytes of files that may still be read.
    left: u64,
    /// The end (exclusive) and the name of each variable, by its first address.
    variables: BTreeMap<u64, (u64, String)>,
    /// The mapped files, by their first address.
    files: BTreeMap<u64, File>,
    stack: Range<u64>,
    /// The anonymous mappings.
    anonymous: Vec<Range<u64>>,
    /// The anonymous mappings that are stacks of threads.
    threads: Vec<Range<u64>>,
}

/// A mapped file.
struct File {
    name: String,
    /// The end of the mapping, exclusive.
    end: u64,
    /// The difference between an address in memory and the address in the file.
    bias: u64,
    lines: Option<Lines>,
}

impl Default for ProgramNames {
    fn default() -> Self {
        Self {
            functions: Functions::default(),
            names: NameLimit::default(),
            left: MOST_BYTES,
            variables: BTreeMap::new(),
            files: BTreeMap::new(),
            stack: 0..0,
            anonymous: Vec::new(),
            threads: Vec::new(),
        }
    }
}

impl ProgramNames {
    /// The program's functions.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Adds a mapping, given as a line of `/proc/self/maps`.
    pub(crate) fn learn(&mut self, line: &str) {
        self.functions.are_of_program = true;
        let Some(mapping) = Mapping::parse(line) else { return };
        match mapping.name {
            "[stack]" => self.stack = mapping.range,
            path if path.starts_with('/') && mapping.offset == 0 => {
                self.load(Path::new(path), mapping.range.start);
            }
            "" => self.anonymous.push(mapping.range),
            _ => {}
        }
    }

    /// Marks the mapping that contains `address` as the stack of a thread that makes calls. The
    /// mapping must already have been added.
    pub(crate) fn learn_thread(&mut self, address: u64) {
        let stack = self.anonymous.iter().find(|range| range.contains(&address));
        self.threads.extend(stack.cloned());
    }

    /// Drops the anonymous mappings of the previous process. Call this function before the mappings of a new
    /// process are added.
    pub(crate) fn restart(&mut self) {
        self.anonymous.clear();
        self.threads.clear();
    }

    /// Names the shared lines, and looks up the inlined functions of the code that accesses these
    /// lines. Looking up functions takes longer than a test, so knee looks up only this code.
    pub(crate) fn look_up(&mut self, runs: &mut [TestResult]) {
        let sides = runs.iter().flat_map(|run| &run.conflicts).flat_map(|one| &one.sides);
        self.look_up_code(sides.flat_map(Touch::all_code));
        // In memory that the program aligns to lines, sharing never depends on the address. A run in which the calls
        // share nothing shows that it does.
        let is_free = |run: &TestResult| !run.is_disturbed() && run.conflicts.is_empty();
        let depends = runs.iter().any(is_free);
        for conflict in runs.iter_mut().flat_map(|run| &mut run.conflicts) {
            conflict.datum = Some(self.datum(conflict));
            conflict.by_position = depends && self.can_be_by_position(conflict);
        }
    }

    /// Whether calls may share a line only because of the address at which the program has allocated its memory. This
    /// is so if they touch different bytes of the line, and always in different units of [`ALIGNMENT`] bytes: at another
    /// address of the same block, the units can be in different lines.
    fn can_be_by_position(&self, conflict: &Conflict) -> bool {
        let (mut written, mut touched, mut by_several) = (0_u8, 0_u8, 0_u8);
        for side in &conflict.sides {
            written |= units(side.written);
            by_several |= touched & units(side.read | side.written);
            touched |= units(side.read | side.written);
        }
        let mut bytes = conflict.sides.iter().flat_map(|side| set_bits(side.read | side.written));
        by_several & written == 0 && bytes.all(|byte| self.at(conflict.line + byte).is_none())
    }

    /// Looks up the inlined functions of code at these addresses.
    pub(crate) fn look_up_code(&mut self, code: impl Iterator<Item = u64>) {
        for code in code {
            let file = self.file(code).map(|(_, file)| file);
            let lines = file.and_then(|file| Some((file.lines.as_ref()?, file.bias)));
            if let Some((lines, bias)) = lines
                && !self.functions.has_instruction(code)
            {
                let frames = lines.frames(code.wrapping_sub(bias));
                self.functions.add_instruction(code, frames);
            }
        }
    }

    /// Names the bytes that one call writes and another touches. For false sharing, names the bytes that each
    /// call touches.
    pub(crate) fn datum(&self, conflict: &Conflict) -> Datum {
        let first = |bytes: u64| self.at(conflict.line + u64::from(bytes.trailing_zeros()));
        let functions = &self.functions;
        let shared = conflict.shared_bytes();
        if shared != 0 {
            let writers = conflict.sides.iter().filter(|side| side.written & shared != 0);
            let name = first(shared).unwrap_or_else(|| allocated::written(writers, functions));
            return Datum::shared(vec![name]);
        }
        let (writers, readers): (Vec<&Touch>, Vec<&Touch>) =
            conflict.sides.iter().partition(|side| side.written != 0);
        let written = |side: &Touch| {
            first(side.written).unwrap_or_else(|| allocated::written([side], functions))
        };
        let read =
            |side: &&Touch| first(side.read).unwrap_or_else(|| allocated::read([*side], functions));
        let mut fields: BTreeSet<_> = writers.iter().copied().map(written).collect();
        let mut beside: BTreeSet<_> = readers.iter().map(read).collect();
        if let (true, Some(first)) = (beside.is_empty(), conflict.first_writer()) {
            let own = written(first);
            (fields, beside) = fields.into_iter().partition(|name| *name == own);
        }
        Datum::falsely_shared(fields.into_iter().collect(), beside.into_iter().collect())
    }

    /// The name of the data at an address; `None` if the program has allocated this memory.
    fn at(&self, address: u64) -> Option<String> {
        let name = |name: &str, start: u64| match address - start {
            0 => name.to_owned(),
            offset => format!("{name}+{offset:#x}"),
        };
        let variable = self.variables.range(..=address).next_back();
        if let Some((start, (end, known))) = variable
            && address < *end
        {
            return Some(name(known, *start));
        }
        if let Some((start, file)) = self.file(address) {
            return Some(name(&file.name, start));
        }
        let of = |stack: &Range<u64>| stack.contains(&address);
        let kind = if of(&self.stack) { Some(STACK) } else { None };
        kind.or_else(|| self.threads.iter().any(of).then_some(THREAD)).map(str::to_owned)
    }

    /// The file that is mapped at an address, with the first address of the mapping.
    fn file(&self, address: u64) -> Option<(u64, &File)> {
        let (start, file) = self.files.range(..=address).next_back()?;
        (address < file.end).then_some((*start, file))
    }

    /// Adds the symbols of a file whose first byte is mapped at `start`. Ignores a file that is not
    /// an object file.
    fn load(&mut self, path: &Path, start: u64) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let unnamed = format!("{name}{}", allocated::NO_SYMBOLS);
        // If the program was started again, it has mapped this file at the same address as before, so the
        // symbols of the file are already known.
        if self.files.get(&start).is_some_and(|known| known.name == name) {
            return;
        }
        // Other files can be large, and do not count.
        let mut magic = [0; ELF.len()];
        let opened = RegularFile::at(path).open();
        if !opened.is_ok_and(|mut file| file.read_exact(&mut magic).is_ok() && magic == *ELF) {
            return;
        }
        let Ok(content) = RegularFile::at(path).at_most(self.left).read() else { return };
        self.left -= content.len() as u64;
        let Ok(file) = object::File::parse(&*content) else { return };
        let Some(first) = file.segments().map(|segment| segment.address()).min() else { return };
        let end =
            file.segments().map(|segment| segment.address().saturating_add(segment.size())).max();
        // Segments are mapped from page boundaries.
        let bias = start.wrapping_sub(first & !0xfff);
        let at = |address: u64| bias.wrapping_add(address);
        let end = at(end.unwrap_or(first));
        self.files.insert(start, File { name, end, bias, lines: Lines::of(&file) });
        // A stripped file still has the symbols that it exports.
        let is_stripped = file.symbols().next().is_none();
        let left = file.dynamic_symbols().filter(|_| is_stripped);
        let mut ends = BTreeSet::from([start]);
        for symbol in file.symbols().chain(left).filter(|symbol| symbol.is_definition()) {
            let Ok(mangled) = symbol.name() else { continue };
            if !self.names.admits(mangled) {
                continue;
            }
            // The format `{:#}` leaves out the hash at the end of the name.
            let name = || format!("{:#}", rustc_demangle::demangle(mangled));
            let range = at(symbol.address())..at(symbol.address().wrapping_add(symbol.size()));
            match symbol.kind() {
                SymbolKind::Text => {
                    self.functions.add(range.start, name);
                    ends.insert(range.end);
                }
                SymbolKind::Data => {
                    self.variables.entry(range.start).or_insert_with(|| (range.end, name()));
                }
                _ => {}
            }
        }
        for end in ends {
            self.functions.add(end, || unnamed.clone());
        }
    }
}

/// A line of `/proc/self/maps`.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'l> {
    range: Range<u64>,
    offset: u64,
    /// A path, a name in brackets such as `[stack]`, or nothing.
    name: &'l str,
}

impl Mapping<'_> {
    fn parse(line: &str) -> Option<Mapping<'_>> {
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        // A path may contain spaces, but the fields before the path contain no slash and no
        // bracket.
        let name = line.find(['/', '[']).map_or("", |at| line[at..].trim_end());
        Some(Mapping { range: number(start)?..number(end)?, offset: number(offset)?, name })
    }
}

/// The units of [`ALIGNMENT`] bytes that contain bytes of a line. Bit n stands for unit n.
fn units(bytes: u64) -> u8 {
    set_bits(bytes).fold(0, |units, byte| units | 1 << (byte / ALIGNMENT))
}

fn set_bits(mask: u64) -> impl Iterator<Item = u64> {
    (0..64).filter(move |bit| mask >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    static VARIABLE: [u64; 4] = [7; 4];

    #[inline(never)]
    fn function(of: u64) -> u64 {
        std::hint::black_box(of + 1)
    }

    /// The names of this process's code and data.
    fn names() -> ProgramNames {
        let mut names = ProgramNames::default();
        let mappings = std::fs::read_to_string("/proc/self/maps").expect("Linux");
        mappings.lines().for_each(|line| names.learn(line));
        names
    }

    fn touch(side: usize, read: u64, written: u64) -> Touch {
        Touch {
            side,
            first: 0,
            last: 0,
            read,
            written,
            virtuals: Vec::new(),
            writers: Vec::new(),
            readers: Vec::new(),
            callers: Vec::new(),
        }
    }

    #[test]
    fn functions_are_named_by_symbols_and_by_debug_information() {
        let mut names = names();
        let code = function as *const () as u64;
        assert_eq!(names.functions().at(code), Some("knee_trace::symbols::tests::function"));
        let sides = vec![Touch { writers: vec![code], ..touch(0, 0, 1) }, touch(1, 1, 0)];
        let conflicts = vec![Conflict {
            line: 0,
            overlap: true,
            sides,
            datum: None,
            by_position: false,
            object: None,
        }];
        let mut run = TestResult {
            test: 0,
            sides: Vec::new(),
            conflicts,
            more: 0,
            stray: 0,
            taken: 0,
            fetched: 0,
            moves: Vec::new(),
            accesses: Vec::new(),
            impossible: false,
        };
        names.look_up(std::slice::from_mut(&mut run));
        let datum = run.conflicts[0].datum.as_ref();
        let named = "memory that knee_trace::symbols::tests writes";
        assert_eq!(datum.map(ToString::to_string).as_deref(), Some(named));
        let name = names.functions().at(code).unwrap_or_default();
        assert!(name.contains("function") && name.contains("symbols.rs:"), "{name}");
        assert_eq!(names.functions().at(1), None);
    }

    #[test]
    fn data_are_named_by_variables_or_by_the_kind_of_memory() {
        let mut names = names();
        let at = VARIABLE.as_ptr() as u64;
        let variable = "knee_trace::symbols::tests::VARIABLE";
        assert_eq!(names.at(at).as_deref(), Some(variable));
        assert_eq!(names.at(at + 9), Some(format!("{variable}+0x9")));
        let (allocated, own) = (Box::new(0_u64), 0_u64);
        let (allocated, own) = (&raw const *allocated as u64, &raw const own as u64);
        assert_eq!([names.at(allocated), names.at(own)], [None, None]);
        names.learn_thread(own);
        assert_eq!(names.at(own).as_deref(), Some(THREAD));
        names.restart();
        assert_eq!(names.at(own), None);
    }

    #[test]
    fn true_sharing_is_named_by_the_shared_bytes_and_false_sharing_by_the_bytes_of_each_side() {
        let names = names();
        let line = VARIABLE.as_ptr() as u64;
        let datum = |sides: [Touch; 3]| {
            let sides = sides.into();
            let datum = names.datum(&Conflict {
                line,
                overlap: false,
                sides,
                datum: None,
                by_position: false,
                object: None,
            });
            datum.to_string().replace("knee_trace::symbols::tests::VARIABLE", "")
        };
        let bytes = |side, byte: u64| touch(side, 1 << byte, 1 << byte);
        let each = [bytes(0, 1), bytes(1, 2), bytes(2, 3)];
        assert_eq!(datum(each), "+0x1 / +0x2, +0x3");
        assert_eq!(datum([bytes(0, 1), bytes(1, 3), bytes(2, 3)]), "+0x3");
    }

    #[test]
    fn false_sharing_in_allocated_memory_depends_on_the_address_if_a_run_without_it_shows_this() {
        let mut names = names();
        let heap = 1 << 20;
        let conflict = |line, sides: [Touch; 2]| Conflict {
            line,
            overlap: false,
            sides: sides.into(),
            datum: None,
            by_position: false,
            object: None,
        };
        let run = |conflicts| TestResult {
            test: 0,
            sides: Vec::new(),
            conflicts,
            more: 0,
            stray: 0,
            taken: 0,
            fetched: 0,
            moves: Vec::new(),
            accesses: Vec::new(),
            impossible: false,
        };
        let mut flagged = |line, sides: [Touch; 2], has_free_run: bool| {
            let mut runs = vec![run(vec![conflict(line, sides)])];
            runs.extend(has_free_run.then(|| run(Vec::new())));
            names.look_up(&mut runs);
            runs[0].conflicts[0].by_position
        };
        let apart = || [touch(0, 0, 1), touch(1, 1 << 16, 0)];
        assert!(flagged(heap, apart(), true));
        assert!(!flagged(heap, apart(), false), "every run shares the line");
        assert!(!flagged(VARIABLE.as_ptr() as u64, apart(), true), "a variable stays in its line");
        assert!(!flagged(heap, [touch(0, 0, 1), touch(1, 1 << 15, 0)], true), "one unit");
        assert!(!flagged(heap, [touch(0, 0, 1), touch(1, 1, 0)], true), "true sharing");
        assert!(
            flagged(heap, [touch(0, 1, 1 << 40), touch(1, 1, 0)], true),
            "both only read a byte"
        );
    }

    #[test]
    fn the_path_of_a_mapping_may_contain_spaces() {
        let line = "4000000000-400001e000 r--p 0000a000 fe:00 5882663    /a program (deleted)";
        let mapping = Mapping::parse(line).expect("a mapping");
        assert_eq!(mapping.range, 0x40_0000_0000..0x40_0001_e000);
        assert_eq!((mapping.offset, mapping.name), (0xa000, "/a program (deleted)"));
        assert_eq!(
            Mapping::parse("1000-2000 rw-p 00000000 00:00 0").map(|mapping| mapping.name),
            Some("")
        );
        assert_eq!(Mapping::parse("half a line"), None);
    }
}
