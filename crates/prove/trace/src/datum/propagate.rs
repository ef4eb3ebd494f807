//! Finds the types of objects in general caches (`kmalloc-192`) from the fields that point to them.
//!
//! The type of an object of a dedicated cache is known, and the types of its pointers show the types of the
//! objects that they point to. So a scan reads the objects of all dedicated caches, then the objects to which
//! these objects point, and so on. Memory may change while knee reads it, and some objects have been freed.
//! So a type is accepted only if it fits the object. If pointers disagree, the most specific type wins. Among
//! equally specific types, the type with the most pointers wins.

use std::collections::HashMap;

use super::btf::{Btf, Kind, MAX_LOOKS, TypeId};
use super::fields::is_whole;
use super::memory::{Area, Memory, PAGE_BYTES};
use super::pages::{Page, Pages};
use super::slab::{Cache, Caches};

/// Maximum length, in pointers, of a path that starts at an object of a dedicated cache and leads
/// through objects of general caches.
const MAX_STEPS: usize = 4;
/// Maximum nesting of embedded structs and unions. Members below this depth are ignored, so that the search
/// also ends if malformed BTF has a cycle.
const MAX_DEPTH: usize = 8;
/// Maximum number of pointers that are followed in one struct.
const MAX_POINTERS: usize = 1024;
/// Maximum length of the path to a pointer, in bytes. Paths in Linux have fewer than 100.
const MAX_PATH: usize = 512;
/// Maximum length of the paths to all fields that a scan looks at, in bytes. Linux 7.2 has 200,000.
const MAX_PATHS: usize = 16 << 20;
/// Maximum number of possible types, added up for all objects. A scan of Linux 7.2 finds 5,500.
const MAX_VOTES: usize = 500_000;
/// Maximum number of elements that are followed in an array of pointers.
const MAX_ELEMENTS: u64 = 16;
/// Maximum number of bytes that are read from one struct.
const MAX_STRUCT: u64 = 64 << 10;
/// Bytes that are read beyond a struct's size, because the struct may end with a flexible array of pointers.
const END_BYTES: u64 = 64;
/// Fields that point to an array of structs. The type of such a field does not show the array, because a
/// pointer to a single struct has the same type.
const ARRAYS: &[&str] = &["pipe_inode_info.bufs"];
const FILE_SYSTEM: &str = "file_system_type.name";
/// For some file systems: the struct to which the `void *` in their `super_block.s_fs_info` points.
const PRIVATE: &[(&str, &str)] = &[
    ("btrfs", "btrfs_fs_info"),
    ("devtmpfs", "shmem_sb_info"),
    ("ext2", "ext4_sb_info"),
    ("ext4", "ext4_sb_info"),
    ("proc", "proc_fs_info"),
    ("tmpfs", "shmem_sb_info"),
    ("xfs", "xfs_mount"),
];

/// What is known about an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Known {
    /// A struct.
    Struct(TypeId),
    /// An array of structs.
    Structs(TypeId),
    /// An array of numbers or pointers, with the name of the field that points to it.
    Elements(String),
    /// A struct, followed by data for which the struct has no field.
    Begin(TypeId),
    /// A page, with the name of the field that points to its `struct page`.
    Page(String),
    /// An object of unknown type, with the name of the `void *` field that points to it.
    Opaque(String),
}

impl Known {
    /// The higher the rank, the more specific the type. One pointer to a type of higher rank outweighs any
    /// number of pointers to types of lower rank.
    fn rank(&self) -> u32 {
        match self {
            Known::Struct(_) | Known::Structs(_) => 3,
            Known::Elements(_) | Known::Page(_) => 2,
            Known::Begin(_) => 1,
            Known::Opaque(_) => 0,
        }
    }
}

/// A field that points to something.
#[derive(Clone, Debug)]
struct Pointer {
    offset: u64,
    to: Known,
    /// Size of the target in bytes; if the target is an array, the size of one element.
    bytes: u64,
}

/// For each object, by address: its possible types, each with the number of pointers that imply this type.
type Votes = HashMap<u64, HashMap<Known, u32>>;

/// Scans memory to find the types of the objects in it.
pub(crate) struct Scan<'a> {
    memory: &'a Memory,
    btf: &'a Btf,
    layout: &'a Pages,
    pages: Vec<Page>,
    caches: &'a mut Caches,
    /// Addresses of the `file_operations` of pipes.
    pipe_operations: &'a [u64],
    pointers: HashMap<TypeId, Vec<Pointer>>,
    votes: Votes,
    left: Left,
}

