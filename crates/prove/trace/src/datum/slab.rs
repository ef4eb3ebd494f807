//! Caches of the slab allocator: where their objects begin, and which type the objects have.

use std::collections::HashMap;

use super::btf::{Btf, Kind, TypeId};
use super::memory::{LINE_BYTES, Memory};

/// Some caches with the types of their objects. Most of these caches are not named after the type.
const TYPES: &[(&str, &str)] = &[
    ("filp", "file"),
    ("backing_file", "file"),
    ("bfilp", "backing_file"),
    ("cred_jar", "cred"),
    ("mnt_cache", "mount"),
    ("sock_inode_cache", "socket_alloc"),
    ("sigqueue", "sigqueue"),
    ("radix_tree_node", "xa_node"),
    ("names_cache", "filename"),
    ("file_lock_cache", "file_lock"),
    ("file_lock_ctx", "file_lock_context"),
    ("uid_cache", "user_struct"),
    ("task_group", "task_group"),
    ("kernfs_node_cache", "kernfs_node"),
    ("proc_dir_entry", "proc_dir_entry"),
    ("bdev_cache", "bdev_inode"),
    ("nsproxy", "nsproxy"),
    ("net_namespace", "net"),
    ("btrfs_extent_buffer", "extent_buffer"),
    ("btrfs_extent_map", "extent_map"),
    ("btrfs_extent_state", "extent_state"),
    ("ext4_inode_cache", "ext4_inode_info"),
    ("xfs_buf_item", "xfs_buf_log_item"),
    ("xfs_ili", "xfs_inode_log_item"),
    ("xfs_inode", "xfs_inode"),
];
/// Suffixes that occur in the names of caches, but not in the names of their types.
const SUFFIXES: &[&str] = &["_cachep", "_cache", "_jar", "_slab"];
/// Suffix that occurs in the names of types, but not in the names of their caches.
const EMBEDDING: &str = "_info";
/// Types whose last field has room for the largest possible FPU state. The kernel allocates only as much of
/// this field as its CPU needs, so an object may be smaller than its type.
const OPEN_ENDED: &[&str] = &["task_struct"];
/// Maximum size of an object in bytes; a larger size is invalid. Objects of general caches take at most two
/// pages (KMALLOC_MAX_CACHE_SIZE); objects of other caches may be larger.
const MAX_OBJECT: u64 = 1 << 22;

/// Offsets of the fields of `struct kmem_cache`.
#[derive(Debug)]
struct Slabs {
    name: u64,
    size: u64,
    object_size: u64,
    left: u64,
}

/// A slab cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    /// The cache's name, as in /proc/slabinfo.
    pub(crate) name: String,
    /// Usable bytes of an object.
    pub(crate) object: u64,
    /// The type of the objects, if all objects have the same known type.
    pub(crate) of: Option<TypeId>,
    /// Bytes from one object to the next.
    step: u64,
    /// Bytes of padding before each object, if the kernel puts red zones around objects.
    left: u64,
}

impl Cache {
    /// The offset of the object that contains the byte at `offset`. Both offsets count from the
    /// start of a slab.
    pub(crate) fn object_at(&self, offset: u64) -> u64 {
        offset / self.step * self.step + self.left
    }

    /// Whether all objects begin at the same offset in a cache line.
    pub(crate) fn keeps_lines(&self) -> bool {
        self.step.is_multiple_of(LINE_BYTES)
    }

    /// Whether the cache is for objects of any type.
    pub(crate) fn is_general(&self) -> bool {
        self.name.starts_with("kmalloc-")
    }

    /// The offsets of the objects that may overlap the `bytes` bytes that begin at `offset`. All offsets
    /// count from the start of a slab.
    pub(crate) fn objects(&self, offset: u64, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let (step, left) = (self.step, self.left);
        (offset / step..(offset + bytes).div_ceil(step)).map(move |at| at * step + left)
    }
}

/// The slab caches, by the address of their `struct kmem_cache`. The entries stay valid, because no cache is
/// destroyed while calls are tested.
#[derive(Debug)]
pub(crate) struct Caches {
    slabs: Slabs,
    known: HashMap<u64, Option<Cache>>,
}

