//! Parses the kernel's description of its own types, in the BPF type format
//! (Documentation/bpf/btf.rst of Linux).
//!
//! The description is in a guest's memory and may be invalid. So type numbers and string offsets are checked
//! where they are used, and chains of references have a maximum length.

use std::collections::HashMap;

use crate::name_limit::{LONGEST_OF_LINUX, NameLimit};

/// A type's number. 0 is `void`.
pub(crate) type TypeId = u32;

const MAGIC: u16 = 0xeb9f;
/// Bytes of a pointer on x86-64.
pub(crate) const POINTER_BYTES: u64 = 8;
/// Maximum size in bytes of the kernel's description, and of the descriptions of all modules together. The
/// descriptions of today's kernels take 5 MiB.
pub(super) const MAX_BTF: u64 = 64 << 20;
/// Maximum length of the names of all structs and enumerators together, in bytes. Those of today's kernels take 1 MiB.
const MAX_NAMES: usize = 16 << 20;
/// Maximum length of a chain of typedefs and qualifiers; a longer chain must be a cycle.
const MAX_CHAIN: usize = 32;

/// Maximum number of fields to look at for one name. The largest structs have a few hundred fields, including
/// those of anonymous members. Without this limit, the search would take forever if anonymous members
/// contained themselves.
pub(super) const MAX_LOOKS: usize = 20_000;
/// Maximum number of fields of a struct that are kept. The largest structs have a few hundred fields.
const MAX_MEMBERS: usize = 4_096;

/// Why a description of types is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BtfError {
    /// The description does not begin with the magic number.
    NoBtf,
    /// The description ends within this type, or the type has an unknown kind.
    Type(TypeId),
}

/// A type.
#[derive(Debug)]
pub(crate) struct Type {
    name: u32,
    pub(crate) kind: Kind,
}

/// The kind of a type.
#[derive(Debug)]
pub(crate) enum Kind {
    Void,
    /// An integer, an enumeration or a floating-point number of this size in bytes.
    Scalar(u64),
    Pointer(TypeId),
    Array {
        element: TypeId,
        count: u64,
    },
    Composite {
        bytes: u64,
        is_union: bool,
        members: Vec<Member>,
    },
    /// A typedef, qualifier or tag of another type.
    Same(TypeId),
    Variable(TypeId),
    /// Variables of an ELF section, with their offsets in the section.
    Section(Vec<(u64, TypeId)>),
    /// A function, a function's type, a forward declaration or a declaration tag. No variable or field has a
    /// type of this kind.
    Other,
}

/// A field of a struct or union.
#[derive(Debug)]
pub(crate) struct Member {
    name: u32,
    pub(crate) of: TypeId,
    /// Offset from the start of the struct, in bits.
    bits: u32,
}

impl Member {
    pub(crate) fn offset(&self) -> u64 {
        u64::from(self.bits / 8)
    }
}

/// Translates the type numbers and string offsets of a module's description. Each module continues the
/// kernel's numbering, so different modules use the same number for different types.
#[derive(Clone, Copy, Debug, Default)]
struct Split {
    /// Type numbers and string offsets below these limits belong to the kernel's description.
    kernel_types: u32,
    kernel_strings: u32,
    /// These amounts are added to the type numbers and string offsets of a module.
    more_types: u32,
    more_strings: u32,
}

impl Split {
    fn id(&self, id: u32) -> TypeId {
        if id < self.kernel_types { id } else { id.saturating_add(self.more_types) }
    }

    fn name(&self, at: u32) -> u32 {
        if at < self.kernel_strings { at } else { at.saturating_add(self.more_strings) }
    }
}

/// All types of a kernel and of its modules.
#[derive(Debug)]
pub(crate) struct Btf {
    types: Vec<Type>,
    strings: Vec<u8>,
    composites: HashMap<Vec<u8>, TypeId>,
    enumerators: HashMap<Vec<u8>, u64>,
    /// Limits the names in `composites` and `enumerators`. In a description with a single long string, each offset
    /// into the string is another name.
    names: NameLimit,
    /// How many types, and how many bytes of strings, belong to the kernel's own description.
    kernel: (u32, u32),
}

