//! Reads a kernel module's `.modinfo` section: NUL-terminated strings `key=value`
//! (`MODULE_INFO` in include/linux/module.h of Linux).

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// Maximum size of the section, in bytes. Each of its names takes many times its length of memory. Those of Debian's
/// modules have some kilobytes.
const MOST_BYTES: usize = 1 << 20;

/// The modules that must be loaded before a given module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Modules whose symbols this module uses.
    pub(crate) depends: Vec<String>,
    /// Modules that should be loaded first (`softdep=pre:`), by name or by alias.
    pub(crate) soft: Vec<String>,
}

impl Needs {
    /// The dependencies of a module; `None` if the file is not a module.
    pub(crate) fn of(module: &[u8]) -> Option<Needs> {
        let elf = ElfFile64::<object::Endianness>::parse(module).ok()?;
        Needs::in_section(elf.section_by_name(".modinfo")?.data().ok()?)
    }

    fn in_section(section: &[u8]) -> Option<Needs> {
        (section.len() <= MOST_BYTES).then(|| Needs::parse(section))
    }

    fn parse(section: &[u8]) -> Needs {
        let mut needs = Needs::default();
        for text in section.split(|byte| *byte == 0) {
            let Ok(text) = std::str::from_utf8(text) else { continue };
            match text.split_once('=') {
                Some(("depends", names)) => {
                    let names = names.split(',').filter(|name| !name.is_empty());
                    needs.depends.extend(names.map(module_name));
                }
                Some(("softdep", words)) => {
                    // `pre: a b post: c`
                    let mut before = false;
                    for word in words.split_ascii_whitespace() {
                        match word {
                            "pre:" => before = true,
                            "post:" => before = false,
                            name if before => needs.soft.push(module_name(name)),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        needs
    }
}

/// The kernel's name for a module: dashes in the file name become underscores.
pub(crate) fn module_name(stem: &str) -> String {
    stem.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
        words.map(str::to_owned).to_vec()
    }

    #[test]
    fn a_module_needs_its_dependencies_and_its_pre_soft_dependencies() {
        let section = b"license=GPL\0softdep=pre: crc32c xor post: blake2b-256\0\0\
                        depends=raid6_pq,zstd-compress\0softdep=pre: sha256\0name=btrfs\0";
        let needs = Needs::parse(section);
        assert_eq!(needs.depends, words(["raid6_pq", "zstd_compress"]));
        assert_eq!(needs.soft, words(["crc32c", "xor", "sha256"]));
    }

    #[test]
    fn a_module_may_have_no_dependencies_and_other_files_are_not_modules() {
        assert_eq!(Needs::parse(b"depends=\0"), Needs::default());
        assert_eq!(Needs::of(b"\x7fELF"), None);
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(Needs::of(&program), None, "a program has no .modinfo");
    }

    #[test]
    fn a_section_with_very_many_names_is_not_read() {
        let section = |bytes: usize| ["depends=".as_bytes(), &vec![b','; bytes - 8]].concat();
        assert_eq!(Needs::in_section(&section(MOST_BYTES)), Some(Needs::default()));
        assert_eq!(Needs::in_section(&section(MOST_BYTES + 1)), None);
    }

    proptest! {
        #[test]
        fn any_section_is_parsed_without_a_panic(section: Vec<u8>) {
            Needs::parse(&section);
            Needs::of(&section);
        }

        #[test]
        fn dependencies_are_read_as_they_were_written(names in prop::collection::vec("[a-z0-9_]{1,8}", 0..5)) {
            let section = format!("depends={}\0", names.join(","));
            prop_assert_eq!(Needs::parse(section.as_bytes()).depends, names);
        }
    }
}