/// What a scan may still add, so that malformed BTF and memory take neither all time nor all memory.
struct Left {
    /// Bytes of paths.
    paths: usize,
    /// Types of objects.
    votes: usize,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(
        memory: &'a Memory,
        btf: &'a Btf,
        layout: &'a Pages,
        caches: &'a mut Caches,
        pipe_operations: &'a [u64],
    ) -> Scan<'a> {
        let pages = layout.all(memory);
        let (pointers, votes) = (HashMap::new(), Votes::new());
        let left = Left { paths: MAX_PATHS, votes: MAX_VOTES };
        Scan { memory, btf, layout, pages, caches, pipe_operations, pointers, votes, left }
    }

    /// Identifies the objects of general caches, and the pages whose `struct page` does not show their
    /// use. The keys of the result are addresses in the direct map. The scan starts from all objects
    /// of dedicated caches and from `roots`, the addresses and types of other structs.
    pub(crate) fn run(mut self, roots: &[(u64, TypeId)]) -> HashMap<u64, Known> {
        let mut known = HashMap::new();
        for (address, of) in roots {
            self.vote_all(*address, *of);
            if matches!(self.memory.area(*address), Area::Direct(_)) {
                known.insert(*address, Known::Struct(*of));
            }
        }
        let slabs = 0..self.pages.len() as u64;
        for number in slabs {
            self.read_slab_page(number);
        }
        for _ in 0..MAX_STEPS {
            for (address, votes) in std::mem::take(&mut self.votes) {
                let most = votes.into_iter().max_by(|(one, ones), (other, others)| {
                    let by_count = one.rank().cmp(&other.rank()).then(ones.cmp(others));
                    // Break ties by type, so that the result does not depend on the hash map's order.
                    by_count.then_with(|| other.cmp(one))
                });
                let Some((is, _)) = most else { continue };
                let better = known.get(&address).is_none_or(|other| other.rank() < is.rank());
                if better {
                    if let Known::Struct(of) = is {
                        self.vote_all(address, of);
                    }
                    known.insert(address, is);
                }
            }
        }
        known
    }

    /// Follows the pointers of all objects in a page, including objects that are only partly in it.
    fn read_slab_page(&mut self, number: u64) {
        let begin = number * PAGE_BYTES;
        let Some((cache, first)) = self.slab(begin) else { return };
        let Some(of) = cache.of else { return };
        let (object, in_slab) = (cache.object, begin - first);
        let objects: Vec<u64> = cache.objects(in_slab, PAGE_BYTES).collect();
        let mut page = vec![0; PAGE_BYTES as usize];
        if self.memory.read(self.memory.direct(begin), &mut page).is_none() {
            return;
        }
        for at in objects {
            self.vote(of, at as i64 - in_slab as i64, object, &page);
        }
    }

    fn vote_all(&mut self, address: u64, of: TypeId) {
        let bytes = self.btf.bytes(of).min(MAX_STRUCT) + END_BYTES;
        let mut object = vec![0; bytes as usize];
        if self.memory.read(address, &mut object).is_some() {
            self.vote(of, 0, bytes, &object);
        }
    }

    /// Follows the pointers of an object of `size` bytes, except those that are stored outside of `bytes`.
    /// The object begins at offset `begin` of `bytes`, or before `bytes` if `begin` is negative.
    fn vote(&mut self, of: TypeId, begin: i64, size: u64, bytes: &[u8]) {
        let btf = self.btf;
        let left = &mut self.left.paths;
        let pointers = self.pointers.entry(of).or_insert_with(|| Pointers::of(btf, of, left));
        let pointers = std::mem::take(pointers);
        for pointer in pointers.iter().filter(|pointer| pointer.offset < size) {
            let at = usize::try_from(begin + pointer.offset as i64).ok();
            let value = at.and_then(|at| bytes.get(at..)).and_then(|from| from.first_chunk());
            let Some(value) = value.map(|value| u64::from_le_bytes(*value)) else { continue };
            if value % 8 == 0
                && let Some((address, is)) = self.pointed(value, pointer)
            {
                self.add_vote(address, is);
            }
        }
        self.pointers.insert(of, pointers);
        let word = |path: &str| {
            let at = usize::try_from(begin + btf.offset(path)? as i64).ok()?;
            bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
        };
        let private = match btf.name(of) {
            "file" => self.private_of_file(word),
            "super_block" => self.private_of_file_system(word),
            _ => None,
        };
        if let Some((address, of)) = private {
            self.add_vote(address, Known::Struct(of));
        }
    }

    fn add_vote(&mut self, address: u64, is: Known) {
        let known = self.votes.get_mut(&address).and_then(|votes| votes.get_mut(&is));
        if let Some(count) = known {
            *count = count.saturating_add(1);
        } else if let Some(left) = self.left.votes.checked_sub(1) {
            self.left.votes = left;
            self.votes.entry(address).or_default().insert(is, 1);
        }
    }

    /// The address and type of the private data of a `struct file`, if the file is a pipe. `word`
    /// reads words of the struct.
    fn private_of_file(&self, word: impl Fn(&str) -> Option<u64>) -> Option<(u64, TypeId)> {
        let is_pipe = self.pipe_operations.contains(&word("file.f_op")?);
        let of = self.btf.composite("pipe_inode_info").filter(|_| is_pipe)?;
        Some((word("file.private_data")?, of))
    }

    /// The address and type of a file system's private data, from its `struct super_block`. `word`
    /// reads words of the struct.
    fn private_of_file_system(&self, word: impl Fn(&str) -> Option<u64>) -> Option<(u64, TypeId)> {
        let name = word("super_block.s_type")?.checked_add(self.btf.offset(FILE_SYSTEM)?)?;
        let name = self.memory.name(self.memory.word(name)?)?;
        let (_, of) = PRIVATE.iter().find(|(file_system, _)| *file_system == name)?;
        Some((word("super_block.s_fs_info")?, self.btf.composite(of)?))
    }

    /// The address and type of a pointer's target; `None` if the target's slab cache already determines the
    /// type, or if the pointer's type does not fit the target.
    fn pointed(&mut self, value: u64, pointer: &Pointer) -> Option<(u64, Known)> {
        if let (Known::Page(_), Area::Vmemmap) = (&pointer.to, self.memory.area(value)) {
            let (number, within) = self.layout.described_at(self.memory, value);
            let is_other = self.pages.get(number as usize) == Some(&Page::Other);
            let address = self.memory.direct(number * PAGE_BYTES);
            return (within == 0 && is_other).then(|| (address, pointer.to.clone()));
        }
        let Area::Direct(physical) = self.memory.area(value) else { return None };
        let Some((cache, first)) = self.slab(physical) else {
            let page = self.pages.get((physical / PAGE_BYTES) as usize);
            let is_array = matches!(pointer.to, Known::Elements(_));
            let is_page = is_array && physical % PAGE_BYTES == 0 && page == Some(&Page::Other);
            return is_page.then(|| (value, pointer.to.clone()));
        };
        let begins = cache.object_at(physical - first) == physical - first;
        if cache.of.is_some() || !begins || pointer.bytes > cache.object {
            return None;
        }
        let is = match pointer.to {
            // A general cache's objects are at most twice as large as those of the next smaller cache. So if
            // a struct fills at most half of an object, other data must follow it: alone, the struct would be
            // in a smaller cache.
            Known::Struct(of) if 2 * pointer.bytes <= cache.object => {
                // Most structs contain links or locks, so a pointer to a link or a lock does not show which
                // struct contains the link or the lock.
                let identifies = cache.is_general() && !is_whole(self.btf.name(of));
                Known::Begin(Some(of).filter(|_| identifies)?)
            }
            Known::Page(_) => return None,
            _ => pointer.to.clone(),
        };
        Some((value, is))
    }

    fn slab(&mut self, physical: u64) -> Option<(&Cache, u64)> {
        match *self.pages.get((physical / PAGE_BYTES) as usize)? {
            Page::Slab { cache, first } => {
                Some((self.caches.get(self.memory, self.btf, cache)?, first))
            }
            _ => None,
        }
    }
}

