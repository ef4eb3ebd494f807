//! The types of static variables. The kernel's description of its types (BTF) covers functions and,
//! in newer kernels, per-CPU variables, but no other variables.

use std::collections::BTreeMap;

use super::btf::{Btf, TypeId};
use super::memory::Memory;
use super::symbols::Symbols;

/// Static structs that are shared by calls, with their types.
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
/// Pointers to structs that are allocated once, at boot.
const POINTERS: &[(&str, &str)] =
    &[("root_mem_cgroup", "mem_cgroup"), ("root_ns", "aa_ns"), ("node_data", "pglist_data")];
/// Pointers to tables that are allocated at boot, each with the variable that determines the number
/// of entries. Each entry of a table is a pointer.
const TABLES: &[(&str, &str, Shift)] = &[
    ("dentry_hashtable", "d_hash_shift", Shift::OfHash),
    ("__dentry_hashtable", "d_hash_shift", Shift::OfHash),
    ("inode_hashtable", "i_hash_shift", Shift::OfIndex),
    ("mount_hashtable", "m_hash_shift", Shift::OfIndex),
];
/// Maximum binary logarithm of the number of entries; a greater value is invalid.
const MAX_ENTRIES_SHIFT: u32 = 28;

/// What the value of a `…_shift` variable means.
#[derive(Clone, Copy, Debug)]
enum Shift {
    /// The number of bits by which a 32-bit hash is shifted to make an index.
    OfHash,
    /// The number of bits of an index.
    OfIndex,
}

/// The `file_operations` of pipes. Since Linux 6.14, anonymous pipes have `file_operations` of their own.
const PIPES: &[&str] = &["pipefifo_fops", "pipeanon_fops"];

/// Static data of known types, by address.
#[derive(Debug, Default)]
pub(crate) struct Statics {
    structs: BTreeMap<u64, TypeId>,
    /// Structs that static pointers point to, by address.
    pointed: BTreeMap<u64, TypeId>,
    /// The name and the end of each table, by the address of the table's start.
    tables: BTreeMap<u64, (&'static str, u64)>,
    /// Addresses of the `file_operations` of pipes. If a file has one of these `file_operations`, its
    /// private data are a `struct pipe_inode_info`.
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

    /// The start and the type of the struct that contains an address in the image or in the direct
    /// map.
    pub(crate) fn at(&self, btf: &Btf, address: u64) -> Option<(u64, TypeId)> {
        [&self.structs, &self.pointed].into_iter().find_map(|known| {
            let (begin, of) = known.range(..=address).next_back()?;
            (address - begin < btf.bytes(*of)).then_some((*begin, *of))
        })
    }

    /// The name of the table that contains an address.
    pub(crate) fn table_at(&self, address: u64) -> Option<&'static str> {
        let (_, (name, end)) = self.tables.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }

    /// All structs.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, TypeId)> {
        self.structs.iter().chain(&self.pointed).map(|(begin, of)| (*begin, *of))
    }
}

/// The start, name and end of a table. The name omits the underscores at the start of the variable's name.
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
