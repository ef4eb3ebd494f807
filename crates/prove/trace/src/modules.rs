//! The modules of a kernel and their dependencies.
//!
//! Debian ships the modules in the same package as the image, or in a separate package. For an image without
//! a package, knee reads the modules from `/lib/modules/RELEASE`. The modules in a package come without a
//! `modules.dep`, because depmod runs only when the package is installed. So knee reads the dependencies from
//! the modules themselves. Of the modules in a package, knee keeps in memory only those that a file system
//! may need.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use knee_host::RegularFile;

use crate::kernel::{Kernel, KernelError};
use crate::memfd;
use crate::modinfo::{Needs, module_name};
use crate::package::{PACKAGE_ENDING, files};
use crate::tool::{MIB, ToolError, output_up_to, read_at_most};

/// The RAM disk's module, the only driver that a test's file system needs.
const RAM_DISK: &str = "brd";
/// The directories with the modules that file systems need. All other directories together are many times
/// larger.
const DIRECTORIES: [&str; 5] = ["arch", "block", "crypto", "fs", "lib"];
/// For each file extension of compressed modules: the program that decompresses them, and the
/// program's Debian package.
const DECOMPRESSORS: [(&str, &str, &str); 3] =
    [("xz", "xz", "xz-utils"), ("zst", "zstd", "zstd"), ("gz", "gzip", "gzip")];

/// Maximum size of a module, decompressed. The largest modules are 30 MiB.
const MAX_MODULE: u64 = 128 * MIB;
/// Maximum total size of the modules that knee keeps in memory for a package. In Debian's packages, these
/// modules add up to 60 MiB.
const MAX_KEPT: u64 = 512 * MIB;

/// Maximum number of modules that knee keeps in memory for a package. A kernel of Debian has 4,000 in all.
const MOST_KEPT: usize = 20_000;
/// `PATH_MAX` of Linux.
const LONGEST_PATH: usize = 4096;

/// Maximum number of modules that knee loads, including dependencies. All of them are in memory at the same
/// time. A file system needs about ten.
const MOST_MODULES: usize = 200;

/// A module: its name, and its content in the format that the kernel loads.
pub(crate) type Module = (String, Vec<u8>);

/// The available modules of a kernel.
pub(crate) struct Modules {
    by_name: BTreeMap<String, Stored>,
    places: Vec<PathBuf>,
}

/// A module's file, as it is stored.
struct Stored {
    path: PathBuf,
    /// The content, if the file is in a package.
    content: Option<Vec<u8>>,
}

impl Modules {
    /// Finds the modules of a kernel.
    pub(crate) fn of(kernel: &Kernel) -> Result<Modules, KernelError> {
        let places = places(kernel);
        let mut modules = Modules { by_name: BTreeMap::new(), places };
        for place in modules.places.clone() {
            match place.is_dir() {
                true => modules.walk(&place.join("kernel")),
                false if place.exists() => modules.open(&place)?,
                false => {}
            }
        }
        Ok(modules)
    }

    /// The packages and directories that knee searched, as text for messages.
    pub(crate) fn places(&self) -> String {
        let places: Vec<String> =
            self.places.iter().map(|place| place.display().to_string()).collect();
        places.join(" or ")
    }

