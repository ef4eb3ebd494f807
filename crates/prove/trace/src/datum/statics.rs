//! Types of static variables that the kernel does not describe: its types (BTF) have those of
//! functions and, in newer ones, of variables of CPUs, but not of others.

use std::collections::BTreeMap;

use super::btf::{Btf, TypeId};
use super::memory::Memory;
use super::symbols::Symbols;

/// Structs that calls share.
const STRUCTS: &[(&str, &str)] = &[
    ("contig_page_data", "pglist_data"),
    ("fsnotify_mark_srcu", "srcu_struct"),
    ("init_cred", "cred"),
    ("init_css_set", "css_set"),
    ("init_files", "files_struct"),
    ("init_fs", "fs_struct"),
    ("init_mm", "mm_struct"),
    ("init_net", "net"),
    ("init_nsproxy", "nsproxy"),
    ("init_pid_ns", "pid_namespace"),
    ("init_sighand", "sighand_struct"),
    ("init_signals", "signal_struct"),
    ("init_struct_pid", "pid"),
    ("init_task", "task_struct"),
    ("init_ucounts", "ucounts"),
    ("init_user_ns", "user_namespace"),
    ("noop_backing_dev_info", "backing_dev_info"),
    ("nr_files", "percpu_counter"),
    ("printk_ratelimit_state", "ratelimit_state"),
    ("root_user", "user_struct"),
    ("vm_committed_as", "percpu_counter"),
];
/// Pointers to structs that are allocated once, when the system boots.
const POINTERS: &[(&str, &str)] =
    &[("root_mem_cgroup", "mem_cgroup"), ("root_ns", "aa_ns"), ("node_data", "pglist_data")];
/// Pointers to tables that are allocated when the system boots, and the variables with their numbers
/// of entries, of a pointer each.
const TABLES: &[(&str, &str, Shift)] = &[
    ("dentry_hashtable", "d_hash_shift", Shift::OfHash),
    ("__dentry_hashtable", "d_hash_shift", Shift::OfHash),
    ("inode_hashtable", "i_hash_shift", Shift::OfIndex),
    ("mount_hashtable", "m_hash_shift", Shift::OfIndex),
];
/// A greater number of entries is invalid.
const MAX_ENTRIES_SHIFT: u32 = 28;

/// What a number is that is called a shift.
#[derive(Clone, Copy, Debug)]
enum Shift {
    /// By how much a hash of 32 bits is shifted to make an index.
    OfHash,
    /// How many bits an index has.
    OfIndex,
}

/// Tables of the operations of pipes: with names or without, which have their own from Linux 6.14 on.
const PIPES: &[&str] = &["pipefifo_fops", "pipeanon_fops"];

/// Static variables of known types, by their address.
#[derive(Debug, Default)]
pub(crate) struct Statics {
    structs: BTreeMap<u64, TypeId>,
    /// What static pointers point to, likewise.
    pointed: BTreeMap<u64, TypeId>,
    /// Names and ends of tables, likewise.
    tables: BTreeMap<u64, (&'static str, u64)>,
    /// Operations of pipes: what a file with them has to itself is a `struct pipe_inode_info`.
    pub(crate) pipe_operations: Vec<u64>,
}

impl Statics {
    pub(crate) fn new(memory: &Memory, symbols: &Symbols, btf: &Btf) -> Statics {
        let known = |(variable, of): &(&str, &str)| {
            Some((symbols.address_of(variable)?, btf.composite(of)?))
        };
        Statics {
            structs: STRUCTS.iter().filter_map(known).collect(),
            pointed: POINTERS
                .iter()
                .filter_map(known)
                .filter_map(|(at, of)| Some((memory.word(at)?, of)))
                .collect(),
            tables: TABLES.iter().filter_map(|table| self::table(memory, symbols, table)).collect(),
            pipe_operations: PIPES.iter().filter_map(|name| symbols.address_of(name)).collect(),
        }
    }

    /// The struct that has the byte at an address, in the image or in the direct map: where it begins
    /// and its type.
    pub(crate) fn at(&self, btf: &Btf, address: u64) -> Option<(u64, TypeId)> {
        [&self.structs, &self.pointed].into_iter().find_map(|known| {
            let (begin, of) = known.range(..=address).next_back()?;
            (address - begin < btf.bytes(*of)).then_some((*begin, *of))
        })
    }

    /// The table that has the byte at an address.
    pub(crate) fn table_at(&self, address: u64) -> Option<&'static str> {
        let (_, (name, end)) = self.tables.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }

    /// All structs.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, TypeId)> {
        self.structs.iter().chain(&self.pointed).map(|(begin, of)| (*begin, *of))
    }
}

/// Where a table begins, its name without what marks it as internal, and where it ends.
fn table(
    memory: &Memory,
    symbols: &Symbols,
    (name, shift, kind): &(&'static str, &str, Shift),
) -> Option<(u64, (&'static str, u64))> {
    let begin = memory.word(symbols.address_of(name)?)?;
    let shift = memory.half(symbols.address_of(shift)?)?;
    let bits = match kind {
        Shift::OfHash => 32_u32.checked_sub(shift)?,
        Shift::OfIndex => shift,
    };
    let bytes = 8 << Some(bits).filter(|bits| *bits <= MAX_ENTRIES_SHIFT)?;
    Some((begin, (name.trim_start_matches('_'), begin.checked_add(bytes)?)))
}