impl Caches {
    /// Returns `None` if the kernel's types do not have the necessary fields.
    pub(crate) fn new(btf: &Btf) -> Option<Caches> {
        Some(Caches { slabs: Slabs::new(btf)?, known: HashMap::new() })
    }

    /// The cache whose `struct kmem_cache` is at an address; `None` if that struct is invalid.
    pub(crate) fn get(&mut self, memory: &Memory, btf: &Btf, at: u64) -> Option<&Cache> {
        let slabs = &self.slabs;
        self.known.entry(at).or_insert_with(|| slabs.cache(memory, btf, at)).as_ref()
    }
}

impl Slabs {
    fn new(btf: &Btf) -> Option<Slabs> {
        Some(Slabs {
            name: btf.offset("kmem_cache.name")?,
            size: btf.offset("kmem_cache.size")?,
            object_size: btf.offset("kmem_cache.object_size")?,
            // Kernels without red zones have no such field.
            left: btf.offset("kmem_cache.red_left_pad").unwrap_or(0),
        })
    }

    fn cache(&self, memory: &Memory, btf: &Btf, at: u64) -> Option<Cache> {
        let half = |offset: u64| memory.half(at.checked_add(offset)?).map(u64::from);
        let step = half(self.size)?;
        let object = half(self.object_size)?;
        let left = half(self.left).filter(|left| *left < step && self.left != 0).unwrap_or(0);
        if step == 0 || object == 0 || object > step || step > MAX_OBJECT {
            return None;
        }
        let name = stable(&memory.name(memory.word(at.checked_add(self.name)?)?)?);
        let of = type_of(btf, &name, object);
        Some(Cache { name, object, of, step, left })
    }
}

/// A cache's name without the part that differs from boot to boot. With
/// CONFIG_RANDOM_KMALLOC_CACHES, general caches have several copies, and the call site that allocates
/// an object determines the copy.
fn stable(name: &str) -> String {
    match name.strip_prefix("kmalloc-rnd-").and_then(|rest| rest.split_once('-')) {
        Some((_, size)) => format!("kmalloc-{size}"),
        None => name.to_owned(),
    }
}

/// The type of a cache's objects: a struct with a matching name that fits into an object.
fn type_of(btf: &Btf, cache: &str, object: u64) -> Option<TypeId> {
    let fits = |name: &str| {
        let of = btf.composite(name)?;
        let is_struct = matches!(btf.kind(of), Kind::Composite { is_union: false, .. });
        let has_room = (1..=object).contains(&btf.bytes(of)) || OPEN_ENDED.contains(&name);
        (is_struct && has_room).then_some(of)
    };
    if let Some((_, of)) = TYPES.iter().find(|(name, _)| *name == cache)
        && let Some(of) = fits(of)
    {
        return Some(of);
    }
    let stems = SUFFIXES.iter().filter_map(|suffix| cache.strip_suffix(suffix));
    let names: Vec<String> = std::iter::once(cache)
        .chain(stems)
        .flat_map(|stem| [stem.to_owned(), format!("{stem}_struct"), format!("{stem}{EMBEDDING}")])
        .collect();
    let found: Vec<TypeId> = names.iter().filter_map(|name| fits(name)).collect();
    // If several structs fit, such as `inode` and `inode_info`, take the largest.
    found.into_iter().max_by_key(|of| btf.bytes(*of))
}

#[cfg(test)]
mod tests {
    use super::super::kernel;
    use super::*;

    #[test]
    fn a_task_is_identified_by_its_cache_although_the_kernel_allocates_only_part_of_its_type() {
        let btf = Btf::parse(&kernel::types().finish()).expect("types");
        let name = |cache, object| type_of(&btf, cache, object).map(|of| btf.name(of).to_owned());
        assert_eq!(name("task_struct", 256), Some("task_struct".to_owned()));
        assert_eq!((name("filp", 128), name("filp", 256)), (None, Some("file".to_owned())));
    }

    #[test]
    fn objects_keep_their_offset_in_a_line_if_their_distance_is_a_multiple_of_the_line_size() {
        let keeps = |step| {
            let name = "shmem_inode_cache".to_owned();
            Cache { name, object: step, of: None, step, left: 0 }.keeps_lines()
        };
        assert_eq!([64, 192, 712, 200].map(keeps), [true, true, false, false]);
    }
}
