//! The description of a kernel module in its file: the section `.modinfo`, texts `key=value` that end in a zero
//! (include/linux/moduleinfo.h of Linux).

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// Modules that one needs to be there before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Those whose symbols it uses.
    pub(crate) depends: Vec<String>,
    /// Those that it asks for when it runs, by name or by what they provide.
    pub(crate) soft: Vec<String>,
}

impl Needs {
    /// Reads a module; `None` if the file is not a module.
    pub(crate) fn of(module: &[u8]) -> Option<Needs> {
        let elf = ElfFile64::<object::Endianness>::parse(module).ok()?;
        Some(Needs::parse(elf.section_by_name(".modinfo")?.data().ok()?))
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

/// The name of a module as the kernel has it: files may have dashes where it has underscores.
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
    fn what_a_module_needs_is_what_it_depends_on_and_what_comes_before_it() {
        let section = b"license=GPL\0softdep=pre: crc32c xor post: blake2b-256\0\0\
                        depends=raid6_pq,zstd-compress\0softdep=pre: sha256\0name=btrfs\0";
        let needs = Needs::parse(section);
        assert_eq!(needs.depends, words(["raid6_pq", "zstd_compress"]));
        assert_eq!(needs.soft, words(["crc32c", "xor", "sha256"]));
    }

    #[test]
    fn a_module_may_need_nothing_and_other_files_have_no_needs() {
        assert_eq!(Needs::parse(b"depends=\0"), Needs::default());
        assert_eq!(Needs::of(b"\x7fELF"), None);
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(Needs::of(&program), None, "a program has no .modinfo");
    }

    proptest! {
        #[test]
        fn no_section_breaks_the_reader(section: Vec<u8>) {
            Needs::parse(&section);
            Needs::of(&section);
        }

        #[test]
        fn what_was_written_is_read(names in prop::collection::vec("[a-z0-9_]{1,8}", 0..5)) {
            let section = format!("depends={}\0", names.join(","));
            prop_assert_eq!(Needs::parse(section.as_bytes()).depends, names);
        }
    }
}