    /// The modules `wanted` and their dependencies, in the order in which they must be loaded. If a module of
    /// `wanted` is missing, it is left out, because it may be built into the kernel.
    pub(crate) fn with_needs(&self, wanted: &[&str]) -> Result<Vec<Module>, KernelError> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for name in wanted {
            if self.by_name.contains_key(*name) {
                self.visit(name, "", &mut seen, &mut order)?;
            }
        }
        Ok(order)
    }

    fn visit(
        &self,
        name: &str,
        by: &str,
        seen: &mut BTreeSet<String>,
        order: &mut Vec<Module>,
    ) -> Result<(), KernelError> {
        if !seen.insert(name.to_owned()) {
            return Ok(());
        }
        let Some(stored) = self.by_name.get(name) else {
            let (name, by, places) = (name.to_owned(), by.to_owned(), self.places());
            return Err(KernelError::NoModule { name, by, places });
        };
        if seen.len() > MOST_MODULES {
            return Err(KernelError::TooManyModules(MOST_MODULES));
        }
        let content = stored.content()?;
        let needs =
            Needs::of(&content).ok_or_else(|| KernelError::BrokenModule(stored.path.clone()))?;
        // A soft dependency that is missing may be built into the kernel. A soft dependency may also name an
        // algorithm of the crypto API, whose portable implementation is a module with the suffix `_generic`.
        for soft in &needs.soft {
            let portable = format!("{soft}_generic");
            if let Some(name) =
                [soft, &portable].into_iter().find(|&it| self.by_name.contains_key(it))
            {
                self.visit(name, name, seen, order)?;
            }
        }
        for needed in &needs.depends {
            self.visit(needed, name, seen, order)?;
        }
        order.push((name.to_owned(), content));
        Ok(())
    }

    /// Adds the modules in a directory and its subdirectories. Skips unreadable directories and links to
    /// directories, which can form a loop.
    fn walk(&mut self, directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => self.walk(&path),
                false => self.add(path, None),
            }
        }
    }

    /// Adds those modules of a package that a file system may need.
    fn open(&mut self, path: &Path) -> Result<(), KernelError> {
        let mut left = MAX_KEPT;
        let read = files(path, |inside, file| {
            if is_wanted(inside) {
                if self.by_name.len() >= MOST_KEPT {
                    let error = format!(
                        "it contains more than {MOST_KEPT} modules, the maximum that knee reads"
                    );
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
                }
                let content =
                    read_at_most("the content of its modules", file, MAX_MODULE.min(left))?;
                left -= content.len() as u64;
                self.add(path.join(inside), Some(content));
            }
            Ok(ControlFlow::Continue(()))
        });
        Ok(read?)
    }

    /// Adds a module unless an earlier place has one of the same name.
    fn add(&mut self, path: PathBuf, content: Option<Vec<u8>>) {
        // No file system can have a longer path.
        let name = name_of(&path).filter(|_| path.as_os_str().len() <= LONGEST_PATH);
        if let Some(name) = name {
            self.by_name.entry(name).or_insert(Stored { path, content });
        }
    }
}

/// The kernel's module with this name, decompressed; `None` if there is none. Stops reading a package once
/// the module is found.
pub(crate) fn module(kernel: &Kernel, name: &str) -> Result<Option<Vec<u8>>, KernelError> {
    let mut modules = Modules { by_name: BTreeMap::new(), places: Vec::new() };
    for place in places(kernel) {
        if place.is_dir() {
            modules.walk(&place.join("kernel"));
        } else if place.exists() {
            files(&place, |inside, file| {
                if name_of(inside).as_deref() != Some(name) {
                    return Ok(ControlFlow::Continue(()));
                }
                let content = read_at_most("its module", file, MAX_MODULE)?;
                modules.add(place.join(inside), Some(content));
                Ok(ControlFlow::Break(()))
            })?;
        }
        if let Some(stored) = modules.by_name.get(name) {
            return stored.content().map(Some);
        }
    }
    Ok(None)
}

/// Packages and directories that may contain a kernel's modules, the kernel's own package first.
fn places(kernel: &Kernel) -> Vec<PathBuf> {
    let release = kernel.release();
    let Some(package) = kernel.package() else {
        return vec![Path::new("/lib/modules").join(release)];
    };
    // Debian splits its newest kernels into several packages. All packages of a kernel were fetched into one
    // directory. If everybody can write to that directory, other users may have added packages with matching
    // names.
    let part = format!("linux-modules-{release}_");
    let beside = package.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten();
    let mut places: Vec<PathBuf> = beside
        .filter(|file| {
            let name = file.file_name();
            let name = name.to_string_lossy();
            name.starts_with(&part) && name.ends_with(PACKAGE_ENDING)
        })
        .map(|file| file.path())
        .filter(|path| RegularFile::at(path).trusted().open().is_ok())
        .collect();
    places.sort();
    places.insert(0, package.to_owned());
    places
}

