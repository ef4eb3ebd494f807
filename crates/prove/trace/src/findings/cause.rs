//! The kind of shared data, which suggests the fix.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::datum::{Layouts, Whole, whole};

/// The kind of a shared datum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A count of users, which keeps an object alive.
    ReferenceCount,
    /// A lock, or a sequence count.
    Lock,
    /// A link or the root of a list, a tree or a hash table.
    Links,
    /// A counter, such as the number of a process's mappings.
    Counter,
    /// Metadata of an allocator of memory, descriptors or numbers.
    Allocator,
    /// False sharing of different elements of a table, or of different variables.
    Adjacent,
    /// False sharing of different fields of a struct.
    Layout,
    /// The state of an object: its size, times, flags, or pointers to other objects.
    State,
    /// The type of the data is not known.
    Unknown,
}

/// Names of reference counts that have the type of any atomic counter.
const REFERENCE_COUNT_NAMES: &[&str] = &[
    "count",
    "usage",
    "users",
    "mm_users",
    "mm_count",
    "f_count",
    "i_count",
    "d_count",
    "mnt_count",
];
/// Structs that are nodes of a tree.
const NODES: &[&str] = &["maple_node", "xa_node"];
/// The structs of the memory allocators.
const ALLOCATORS: &[&str] =
    &["slab", "kmem_cache", "kmem_cache_node", "kmem_cache_cpu", "per_cpu_pages", "zone"];
/// Fields of the allocator of descriptors.
const DESCRIPTOR_ALLOCATORS: &[&str] = &[
    "fdtable.open_fds",
    "fdtable.full_fds_bits",
    "files_struct.next_fd",
    "files_struct.open_fds_init",
    "files_struct.full_fds_bits_init",
];
/// Names of whole pages.
const CONTENTS: &[&str] = &["page table", "page cache", "anonymous memory", "user memory"];

impl Cause {
    /// The kind of the datum with this name in a record. If the type is generic, such as `int`, or unknown, the name
    /// decides.
    pub fn of(datum: &str, layouts: &Layouts) -> Self {
        if let Some([written, beside]) = sides(datum) {
            return match names(written) == names(beside) {
                // Two parts of a link, such as its two pointers, or two slots of a node.
                true if is_link(written, layouts) => Self::Links,
                true => Self::Adjacent,
                false if is_within(written, ALLOCATORS, layouts) => Self::Allocator,
                false if !written.contains('.') => Self::Adjacent,
                false => Self::Layout,
            };
        }
        // Without the use of a page or the role of an inode: `page.lru (anonymous memory)`.
        let name = datum.split_once(" (").map_or(datum, |(name, _)| name);
        let of = layouts.fields.get(datum);
        let (of, within) = of.map_or(("", ""), |field| (&*field.of, &*field.within));
        let last = name.rsplit('.').next().unwrap_or(name);
        let of_type = whole(of);
        let is_numbered = of_type == Some(Whole::Allocator) || last.starts_with("next_");
        let is_counted = REFERENCE_COUNT_NAMES.contains(&last) || last.contains("refc");
        match of_type {
            _ if ALLOCATORS.contains(&within)
                || DESCRIPTOR_ALLOCATORS.contains(&name.trim_end_matches("[]"))
                || is_numbered && !of.is_empty() =>
            {
                Self::Allocator
            }
            Some(Whole::ReferenceCount) => Self::ReferenceCount,
            Some(Whole::Counter) if is_counted => Self::ReferenceCount,
            Some(Whole::Lock) => Self::Lock,
            None if of.is_empty() && last.ends_with("lock") => Self::Lock,
            Some(Whole::Links) => Self::Links,
            _ if NODES.contains(&name)
                || name.trim_end_matches("[]").ends_with("hashtable")
                || last.starts_with("rb_") =>
            {
                Self::Links
            }
            Some(Whole::Counter) if !is_version(last) => Self::Counter,
            None if is_counter(last) && !of.is_empty() => Self::Counter,
            None if of.is_empty()
                && !name.contains(['.', '['])
                && !CONTENTS.iter().any(|contents| name.starts_with(contents)) =>
            {
                Self::Unknown
            }
            _ => Self::State,
        }
    }
}