/// A search for the pointers of a struct.
struct Pointers<'a> {
    btf: &'a Btf,
    found: Vec<Pointer>,
    /// The number of fields that may still be looked at: nested structs have a multiple of the fields that the
    /// BTF describes.
    looks: usize,
    /// Bytes of paths that the scan may still add.
    left: &'a mut usize,
}

impl Pointers<'_> {
    fn of(btf: &Btf, of: TypeId, left: &mut usize) -> Vec<Pointer> {
        let mut search = Pointers { btf, found: Vec::new(), looks: MAX_LOOKS, left };
        search.add(of, 0, btf.name(of), MAX_DEPTH);
        search.found
    }

    /// Adds the pointers of the struct at offset `at`.
    fn add(&mut self, of: TypeId, at: u64, path: &str, depth: usize) {
        let btf = self.btf;
        let Kind::Composite { is_union, members, .. } = btf.kind(btf.resolve(of)) else { return };
        // In a union, follow only the first member, which is usually the one in use.
        let members = if *is_union { &members[..members.len().min(1)] } else { &members[..] };
        for member in members {
            if self.found.len() >= MAX_POINTERS || depth == 0 || self.look(path).is_none() {
                return;
            }
            let name = btf.member_name(member);
            let path = if name.is_empty() { path.to_owned() } else { format!("{path}.{name}") };
            if path.len() > MAX_PATH {
                continue;
            }
            let offset = at + member.offset();
            match btf.kind(btf.resolve(member.of)) {
                Kind::Composite { .. } => {
                    // The path of a field of an embedded inode begins at `inode`, so that the field has the
                    // same name in every file system.
                    let name = btf.name(btf.resolve(member.of));
                    let path = if name == "inode" { name } else { &path };
                    self.add(member.of, offset, path, depth - 1);
                }
                Kind::Pointer(to) => self.found.extend(pointer(btf, offset, *to, path)),
                Kind::Array { element, count } => {
                    let Kind::Pointer(to) = btf.kind(btf.resolve(*element)) else { continue };
                    // A flexible array member has length 0 in BTF, and counts as one element.
                    for at in 0..(*count).clamp(1, MAX_ELEMENTS) {
                        self.found.extend(pointer(btf, offset + 8 * at, *to, path.clone()));
                    }
                }
                _ => {}
            }
        }
    }

    /// Counts a field; `None` if no further field may be looked at.
    fn look(&mut self, path: &str) -> Option<()> {
        self.looks = self.looks.checked_sub(1)?;
        *self.left = self.left.checked_sub(path.len() + 1)?;
        Some(())
    }
}

