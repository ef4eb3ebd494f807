//! Finds the field of a struct that contains a byte.

use super::btf::{Btf, Kind, MAX_LOOKS, TypeId};

/// What a type is for that is named as a whole. Its fields show how it works, not what it is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    /// A lock, or a sequence count.
    Lock,
    /// A count of users. A lockref contains its lock.
    ReferenceCount,
    /// Any other counter.
    Counter,
    /// An allocator of numbers.
    Allocator,
    /// A link or the root of a collection.
    Links,
    Value,
}

const WHOLES: &[(Whole, &[&str])] = &[
    (
        Whole::Lock,
        &[
            "spinlock",
            "spinlock_t",
            "raw_spinlock",
            "raw_spinlock_t",
            "qspinlock",
            "rwlock_t",
            "mutex",
            "rw_semaphore",
            "percpu_rw_semaphore",
            "semaphore",
            "rt_mutex",
            "seqcount",
            "seqcount_t",
            "seqcount_spinlock",
            "seqcount_spinlock_t",
            "seqcount_raw_spinlock_t",
            "seqcount_rwlock_t",
            "seqcount_mutex_t",
            "seqlock_t",
            "optimistic_spin_queue",
            "srcu_struct",
        ],
    ),
    (
        Whole::ReferenceCount,
        &["lockref", "refcount_struct", "refcount_t", "file_ref_t", "kref", "percpu_ref"],
    ),
    (
        Whole::Counter,
        &[
            "atomic_t",
            "atomic64_t",
            "atomic_long_t",
            "percpu_counter",
            "mm_rss_stat",
            "page_counter",
        ],
    ),
    (Whole::Allocator, &["ida", "idr"]),
    (
        Whole::Links,
        &[
            "list_head",
            "hlist_head",
            "hlist_node",
            "hlist_bl_head",
            "hlist_bl_node",
            "hlist_nulls_node",
            "llist_head",
            "llist_node",
            "rb_node",
            "rb_root",
            "rb_root_cached",
            "xarray",
            "radix_tree_root",
            "maple_tree",
            "list_lru",
            "wait_queue_head",
            "wait_queue_head_t",
            "swait_queue_head",
            "completion",
            "callback_head",
            "work_struct",
            "delayed_work",
            "timer_list",
            "hrtimer",
            "plist_head",
            "plist_node",
        ],
    ),
    (
        Whole::Value,
        &[
            "cpumask",
            "cpumask_t",
            "nodemask_t",
            "kuid_t",
            "kgid_t",
            "timespec64",
            "qstr",
            "sigset_t",
            "uuid_t",
            "kernel_cap_t",
        ],
    ),
];
/// Maximum nesting of structs and arrays. No valid type nests this deeply, so deeper nesting can only be a
/// cycle in malformed BTF.
const MAX_DEPTH: usize = 16;

/// What a type is for, if it is named as a whole, without its fields.
pub(crate) fn whole(name: &str) -> Option<Whole> {
    WHOLES.iter().find(|(_, names)| names.contains(&name)).map(|(whole, _)| *whole)
}

/// Whether a type is named as a whole.
pub(crate) fn is_whole(name: &str) -> bool {
    whole(name).is_some()
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The struct's name and the path to the field, as in C: `mm_struct.mmap_lock`.
    pub(crate) path: String,
    /// The offset of the field's end from the start of the struct, in bytes.
    pub(crate) end: u64,
    /// Where the field is defined.
    pub(crate) place: Place,
}

/// A field of a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The struct: the first one in the field's path.
    pub(crate) within: TypeId,
    /// The field's offset in it, in bytes.
    pub(crate) offset: u64,
    /// The offset of the byte in it.
    pub(crate) byte: u64,
    /// The field's type as declared; 0 for padding.
    pub(crate) of: TypeId,
}