/// Whether a file of a package is a module that a file system may need.
fn is_wanted(path: &Path) -> bool {
    let Some(name) = name_of(path) else { return false };
    let mut parts = path.iter().map(|part| part.to_string_lossy());
    // lib/modules/RELEASE/kernel/fs/…
    let within = parts.by_ref().any(|part| part == "kernel").then(|| parts.next()).flatten();
    name == RAM_DISK || within.is_some_and(|within| DIRECTORIES.contains(&&*within))
}

/// The name of the module in a file: `zstd_compress` for `zstd-compress.ko.xz`.
fn name_of(path: &Path) -> Option<String> {
    let (stem, compression) = path.file_name()?.to_str()?.split_once(".ko")?;
    (compression.is_empty() || decompressor(compression).is_some()).then(|| module_name(stem))
}

fn decompressor(extension: &str) -> Option<(&'static str, &'static str)> {
    let extension = extension.strip_prefix('.')?;
    let known = DECOMPRESSORS.iter().find(|(known, ..)| *known == extension);
    known.map(|&(_, program, package)| (program, package))
}

impl Stored {
    /// The module, decompressed.
    fn content(&self) -> Result<Vec<u8>, KernelError> {
        let stored = match &self.content {
            Some(content) => content.clone(),
            None => RegularFile::at(&self.path).read().map_err(KernelError::read(&self.path))?,
        };
        let extension = self.path.extension().map(|it| format!(".{}", it.to_string_lossy()));
        match extension.as_deref().and_then(decompressor) {
            Some((program, package)) => decompress(&stored, program, package),
            None => Ok(stored),
        }
    }
}

