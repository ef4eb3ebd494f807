//! knee's own kernel (the knee-kernel crate): an ELF file that QEMU boots through the PVH protocol. Its
//! symbols name the code and the static data of the guest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use knee_host::RegularFile;
use knee_operations::MEMORY_NAMES;
use object::elf::{EM_X86_64, FileHeader64, NoteType};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

use crate::datum::{DataNames, LINE_BYTES};
use crate::functions::Functions;
use crate::kernel::KernelError;
use crate::name_limit::NameLimit;
use crate::record::Conflict;

/// The name and the type of an ELF note.
type Note<'a> = (&'a [u8], NoteType);
/// The note that contains the PVH entry point: XEN_ELFNOTE_PHYS32_ENTRY of xen/include/public/elfnote.h.
const PVH: Note<'static> = (b"Xen", NoteType(18));
/// The note that contains [`knee_plan::SOURCES`].
const SOURCES: Note<'static> = (b"knee", NoteType(1));
/// The virtual addresses of physical memory and of the kernel's image.
const DIRECT: u64 = 0xffff_8000_0000_0000;
const IMAGE: u64 = 0xffff_ffff_8000_0000;
/// The prefix of a console line that names a range of physical memory.
const MEMORY: &str = "knee-memory: ";

/// Maximum number of ranges of memory. knee's kernel names about ten.
const MAX_MEMORY: usize = 1000;

/// A build of knee's own kernel.
pub struct KneeKernel {
    path: PathBuf,
    image: Vec<u8>,
    functions: Functions,
    /// The variables: the key is the first address, and the value is the end (exclusive) and the name.
    variables: BTreeMap<u64, (u64, String)>,
}

impl KneeKernel {
    /// The names of the operations that the kernel can measure, as for [`cost`](fn@crate::cost).
    pub const OPERATIONS: &[&str] = &MEMORY_NAMES;
    /// The calls of the interface `posix` that the kernel has, as for [`check`](fn@crate::check).
    pub const CALLS: &[&str] = &["mmap", "munmap", "mprotect", "memread", "memwrite"];
    /// The maximum number of virtual CPUs: the constant of the same name in the knee-kernel crate.
    pub const MOST_CPUS: u32 = 16;

    /// The kernel in a file.
    pub fn open(path: &Path) -> Result<KneeKernel, KernelError> {
        let wrong = |why| KernelError::NotKnee { path: path.to_owned(), why };
        let image = RegularFile::at(path).read().map_err(KernelError::read(path))?;
        let notes = notes(&image).ok_or_else(|| wrong("is not an x86-64 ELF file"))?;
        if !notes.contains_key(&PVH) {
            return Err(wrong("has no PVH note, so QEMU cannot boot it"));
        }
        if notes.get(&SOURCES) != Some(&&knee_plan::SOURCES.to_le_bytes()[..]) {
            return Err(wrong("is not built from the same sources as this knee"));
        }
        let mut kernel = KneeKernel {
            path: path.to_owned(),
            image: Vec::new(),
            functions: Functions::default(),
            variables: BTreeMap::new(),
        };
        kernel.add_symbols(&image).ok_or_else(|| wrong("is a broken ELF file"))?;
        kernel.image = image;
        Ok(kernel)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's content.
    pub(crate) fn image(&self) -> &[u8] {
        &self.image
    }

    fn add_symbols(&mut self, image: &[u8]) -> Option<()> {
        let file = object::File::parse(image).ok()?;
        let mut names = NameLimit::default();
        let is_code = |symbol: &object::Symbol<'_, '_>| {
            let section = symbol.section_index().and_then(|at| file.section_by_index(at).ok());
            section.is_some_and(|section| section.kind() == SectionKind::Text)
        };
        for symbol in file.symbols().filter(ObjectSymbol::is_definition) {
            let (address, Ok(mangled)) = (symbol.address(), symbol.name()) else { continue };
            let is_admitted = names.admits(mangled);
            // The format `{:#}` leaves out the hash at the end of the name.
            let name = || match is_admitted {
                true => format!("{:#}", rustc_demangle::demangle(mangled)),
                // Without a name, its code would have that of the function before.
                false => "[unnamed]".to_owned(),
            };
            match symbol.kind() {
                SymbolKind::Text => self.functions.add(address, name),
                SymbolKind::Data => {
                    self.variables.insert(address, (address.saturating_add(symbol.size()), name()));
                }
                // A label in assembly.
                _ if is_code(&symbol) && !mangled.is_empty() => self.functions.add(address, name),
                _ => {}
            }
        }
        Some(())
    }
}

/// The contents of the notes of an ELF file; `None` if this is not an ELF file for x86-64.
fn notes(image: &[u8]) -> Option<BTreeMap<Note<'_>, &[u8]>> {
    let header = FileHeader64::<Endianness>::parse(image).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != EM_X86_64 {
        return None;
    }
    let segments = header.program_headers(endian, image).ok()?;
    let notes = segments.iter().filter_map(|segment| segment.notes(endian, image).ok().flatten());
    let notes = notes.flat_map(|mut notes| std::iter::from_fn(move || notes.next().ok().flatten()));
    Some(notes.map(|note| ((note.name(), note.n_type(endian)), note.desc())).collect())
}