/// The field of a struct that contains the byte at `offset`. If several members of a union contain
/// the byte, chooses the member that is called `alternative` or that has a field of this name. If there is no
/// such member, chooses the first one.
pub(crate) fn field(btf: &Btf, of: TypeId, offset: u64, alternative: Option<&str>) -> Field {
    let mut path = btf.name(of).to_owned();
    let (mut within, mut begin) = (of, 0);
    let mut end = btf.bytes(of);
    let (mut named, mut named_at) = (of, 0);
    let mut declared = of;
    for _ in 0..MAX_DEPTH {
        within = btf.resolve(within);
        match btf.kind(within) {
            Kind::Composite { is_union, .. } => {
                let inner = offset - begin;
                let Some(at) = member(btf, within, *is_union, inner, alternative) else {
                    let next = next_member(btf, within, inner).unwrap_or(u64::MAX);
                    let end = end.min(begin.saturating_add(next)).max(offset.saturating_add(1));
                    let byte = offset - named_at;
                    let place = Place { within: named, offset: byte, byte, of: 0 };
                    return Field { path, end, place };
                };
                begin += at.offset;
                if at.bytes > 0 {
                    end = end.min(begin.saturating_add(at.bytes));
                }
                if !at.name.is_empty() {
                    path = format!("{path}.{}", at.name);
                }
                (within, declared) = (at.of, at.of);
                if is_whole(btf.known_as(at.of)) {
                    break;
                }
                // In every file system, fields of an embedded inode are named as fields of `inode`.
                if btf.name(btf.resolve(within)) == "inode" {
                    path = "inode".to_owned();
                    (named, named_at) = (within, begin);
                }
            }
            Kind::Array { element, .. } => {
                let bytes = btf.bytes(*element);
                if !matches!(btf.kind(btf.resolve(*element)), Kind::Composite { .. }) || bytes == 0
                {
                    break;
                }
                (within, declared) = (*element, *element);
                begin += (offset - begin) / bytes * bytes;
                end = begin.saturating_add(bytes);
                if is_whole(btf.known_as(within)) {
                    break;
                }
            }
            _ => break,
        }
    }
    let (byte, offset_in_named) = (offset - named_at, begin - named_at);
    let place = Place { within: named, offset: offset_in_named, byte, of: declared };
    Field { path, end: end.max(offset.saturating_add(1)), place }
}

struct At<'a> {
    name: &'a str,
    of: TypeId,
    offset: u64,
    bytes: u64,
}

fn member<'a>(
    btf: &'a Btf,
    within: TypeId,
    is_union: bool,
    offset: u64,
    alternative: Option<&str>,
) -> Option<At<'a>> {
    let Kind::Composite { members, .. } = btf.kind(within) else { return None };
    let all = members.iter().map(|member| At {
        name: btf.member_name(member),
        of: member.of,
        offset: member.offset(),
        bytes: btf.bytes(member.of),
    });
    let covers = |at: &At<'_>| at.offset <= offset && offset - at.offset < at.bytes;
    if is_union {
        let mut covering: Vec<At<'a>> = all.filter(covers).collect();
        let mut looks = MAX_LOOKS;
        let meant = alternative.and_then(|wanted| {
            let is = |at: &At<'_>| at.name == wanted || btf.has_member(at.of, wanted, &mut looks);
            covering.iter().position(is)
        });
        return (!covering.is_empty()).then(|| covering.swap_remove(meant.unwrap_or(0)));
    }
    // A byte that several bit-fields share is named after the first of these bit-fields.
    let mut found: Option<At<'a>> = None;
    for at in all {
        let flexible = at.bytes == 0
            && at.offset <= offset
            && matches!(btf.kind(btf.resolve(at.of)), Kind::Array { .. });
        if covers(&at) && found.is_none() || flexible && found.as_ref().is_none_or(|f| f.bytes == 0)
        {
            found = Some(at);
        }
    }
    found
}

/// The offset of the next field after a byte that is in no field.
fn next_member(btf: &Btf, within: TypeId, offset: u64) -> Option<u64> {
    let Kind::Composite { members, .. } = btf.kind(within) else { return None };
    members.iter().map(|member| member.offset()).filter(|begin| *begin > offset).min()
}

#[cfg(test)]
mod tests {
    use super::super::kernel::types;
    use super::*;

    #[test]
    fn the_search_for_a_member_of_a_wide_union_ends_after_so_many_fields() {
        let mut types = types();
        let word = types.int(8);
        let wide = types.of_struct("wide", 8, &vec![("a", word, 0); 4_000]);
        let last = types.of_struct("last", 8, &[("wanted", word, 0)]);
        let mut union = |wides: usize| {
            let members = [vec![("u", wide, 0); wides], vec![("v", last, 0)]].concat();
            types.of_union("union", 8, &members)
        };
        let (few, many) = (union(MAX_LOOKS / 4_000 - 1), union(MAX_LOOKS / 4_000));
        let btf = Btf::parse(&types.finish()).expect("types");
        let path = |of| field(&btf, of, 0, Some("wanted")).path;
        assert_eq!(path(few), "union.v.wanted");
        // In all structs of a union with 4,096 members, there are up to 80 million fields to look at.
        assert_eq!(path(many), "union.u.a");
    }

    #[test]
    fn a_field_at_the_end_of_the_address_space_is_no_overflow() {
        let mut types = types();
        let word = types.int(8);
        let element = types.of_struct("element", 16, &[("a", word, 0), ("b", word, 8)]);
        let many = types.array(element, u32::MAX);
        let btf = Btf::parse(&types.finish()).expect("types");
        assert_eq!(field(&btf, many, u64::MAX, None).end, u64::MAX);
    }
}