/// Whether the first of these data is a link, a node of a tree, or a root.
fn is_link(names: &str, layouts: &Layouts) -> bool {
    let name = names.split(", ").next().unwrap_or(names);
    let of = layouts.fields.get(name).map_or("", |field| &*field.of);
    whole(of) == Some(Whole::Links) || NODES.contains(&name)
}

/// Whether the first of these data is a field of one of these structs.
fn is_within(names: &str, structs: &[&str], layouts: &Layouts) -> bool {
    let name = names.split(", ").next().unwrap_or(names);
    layouts.fields.get(name).is_some_and(|field| structs.contains(&&*field.within))
}

/// Whether a number with this name must have a single order of all changes.
fn is_version(name: &str) -> bool {
    name.ends_with("version") || name.ends_with("gen")
}

/// Whether a number with this name counts something.
fn is_counter(name: &str) -> bool {
    let ends = ["count", "_vm", "_bytes", "_inodes", "_blocks"];
    let begins = ["nr", "total_", "free_"];
    ends.iter().any(|end| name.ends_with(end)) || begins.iter().any(|begin| name.starts_with(begin))
}

/// The two lists of a name for false sharing, `written / accessed`.
pub(super) fn sides(datum: &str) -> Option<[&str; 2]> {
    datum.split_once(" / ").map(|(written, beside)| [written, beside])
}

fn names(list: &str) -> BTreeSet<&str> {
    list.split(", ").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datum::FieldType;

    #[test]
    fn the_kind_follows_from_the_type_and_then_from_the_name() {
        for (datum, of, cause) in [
            ("aa_profile.label.count.count", "kref", Cause::ReferenceCount),
            ("dentry.d_lockref (directory)", "lockref", Cause::ReferenceCount),
            ("file.f_count", "atomic_long_t", Cause::ReferenceCount),
            ("page._refcount", "atomic_t", Cause::ReferenceCount),
            ("mm_struct.mmap_lock", "rw_semaphore", Cause::Lock),
            ("dentry.d_seq", "seqcount_spinlock_t", Cause::Lock),
            ("rename_lock", "", Cause::Lock),
            ("dentry.d_child", "list_head", Cause::Links),
            ("vm_area_struct.shared.rb_subtree_last", "long unsigned int", Cause::Links),
            ("maple_node", "", Cause::Links),
            ("dentry_hashtable[]", "", Cause::Links),
            ("inode.i_writecount", "atomic_t", Cause::Counter),
            ("mm_struct.locked_vm", "long unsigned int", Cause::Counter),
            ("fdtable.open_fds[]", "", Cause::Allocator),
            ("files_struct.next_fd", "unsigned int", Cause::Allocator),
            ("fdtable.fd[] / fdtable.fd[]", "", Cause::Adjacent),
            ("maple_node / maple_node", "", Cause::Links),
            ("fsnotify_sync_cookie / fsnotify_mark_srcu", "", Cause::Adjacent),
            ("mm_context_t.tlb_gen", "atomic64_t", Cause::State),
            ("shmem_sb_info.next_ino", "long unsigned int", Cause::Allocator),
            ("cred.usage / cred.fsuid, cred.fsgid", "", Cause::Layout),
            ("inode.i_size", "long long int", Cause::State),
            ("fdtable.fd[]", "", Cause::State),
            ("page table", "", Cause::State),
            ("kmalloc-192+0x40", "", Cause::Unknown),
            ("line written by fput", "", Cause::Unknown),
        ] {
            let mut layouts = Layouts::default();
            if !of.is_empty() {
                let (of, within) = (of.to_owned(), "s".to_owned());
                let field = FieldType { of, within };
                layouts.fields.insert(datum.to_owned(), field);
            }
            assert_eq!(Cause::of(datum, &layouts), cause, "{datum}");
        }
    }

    #[test]
    fn every_field_of_a_struct_of_an_allocator_belongs_to_it() {
        let (of, within) = ("list_head".to_owned(), "kmem_cache_node".to_owned());
        let field = FieldType { of, within };
        let fields = [("kmem_cache_node.partial".to_owned(), field)].into();
        let layouts = Layouts { fields, ..Layouts::default() };
        assert_eq!(Cause::of("kmem_cache_node.partial", &layouts), Cause::Allocator);
    }
}