/// Names the data of a guest with knee's own kernel.
pub(crate) struct KneeData<'a> {
    kernel: &'a KneeKernel,
    /// The ranges of physical memory: the key is the first address, and the value is the end (exclusive) and
    /// the name.
    memory: BTreeMap<u64, (u64, String)>,
}

impl<'a> KneeData<'a> {
    pub(crate) fn new(kernel: &'a KneeKernel) -> KneeData<'a> {
        KneeData { kernel, memory: BTreeMap::new() }
    }

    /// The kernel's functions.
    pub(crate) fn functions(&self) -> &'a Functions {
        &self.kernel.functions
    }

    /// Adds the range of memory that a console line names, if it names one.
    pub(crate) fn learn(&mut self, line: &str) {
        let Some((_, range)) = line.split_once(MEMORY) else { return };
        let mut words = range.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
        if let (Some(start), Some(end), Some(name)) = (number(), number(), words.next())
            && self.memory.len() < MAX_MEMORY
        {
            self.memory.insert(start, (end, name.to_owned()));
        }
    }

    /// The variable or the kind of memory at a virtual address, and the offset in the variable.
    fn name(&self, address: u64) -> (&str, u64) {
        if address >= IMAGE {
            return within(&self.kernel.variables, address).unwrap_or(("static data", 0));
        }
        let named = within(&self.memory, address.wrapping_sub(DIRECT));
        named.map_or(("memory", 0), |(name, _)| (name, 0))
    }
}

/// The name of the range that contains an address, and the offset of the address in the range.
fn within(ranges: &BTreeMap<u64, (u64, String)>, address: u64) -> Option<(&str, u64)> {
    let (start, (end, name)) = ranges.range(..=address).next_back()?;
    (address < *end).then_some((name, address - start))
}

impl DataNames for KneeData<'_> {
    fn fields(&mut self, conflict: &Conflict, bytes: u64) -> Vec<String> {
        let virtuals = conflict.sides.iter().flat_map(|side| &side.virtuals);
        let base = virtuals.copied().max().unwrap_or(DIRECT.wrapping_add(conflict.line));
        // The types of variables are unknown, so fields have no names. If `bytes` contains several words of
        // one variable, the variable is named only once, with the offset of the first of these words.
        let mut named: Vec<(&str, u64)> = Vec::new();
        for word in (0..LINE_BYTES).step_by(8).filter(|word| bytes >> word & 0xff != 0) {
            let (name, offset) = self.name(base.wrapping_add(word));
            if !named.iter().any(|(known, _)| *known == name) {
                named.push((name, offset));
            }
        }
        let shown = |(name, offset): (&str, u64)| match offset {
            0 => name.to_owned(),
            offset => format!("{name}+{offset:#x}"),
        };
        named.into_iter().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{CheckError, calibrate};
    use crate::guest::GuestOptions;
    use crate::guest_kernel::GuestKernel;

    /// A kernel without code.
    fn kernel() -> KneeKernel {
        KneeKernel {
            path: PathBuf::new(),
            image: Vec::new(),
            functions: Functions::default(),
            variables: [(IMAGE + 0x1000, (IMAGE + 0x1040, "BOARD".to_owned()))].into(),
        }
    }

    #[test]
    fn tests_that_do_not_fit_into_the_guest_are_refused_before_the_boot() {
        let guest = GuestOptions { memory: 80, ..GuestOptions::default() };
        let error = calibrate(&GuestKernel::Knee(kernel()), &guest).unwrap_err();
        let is_room = matches!(error, CheckError::TooLarge { needed: 1, available: 0, .. });
        assert!(is_room, "{error}");
    }

    #[test]
    fn data_are_named_by_symbols_and_by_the_ranges_that_the_kernel_prints() {
        let kernel = kernel();
        let mut data = KneeData::new(&kernel);
        data.learn("Booting from ROM..knee-memory: 0x1000 0x3000 FrameMeta");
        data.learn("knee-memory: 0x3000 nonsense");
        for (address, name) in [
            (IMAGE + 0x1000, ("BOARD", 0)),
            (IMAGE + 0x1008, ("BOARD", 8)),
            (IMAGE + 0x1040, ("static data", 0)),
            (DIRECT + 0x2fff, ("FrameMeta", 0)),
            (DIRECT + 0x3000, ("memory", 0)),
            (0x1000, ("memory", 0)),
        ] {
            assert_eq!(data.name(address), name, "{address:#x}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        let own = std::env::current_exe().expect("this test runs");
        let error = |path: &Path| KneeKernel::open(path).map(drop).unwrap_err().to_string();
        assert!(error(&own).contains("has no PVH note"));
        assert!(error(Path::new("Cargo.toml")).contains("Cargo.toml is not an x86-64 ELF file"));
        assert!(error(Path::new("/nowhere")).starts_with("cannot read /nowhere: "));
    }
}