fn pointer(btf: &Btf, offset: u64, to: TypeId, path: String) -> Option<Pointer> {
    let to = btf.resolve(to);
    let known = match btf.kind(to) {
        Kind::Composite { .. } if btf.name(to) == "page" => Known::Page(path),
        Kind::Composite { .. } if ARRAYS.contains(&path.as_str()) => Known::Structs(to),
        Kind::Composite { .. } if !btf.name(to).is_empty() => Known::Struct(to),
        Kind::Composite { .. } | Kind::Scalar(_) | Kind::Pointer(_) => Known::Elements(path),
        Kind::Void => Known::Opaque(path),
        _ => return None,
    };
    Some(Pointer { offset, to: known, bytes: btf.bytes(to) })
}

#[cfg(test)]
mod tests {
    use super::super::kernel::{SYMBOLS, memory, types};
    use super::super::symbols::Symbols;
    use super::*;

    #[test]
    fn deeply_nested_structs_with_many_fields_take_no_time() {
        let mut types = types();
        let mut nested = types.int(4);
        for _ in 0..MAX_DEPTH {
            nested = types.of_struct("nested", 64, &[("", nested, 0); 200]);
        }
        let void = types.pointer(0);
        let task = types.of_struct("first", 8, &[("a", void, 0), ("b", nested, 8)]);
        let btf = Btf::parse(&types.finish()).expect("types");
        let mut left = MAX_PATHS;
        let found = Pointers::of(&btf, task, &mut left);
        let opaque = Known::Opaque("first.a".to_owned());
        assert_eq!(found.iter().map(|pointer| &pointer.to).collect::<Vec<_>>(), [&opaque]);
        assert!(left > MAX_PATHS - MAX_LOOKS * 20);
        assert_eq!(Pointers::of(&btf, task, &mut 5).len(), 0, "the scan has no room for a path");
    }

    #[test]
    fn the_types_of_all_objects_are_limited() {
        let btf = Btf::parse(&types().finish()).expect("types");
        let memory = Memory::new(memory(), &Symbols::parse(SYMBOLS));
        let layout = Pages::new(&btf).expect("struct page");
        let mut caches = Caches::new(&btf).expect("struct kmem_cache");
        let mut scan = Scan::new(&memory, &btf, &layout, &mut caches, &[]);
        scan.left.votes = 2;
        for (address, of) in [(1, 1), (1, 1), (2, 1), (2, 2), (3, 1), (2, 1)] {
            scan.add_vote(address, Known::Struct(of));
        }
        let votes = |address| scan.votes[&address][&Known::Struct(1)];
        assert_eq!((scan.votes.len(), votes(1), votes(2)), (2, 2, 2));
        assert_eq!(scan.votes[&2].len(), 1);
    }
}
