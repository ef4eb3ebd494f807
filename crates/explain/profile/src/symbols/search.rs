//! The cost of finding a symbol in a program that other users can change.
//!
//! blazesym 0.2.7 compares an address with each symbol that begins at the same place, and reads a symbol's name to its
//! end. It looks at all program headers for each address, and, if it cannot read the file, at all section headers.
//! All of these can be as large as the file. So knee counts them, and [`super::budget`] limits their sum over all
//! addresses.

use std::fs::File;

use memmap2::Mmap;
use object::NativeEndian;
use object::elf::{FileHeader64, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, Sym64};
use object::read::elf::{FileHeader, SectionHeader, Sym};

type Header = FileHeader64<NativeEndian>;
type Section = <Header as FileHeader>::SectionHeader;

/// The most symbols of a table. A large browser has a million.
const MOST_SYMBOLS: usize = 2_000_000;
/// The most sections, and the longest name of a section, both ten times what linkers make.
const MOST_SECTIONS: usize = 1_000;
const LONGEST_SECTION_NAME: usize = 512;
/// The steps of a section: five sections are found by name, and each name is compared and checked.
const SECTION_STEPS: usize = 10;
/// The bytes of a name that are read in one step, in which one symbol is compared.
const NAME_BYTES: usize = 64;

/// The most steps in which the symbolizer finds an address in this copy of a program. `None` if the file is not a
/// 64-bit program of this byte order, or has too many symbols or sections.
///
/// The symbolizer ignores the byte order of a file, so in another one it would read other tables than this function.
pub(super) fn steps(copy: &File) -> Option<u64> {
    // SAFETY: the file is a copy in memory that nobody else can open, and knee does not change it.
    let bytes = unsafe { Mmap::map(copy) }.ok()?;
    steps_of(&bytes)
}

fn steps_of(bytes: &[u8]) -> Option<u64> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.phnum(endian, bytes).ok()? as usize;
    let sections = header.section_headers(endian, bytes).ok()?;
    if sections.len() > MOST_SECTIONS {
        return None;
    }
    if sections.is_empty() {
        return Some(headers as u64);
    }
    let names = header.shstrndx(endian, bytes).ok()? as usize;
    let names = sections.get(names)?.data(endian, bytes).ok()?;
    if longest_name(names) > LONGEST_SECTION_NAME {
        return None;
    }
    let mut steps = headers + SECTION_STEPS * sections.len();
    for section in sections {
        let name = names.get(section.sh_name(endian) as usize..).unwrap_or_default();
        if [".symtab\0", ".dynsym\0"].iter().any(|table| name.starts_with(table.as_bytes())) {
            // The symbolizer goes backward to the first symbol at a place, and forward to a fitting one.
            steps += 2 * most_at_one_place(section, endian, bytes)?;
        } else if [".strtab\0", ".dynstr\0"].iter().any(|table| name.starts_with(table.as_bytes()))
        {
            steps += longest_name(section.data(endian, bytes).ok()?) / NAME_BYTES;
        }
    }
    Some(steps as u64)
}

/// The most symbols of a table that begin at one place. `None` if the table is too large or damaged.
fn most_at_one_place(table: &Section, endian: NativeEndian, bytes: &[u8]) -> Option<usize> {
    let symbols: &[Sym64<NativeEndian>] = table.data_as_array(endian, bytes).ok()?;
    if symbols.len() > MOST_SYMBOLS {
        return None;
    }
    let is_code_or_data = |kind| [STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC].contains(&kind);
    let found = symbols.iter().filter(|symbol| is_code_or_data(symbol.st_type()));
    let mut places: Vec<u64> = found.map(|symbol| symbol.st_value(endian)).collect();
    places.sort_unstable();
    Some(places.chunk_by(u64::eq).map(<[u64]>::len).max().unwrap_or(0))
}

fn longest_name(strings: &[u8]) -> usize {
    strings.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Where a program has the header of a section.
    fn section(program: &[u8], name: &str) -> usize {
        let header = Header::parse(program).unwrap();
        let endian = header.endian().unwrap();
        let sections = header.sections(endian, program).unwrap();
        let (number, _) = sections.section_by_name(endian, name.as_bytes()).expect(name);
        header.e_shoff.get(endian) as usize + number.0 * size_of::<Section>()
    }

    /// Where a section has its offset and size.
    const OFFSET: usize = 0x18;
    const SIZE: usize = 0x20;

    fn write(program: &mut [u8], at: usize, number: u64) {
        program[at..at + 8].copy_from_slice(&number.to_ne_bytes());
    }

    /// A program with these bytes in the place of one of its sections.
    pub(crate) fn with_section(mut program: Vec<u8>, name: &str, content: &[u8]) -> Vec<u8> {
        let section = section(&program, name);
        program.resize(program.len().next_multiple_of(8), 0);
        let end = program.len() as u64;
        write(&mut program, section + OFFSET, end);
        write(&mut program, section + SIZE, content.len() as u64);
        program.extend(content);
        program
    }

    /// Functions at one place.
    pub(crate) fn symbols(count: usize, place: u64) -> Vec<u8> {
        let mut symbol = [0; 24];
        symbol[4] = STT_FUNC.0;
        symbol[8..16].copy_from_slice(&place.to_ne_bytes());
        symbol.repeat(count)
    }

    fn program() -> Vec<u8> {
        std::fs::read("/bin/true").unwrap()
    }

    #[test]
    fn the_steps_of_a_program_grow_with_the_symbols_at_one_place_and_with_the_longest_name() {
        let few = steps_of(&program()).unwrap();
        assert!(few < 2_000, "{few} steps");
        let many = with_section(program(), ".dynsym", &symbols(100_000, 0x1000));
        let many = steps_of(&many).unwrap();
        assert!((200_000..202_000).contains(&many), "{many} steps");
        let long = steps_of(&with_section(program(), ".dynstr", &[b'x'; 6_400_000])).unwrap();
        assert!((100_000..102_000).contains(&long), "{long} steps");
    }

    #[test]
    fn a_program_with_too_many_symbols_has_no_names() {
        let many = symbols(MOST_SYMBOLS + 1, 0);
        assert_eq!(steps_of(&with_section(program(), ".dynsym", &many)), None);
        let mut beyond = program();
        let size = section(&beyond, ".dynsym") + SIZE;
        write(&mut beyond, size, 1 << 40);
        assert_eq!(steps_of(&beyond), None);
    }

    #[test]
    fn a_program_with_too_many_sections_or_too_long_names_of_them_has_no_names() {
        let long = with_section(program(), ".shstrtab", &[b'x'; LONGEST_SECTION_NAME + 1]);
        assert_eq!(steps_of(&long), None);
        let mut many = program();
        let start = many.len().next_multiple_of(8);
        many.resize(start + (MOST_SECTIONS + 1) * size_of::<Section>(), 0);
        // e_shoff and e_shnum.
        write(&mut many, 0x28, start as u64);
        many[0x3c..0x3e].copy_from_slice(&(MOST_SECTIONS as u16 + 1).to_ne_bytes());
        assert_eq!(steps_of(&many), None);
    }

    #[test]
    fn a_program_of_another_class_or_byte_order_has_no_names() {
        assert!(steps_of(&program()).is_some());
        // EI_CLASS and EI_DATA.
        for place in [4, 5] {
            let mut other = program();
            other[place] = 3 - other[place];
            assert_eq!(steps_of(&other), None);
        }
    }
}