fn decompress(
    content: &[u8],
    program: &'static str,
    package: &'static str,
) -> Result<Vec<u8>, KernelError> {
    let input = memfd::holding("knee-module", content).map_err(|error| ToolError::Failed {
        program: program.to_owned(),
        message: error.to_string(),
    })?;
    let mut command = Command::new(program);
    Ok(output_up_to(MAX_MODULE, command.arg("-dc").stdin(Stdio::from(input)), package)?)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use rustix::fs::{CWD, Mode, mkfifoat};
    use rustix::process::geteuid;

    use super::*;

    /// The smallest ELF file with dependencies.
    fn module(modinfo: &str) -> Vec<u8> {
        let names = b"\0.modinfo\0.shstrtab\0";
        let header_bytes = 64_usize;
        let (info_at, names_at) = (header_bytes, header_bytes + modinfo.len());
        let sections_at = (names_at + names.len()).next_multiple_of(8);
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(16, 0);
        // e_type ET_REL, e_machine EM_X86_64, e_version, no entry, no program headers.
        for half in [1_u16, 62, 1, 0] {
            elf.extend(half.to_le_bytes());
        }
        for word in [0, 0, sections_at as u64] {
            elf.extend(word.to_le_bytes());
        }
        elf.extend([0; 4]);
        for half in [64_u16, 0, 0, 64, 3, 2] {
            elf.extend(half.to_le_bytes());
        }
        elf.extend(modinfo.bytes());
        elf.extend(names);
        elf.resize(sections_at, 0);
        // For each section: its name, its type (1 is SHT_PROGBITS, 3 is SHT_STRTAB), its offset and its size.
        // The first section is the null section.
        for (name, kind, at, bytes) in
            [(0_u32, 0_u32, 0, 0), (1, 1, info_at, modinfo.len()), (10, 3, names_at, names.len())]
        {
            elf.extend(name.to_le_bytes());
            elf.extend(kind.to_le_bytes());
            for word in [0, 0, at as u64, bytes as u64, 0, 1, 0] {
                elf.extend(word.to_le_bytes());
            }
        }
        elf
    }

    fn modules(all: &[(&str, &str)]) -> Modules {
        let mut modules =
            Modules { by_name: BTreeMap::new(), places: vec![PathBuf::from("/modules")] };
        for (file, modinfo) in all {
            modules.add(Path::new("/modules").join(file), Some(module(modinfo)));
        }
        modules
    }

    /// Builds a package with this name in `dir` that contains a module with this content. Returns `None` if
    /// dpkg-deb is not installed.
    fn package(dir: &Path, name: &str, module: &str, content: &[u8]) -> Option<PathBuf> {
        let tree = dir.join("tree");
        let module = tree.join("lib/modules/6.1-test/kernel/fs").join(module);
        for directory in [&tree.join("DEBIAN"), module.parent().unwrap()] {
            fs::create_dir_all(directory).unwrap();
        }
        let control =
            "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: a <a@a>\nDescription: d\n";
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        fs::write(module, content).unwrap();
        let package = dir.join(name);
        let mut build = Command::new("dpkg-deb");
        let Ok(built) = build.args(["-Znone", "--build"]).arg(&tree).arg(&package).output() else {
            knee_host::skip::skip("dpkg-deb", "dpkg-deb is not installed");
            return None;
        };
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        fs::remove_dir_all(tree).unwrap();
        Some(package)
    }

    fn names(modules: &[Module]) -> Vec<&str> {
        modules.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn modules_follow_their_dependencies_and_occur_once() {
        let modules = modules(&[
            ("btrfs.ko", "softdep=pre: crc32c sha256\0depends=xor,raid6_pq\0"),
            ("raid6-pq.ko", "depends=xor\0"),
            ("xor.ko", "depends=\0"),
            ("crc32c_generic.ko", "depends=\0"),
            ("brd.ko", "depends=\0"),
        ]);
        let order = modules.with_needs(&["brd", "btrfs"]).unwrap();
        assert_eq!(names(&order), ["brd", "crc32c_generic", "xor", "raid6_pq", "btrfs"]);
    }

    #[test]
    fn a_missing_module_may_be_built_in_but_a_missing_dependency_is_an_error() {
        let modules = modules(&[("xfs.ko", "depends=libcrc32c\0")]);
        assert_eq!(modules.with_needs(&["brd", "ext4"]).unwrap(), []);
        let message = modules.with_needs(&["xfs"]).unwrap_err().to_string();
        assert_eq!(message, "module xfs needs module libcrc32c, which is not in /modules");
    }

    #[test]
    fn a_long_chain_of_dependencies_is_refused() {
        let chain = |length: usize| {
            let names: Vec<String> = (0..=length).map(|nr| format!("m{nr}.ko")).collect();
            let needs = |nr: usize| format!("depends=m{}\0", nr + 1);
            let needs: Vec<String> = (0..length).map(needs).chain(["depends=\0".into()]).collect();
            let all: Vec<(&str, &str)> =
                names.iter().zip(&needs).map(|(name, needs)| (&**name, &**needs)).collect();
            modules(&all).with_needs(&["m0"]).map(|order| order.len())
        };
        assert_eq!(chain(MOST_MODULES - 1).unwrap(), MOST_MODULES);
        // A recursion of this depth would overflow the stack.
        let message = chain(100_000).unwrap_err().to_string();
        assert_eq!(message, "its file systems need more than 200 modules");
    }

    #[test]
    fn a_package_of_modules_is_used_only_if_no_other_user_can_change_it() {
        let dir = tempfile::tempdir().unwrap();
        let image = "linux-image-6.1-test_1_amd64.deb";
        let Some(image) = package(dir.path(), image, "xfs.ko", &module("depends=own\0")) else {
            return;
        };
        let kernel = Kernel::of_release("6.1-test", Some(image));
        let beside = "linux-modules-6.1-test_1_amd64.deb";
        let beside = package(dir.path(), beside, "own.ko", &module("depends=\0")).unwrap();
        let found = || Modules::of(&kernel).unwrap().with_needs(&["xfs"]);
        let set = |mode| fs::set_permissions(&beside, Permissions::from_mode(mode)).unwrap();
        set(0o644);
        assert_eq!(names(&found().unwrap()), ["own", "xfs"]);
        set(0o646);
        assert!(matches!(found(), Err(KernelError::NoModule { .. })));
        set(0o644);
        if !geteuid().is_root() {
            return knee_host::skip::skip("root", "only root can give a file to another user");
        }
        chown(&beside, Some(65534), None).unwrap();
        assert!(matches!(found(), Err(KernelError::NoModule { .. })));
        // Opening a FIFO would wait for a writer.
        fs::remove_file(&beside).unwrap();
        mkfifoat(CWD, &beside, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(matches!(found(), Err(KernelError::NoModule { .. })));
    }

    #[test]
    fn the_modules_of_the_kernels_own_package_have_priority() {
        let dir = tempfile::tempdir().unwrap();
        let image = "linux-image-6.1-test_1_amd64.deb";
        let own = module("depends=\0");
        let Some(image) = package(dir.path(), image, "xfs.ko", &own) else { return };
        package(dir.path(), "linux-modules-6.1-test_1_amd64.deb", "xfs.ko", b"other").unwrap();
        let kernel = Kernel::of_release("6.1-test", Some(image));
        let found = Modules::of(&kernel).unwrap().with_needs(&["xfs"]).unwrap();
        assert_eq!(found, [("xfs".to_owned(), own)]);
    }

    #[test]
    fn links_to_directories_of_modules_are_not_followed() {
        let [dir, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::create_dir(dir.path().join("fs")).unwrap();
        fs::write(dir.path().join("fs/xfs.ko"), "").unwrap();
        fs::write(elsewhere.path().join("ext4.ko"), "").unwrap();
        symlink(elsewhere.path(), dir.path().join("link")).unwrap();
        let mut modules = modules(&[]);
        modules.walk(dir.path());
        let found: Vec<&String> = modules.by_name.keys().collect();
        assert_eq!(found, ["xfs"]);
    }

    #[test]
    fn modules_of_a_package_are_kept_only_if_a_file_system_can_need_them() {
        let kernel =
            |rest: &str| is_wanted(&Path::new("./lib/modules/6.1-amd64/kernel").join(rest));
        for wanted in
            ["fs/xfs/xfs.ko", "drivers/block/brd.ko.xz", "arch/x86/crypto/crc32c-intel.ko"]
        {
            assert!(kernel(wanted), "{wanted}");
        }
        for other in ["drivers/block/nbd.ko", "net/9p/9pnet.ko", "fs/xfs/xfs.ko.sig", "fs/xfs"] {
            assert!(!kernel(other), "{other}");
        }
        assert!(!is_wanted(Path::new("./lib/modules/6.1-amd64/modules.dep")));
    }

    #[test]
    fn a_small_module_that_decompresses_to_more_than_the_limit_is_refused() {
        let input = memfd::holding("knee-test", &[]).unwrap();
        input.set_len(MAX_MODULE + 1).unwrap();
        let compressed = Command::new("gzip").arg("-1c").stdin(Stdio::from(input)).output();
        let Ok(compressed) = compressed else {
            return knee_host::skip::skip("gzip", "gzip is not installed");
        };
        let path = PathBuf::from("/modules/brd.ko.gz");
        let stored = Stored { path, content: Some(compressed.stdout) };
        let error = stored.content().unwrap_err().to_string();
        assert_eq!(
            error,
            "gzip failed: its output is longer than 128 MiB, the maximum that knee reads"
        );
    }

    #[test]
    fn compressed_modules_are_decompressed() {
        let plain = module("depends=\0");
        for (extension, program, package) in DECOMPRESSORS {
            let input = memfd::holding("knee-test", &plain).unwrap();
            let compressed = Command::new(program).arg("-c").stdin(Stdio::from(input)).output();
            let Ok(compressed) = compressed else {
                knee_host::skip::skip(
                    program,
                    format_args!("{program} of {package} is not installed"),
                );
                continue;
            };
            let path = PathBuf::from(format!("/modules/brd.ko.{extension}"));
            assert_eq!(name_of(&path).as_deref(), Some("brd"));
            let stored = Stored { path, content: Some(compressed.stdout) };
            assert_eq!(stored.content().unwrap(), plain);
        }
    }
}