impl Btf {
    /// Parses the bytes between `__start_BTF` and `__stop_BTF`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Btf, BtfError> {
        let mut btf = Btf {
            types: vec![Type { name: 0, kind: Kind::Void }],
            strings: Vec::new(),
            composites: HashMap::new(),
            enumerators: HashMap::new(),
            names: NameLimit::of_linux(MAX_NAMES),
            kernel: (0, 0),
        };
        btf.read(bytes, Split::default())?;
        btf.kernel = (btf.types.len() as u32, btf.strings.len() as u32);
        Ok(btf)
    }

    /// Adds the types of a module, whose description extends the kernel's.
    ///
    /// # Errors
    /// The description is invalid. The types before the error are kept.
    pub(crate) fn add_module(&mut self, bytes: &[u8]) -> Result<(), BtfError> {
        let (kernel_types, kernel_strings) = self.kernel;
        let more_types = self.types.len() as u32 - kernel_types;
        let more_strings = self.strings.len() as u32 - kernel_strings;
        self.read(bytes, Split { kernel_types, kernel_strings, more_types, more_strings })
    }

    fn read(&mut self, bytes: &[u8], split: Split) -> Result<(), BtfError> {
        let header = Words { bytes, at: 0 };
        let magic = bytes.get(..2).map(|magic| u16::from_le_bytes([magic[0], magic[1]]));
        if magic != Some(MAGIC) {
            return Err(BtfError::NoBtf);
        }
        let word = |at| Words { at, ..header }.next().map(|word| word as usize);
        let section = |offset: usize, length: usize| {
            let begin = word(4)?.checked_add(word(offset)?)?;
            bytes.get(begin..begin.checked_add(word(length)?)?)
        };
        let types = section(8, 12).ok_or(BtfError::NoBtf)?;
        let strings = section(16, 20).ok_or(BtfError::NoBtf)?;
        self.strings.extend_from_slice(strings);
        let mut words = Words { bytes: types, at: 0 };
        while words.at < types.len() {
            let id = self.types.len() as TypeId;
            self.read_type(id, &mut words, split).ok_or(BtfError::Type(id))?;
        }
        Ok(())
    }

    fn read_type(&mut self, id: TypeId, words: &mut Words<'_>, split: Split) -> Option<()> {
        let (name, info, size_or_type) = (words.next()?, words.next()?, words.next()?);
        let name = split.name(name);
        let (count, has_bit_sizes) = (info & 0xffff, info >> 31 == 1);
        let bytes = u64::from(size_or_type);
        let kind = match info >> 24 & 0x1f {
            1 => {
                words.next()?;
                Kind::Scalar(bytes)
            }
            2 => Kind::Pointer(split.id(size_or_type)),
            3 => {
                let (element, _, count) = (words.next()?, words.next()?, words.next()?);
                Kind::Array { element: split.id(element), count: count.into() }
            }
            kind @ (4 | 5) => {
                let mut members = Vec::new();
                for _ in 0..count {
                    let (name, of, bits) = (words.next()?, words.next()?, words.next()?);
                    let bits = if has_bit_sizes { bits & 0xff_ffff } else { bits };
                    if members.len() < MAX_MEMBERS {
                        members.push(Member { name: split.name(name), of: split.id(of), bits });
                    }
                }
                Kind::Composite { bytes, is_union: kind == 5, members }
            }
            kind @ (6 | 19) => {
                for _ in 0..count {
                    let (name, low) = (words.next()?, words.next()?);
                    let high = if kind == 19 { words.next()? } else { 0 };
                    let value = u64::from(high) << 32 | u64::from(low);
                    self.add_enumerator(split, split.name(name), value);
                }
                Kind::Scalar(bytes)
            }
            8..=11 | 18 => Kind::Same(split.id(size_or_type)),
            7 | 12 => Kind::Other,
            13 => {
                words.skip(2 * count)?;
                Kind::Other
            }
            14 => {
                words.next()?;
                Kind::Variable(split.id(size_or_type))
            }
            15 => {
                let mut variables = Vec::new();
                for _ in 0..count {
                    let (of, offset, _) = (words.next()?, words.next()?, words.next()?);
                    variables.push((offset.into(), split.id(of)));
                }
                Kind::Section(variables)
            }
            16 => Kind::Scalar(bytes),
            17 => {
                words.next()?;
                Kind::Other
            }
            _ => return None,
        };
        if let Kind::Composite { .. } = kind {
            let own = string(&self.strings, name);
            if !self.composites.contains_key(own) && self.names.admits(own) {
                self.composites.insert(own.to_vec(), id);
            }
        }
        self.types.push(Type { name, kind });
        Some(())
    }

    fn add_enumerator(&mut self, split: Split, name: u32, value: u64) {
        let name = string(&self.strings, name);
        match self.enumerators.get_mut(name) {
            // A module's enumerator does not replace a kernel enumerator of the same name.
            Some(known) if split.kernel_types == 0 => *known = value,
            Some(_) => {}
            None if self.names.admits(name) => {
                self.enumerators.insert(name.to_vec(), value);
            }
            None => {}
        }
    }

    /// The kind of a type; `void` if no type has this number.
    pub(crate) fn kind(&self, id: TypeId) -> &Kind {
        self.types.get(id as usize).map_or(&Kind::Void, |of| &of.kind)
    }

    /// A type's name, which may be empty.
    pub(crate) fn name(&self, id: TypeId) -> &str {
        self.types.get(id as usize).map_or("", |of| self.text(of.name))
    }

    /// A field's name, which may be empty.
    pub(crate) fn member_name(&self, member: &Member) -> &str {
        self.text(member.name)
    }

    /// The type behind typedefs and qualifiers.
    pub(crate) fn resolve(&self, id: TypeId) -> TypeId {
        let mut id = id;
        for _ in 0..MAX_CHAIN {
            match self.kind(id) {
                Kind::Same(of) | Kind::Variable(of) => id = *of,
                _ => break,
            }
        }
        id
    }

    /// The name of a field's type: the type's own name or, if the type is an unnamed qualifier (such as
    /// `const`), the name of the qualified type.
    pub(crate) fn known_as(&self, id: TypeId) -> &str {
        let mut id = id;
        for _ in 0..MAX_CHAIN {
            match (self.kind(id), self.name(id)) {
                (Kind::Same(of), "") => id = *of,
                (_, name) => return name,
            }
        }
        ""
    }

    /// The size of a type in bytes; 0 if the type has no size.
    pub(crate) fn bytes(&self, id: TypeId) -> u64 {
        self.bytes_within(id, MAX_CHAIN)
    }

    fn bytes_within(&self, id: TypeId, depth: usize) -> u64 {
        match self.kind(self.resolve(id)) {
            Kind::Scalar(bytes) | Kind::Composite { bytes, .. } => *bytes,
            Kind::Pointer(_) => POINTER_BYTES,
            Kind::Array { element, count } if depth > 0 => {
                self.bytes_within(*element, depth - 1).saturating_mul(*count)
            }
            _ => 0,
        }
    }

    /// The struct or union with this name.
    pub(crate) fn composite(&self, name: &str) -> Option<TypeId> {
        self.composites.get(name.as_bytes()).copied()
    }

    /// The value of the enumerator with this name, in any enumeration.
    pub(crate) fn enumerator(&self, name: &str) -> Option<u64> {
        self.enumerators.get(name.as_bytes()).copied()
    }

    /// The offset of a field in a struct. The path is written as in C: `page.slab_cache`. Fields of
    /// anonymous members count as the struct's own.
    pub(crate) fn offset(&self, path: &str) -> Option<u64> {
        let mut names = path.split('.');
        let mut within = self.composite(names.next()?)?;
        let mut offset = 0;
        for name in names {
            let (at, of) = self.member(within, name)?;
            offset += at;
            within = of;
        }
        Some(offset)
    }

    /// The offset and the type of a field. Fields of anonymous members count as the struct's own.
    fn member(&self, within: TypeId, name: &str) -> Option<(u64, TypeId)> {
        let mut looks = MAX_LOOKS;
        self.nested_member(within, name, MAX_CHAIN, &mut looks)
    }

    fn nested_member(
        &self,
        within: TypeId,
        name: &str,
        depth: usize,
        looks: &mut usize,
    ) -> Option<(u64, TypeId)> {
        let Kind::Composite { members, .. } = self.kind(self.resolve(within)) else { return None };
        for member in members {
            *looks = looks.checked_sub(1)?;
            let found = match self.member_name(member) {
                "" if depth > 0 => self
                    .nested_member(member.of, name, depth - 1, looks)
                    .map(|(at, of)| (at + member.offset(), of)),
                own => (own == name).then_some((member.offset(), member.of)),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Whether a struct has a field of this name. `looks` is the number of fields that may still be looked at; see
    /// [`MAX_LOOKS`].
    pub(crate) fn has_member(&self, within: TypeId, name: &str, looks: &mut usize) -> bool {
        self.nested_member(within, name, MAX_CHAIN, looks).is_some()
    }

    /// The offset of the first field whose type is the struct with this name.
    pub(crate) fn embedded(&self, within: TypeId, name: &str) -> Option<u64> {
        let Kind::Composite { members, .. } = self.kind(self.resolve(within)) else { return None };
        let is = |member: &&Member| self.name(self.resolve(member.of)) == name;
        members.iter().find(is).map(Member::offset)
    }

    /// The per-CPU variables, with their offsets in a CPU's area.
    pub(crate) fn per_cpu(&self) -> &[(u64, TypeId)] {
        let of = |of: &Type| self.text(of.name) == ".data..percpu";
        match self.types.iter().find(|section| of(section)).map(|section| &section.kind) {
            Some(Kind::Section(variables)) => variables,
            _ => &[],
        }
    }

    /// The number of types.
    #[cfg(test)]
    pub(super) fn types(&self) -> usize {
        self.types.len()
    }

    fn text(&self, at: u32) -> &str {
        std::str::from_utf8(string(&self.strings, at)).unwrap_or_default()
    }
}

/// The string at an offset; empty if it is too long for a name of Linux.
fn string(strings: &[u8], at: u32) -> &[u8] {
    let from = strings.get(at as usize..).unwrap_or_default();
    let from = &from[..from.len().min(LONGEST_OF_LINUX + 1)];
    let name = from.split(|byte| *byte == 0).next().unwrap_or_default();
    if name.len() > LONGEST_OF_LINUX { &[] } else { name }
}

#[derive(Clone, Copy)]
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn next(&mut self) -> Option<u32> {
        let word = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        Some(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
    }

    fn skip(&mut self, words: u32) -> Option<()> {
        let at = self.at + 4 * words as usize;
        self.bytes.get(self.at..at)?;
        self.at = at;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::kernel::{Types, types};
    use super::super::layout::Layouts;
    use super::*;

    #[test]
    fn fields_of_anonymous_members_count_as_fields_of_the_struct() {
        let btf = Btf::parse(&types().finish()).expect("types");
        assert_eq!(btf.offset("page.mapping"), Some(24));
        assert_eq!(btf.offset("page.compound_head"), Some(8));
        assert_eq!(btf.offset("shmem_inode_info.vfs_inode.i_lock"), Some(72));
        assert_eq!(btf.offset("page.nothing"), None);
        assert_eq!(btf.enumerator("PG_slab"), Some(9));
    }

    #[test]
    fn a_truncated_description_is_an_error() {
        let whole = types().finish();
        assert_eq!(Btf::parse(&whole[..whole.len() - 1]).err(), Some(BtfError::NoBtf));
        assert_eq!(Btf::parse(b"nonsense").err(), Some(BtfError::NoBtf));
        let mut short = whole.clone();
        let bytes = u32::from_le_bytes([short[12], short[13], short[14], short[15]]);
        short[12..16].copy_from_slice(&(bytes - 4).to_le_bytes());
        assert!(matches!(Btf::parse(&short), Err(BtfError::Type(_))));
    }

    #[test]
    fn each_module_extends_the_types_of_the_kernel_and_not_of_other_modules() {
        let kernel = types().finish();
        let mut btf = Btf::parse(&kernel).expect("types");
        let inode = btf.composite("inode").expect("an inode");
        let (own_types, own_strings) = btf.kernel;
        for (module, bytes) in [("xfs_inode", 80), ("btrfs_inode", 96)] {
            let mut types = Types::after(own_types, own_strings);
            let word = types.int(8);
            types.of_struct(module, bytes, &[("vfs_inode", inode, 0), ("i_own", word, bytes - 8)]);
            btf.add_module(&types.finish()).expect("types of a module");
        }
        for (path, offset) in [
            ("xfs_inode.i_own", 72),
            ("btrfs_inode.i_own", 88),
            ("btrfs_inode.vfs_inode.i_lock", 8),
            ("page.mapping", 24),
        ] {
            assert_eq!(btf.offset(path), Some(offset), "{path}");
        }
        let module = btf.composite("btrfs_inode").expect("a struct");
        assert_eq!((btf.name(module), btf.bytes(module)), ("btrfs_inode", 96));
        assert_eq!(btf.embedded(module, "inode"), Some(0));
    }

    #[test]
    fn anonymous_members_that_contain_themselves_take_no_time() {
        let mut types = types();
        // The first type after the existing ones: a struct with three anonymous members of its own type.
        let own = types.of_struct("loop", 24, &[]);
        let again = own + 1;
        let members = [("", again, 0), ("", again, 8), ("", again, 16)];
        assert_eq!(types.of_struct("trap", 24, &members), again);
        let btf = Btf::parse(&types.finish()).expect("types");
        assert_eq!(btf.offset("trap.nothing"), None);
        let mut layouts = Layouts::default();
        layouts.add_struct(&btf, again);
        assert_eq!(layouts.structs["trap"].members, []);
        assert_eq!(btf.offset("page.mapping"), Some(24));
    }

    #[test]
    fn names_that_are_too_long_for_linux_are_empty_and_all_names_together_are_limited() {
        let long = "x".repeat(LONGEST_OF_LINUX + 1);
        let mut types = types();
        let word = types.int(8);
        let own = types.of_struct(&long, 8, &[(&long, word, 0), (&long[1..], word, 0)]);
        types.enumeration(&long, 1);
        types.enumeration(&long[1..], 2);
        let btf = Btf::parse(&types.finish()).expect("types");
        assert_eq!((btf.name(own), btf.enumerator(&long)), ("", None));
        assert_eq!(btf.enumerator(&long[1..]), Some(2));
        let Kind::Composite { members, .. } = btf.kind(own) else { panic!("a struct") };
        let names = members.iter().map(|member| btf.member_name(member));
        assert_eq!(names.collect::<Vec<_>>(), ["", &long[1..]]);
        let mut btf = Btf::parse(&super::super::kernel::types().finish()).expect("types");
        btf.names = NameLimit::of_linux(10);
        let mut types = Types::after(btf.kernel.0, btf.kernel.1);
        types.of_struct("first", 8, &[]);
        types.of_struct("second", 8, &[]);
        types.enumeration("third", 3);
        types.enumeration("fourth", 4);
        btf.add_module(&types.finish()).expect("types of a module");
        let known = ["first", "second"].map(|name| btf.composite(name).is_some());
        assert_eq!((known, btf.enumerator("third")), ([true, false], Some(3)));
        assert_eq!(btf.enumerator("fourth"), None);
    }

    #[test]
    fn only_the_first_fields_of_a_struct_are_kept() {
        let mut types = types();
        let word = types.int(8);
        let own = types.of_struct("wide", 8, &vec![("a", word, 0); 60_000]);
        let behind = types.of_struct("next", 8, &[("b", word, 0)]);
        let btf = Btf::parse(&types.finish()).expect("types");
        let Kind::Composite { members, .. } = btf.kind(own) else { panic!("a struct") };
        assert_eq!((members.len(), btf.name(behind)), (MAX_MEMBERS, "next"));
    }

    proptest! {
        #[test]
        fn corrupted_types_never_cause_a_panic(
            changes in prop::collection::vec((0..4000_usize, any::<u8>()), 1..40),
        ) {
            let mut bytes = types().finish();
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            if let Ok(mut btf) = Btf::parse(&types().finish()) {
                let _ = btf.add_module(&bytes);
                btf.offset("page.mapping");
            }
            if let Ok(btf) = Btf::parse(&bytes) {
                for id in 0..200 {
                    btf.bytes(id);
                    let place = super::super::fields::field(&btf, id, 40, Some("lru")).place;
                    let mut layouts = Layouts::default();
                    layouts.add_field(&btf, "datum", place);
                    layouts.add_struct(&btf, place.within);
                }
                btf.offset("page.mapping");
            }
        }
    }
}
