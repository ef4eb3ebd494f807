//! Names the kernel's data, such as `file.f_count`, in a cache line that is shared by calls.
//!
//! | where an address lies | how it is named |
//! | --- | --- |
//! | the kernel's image, modules | a static variable, by symbol |
//! | a CPU's area | `per-cpu runqueues.__lock`, by symbol and type |
//! | `struct page` | `page._refcount (page cache of tmpfs)`, `slab.freelist (filp)`, with the page's use |
//! | a table that is allocated at boot | `dentry_hashtable[]` |
//! | an object of a dedicated slab cache | `dentry.d_lockref`, by the cache's name and the type's fields |
//! | an object of a general slab cache | the same, if a pointer shows the type; else `kmalloc-192+0x40` |
//! | other memory | `page table`, `page cache of tmpfs`, `anonymous memory`, `vmalloc` |
//!
//! knee learns these names from the guest's memory: the kernel's symbols show addresses, and the kernel's
//! description of its own types (BTF) shows layouts. So nothing here depends on the version number of Linux.
//! Memory may change while knee reads it, or may have been freed. Even if the guest pauses after a test, the
//! calls have already freed what they no longer need. So every value is checked before it is used, and data
//! that cannot be identified get the name of their class, such as `vmalloc`. Names contain no address and no
//! CPU number, so a datum has the same name in all runs and, if Linux has not renamed it, in all kernels.

mod btf;
mod fields;
#[cfg(test)]
mod kernel;
mod layout;
mod learned;
mod memory;
mod module_types;
mod names;
mod pages;
mod per_cpu;
mod propagate;
mod resolver;
mod role;
mod slab;
mod statics;
mod symbols;
mod types;

use std::fmt::{self, Display, Formatter};

use knee_host::text::one_line;

pub(crate) use fields::{Whole, whole};
pub use layout::{Access, FalselyShared, FieldType, Layout, Layouts, Member};
pub use memory::LINE_BYTES;
pub(crate) use names::DataNames;
pub use resolver::Resolver;
pub use symbols::{Symbol, Symbols};

/// The data in a line that is shared by calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Datum {
    /// Fields or variables, in the order of their addresses. For true sharing, the data that one
    /// call writes and another touches; for false sharing, the data that calls write. If all calls write, those of the
    /// call that writes the first byte.
    pub fields: Vec<String>,
    /// For false sharing, the other fields or variables that calls touch. Never empty.
    pub beside: Vec<String>,
}

impl Datum {
    /// Data that several calls touch.
    pub(crate) fn shared(fields: Vec<String>) -> Datum {
        Datum { fields: on_one_line(fields), beside: Vec::new() }
    }

    /// False sharing: calls write `fields`, and touch `beside` in the same line.
    pub(crate) fn falsely_shared(fields: Vec<String>, beside: Vec<String>) -> Datum {
        let (fields, beside) = (on_one_line(fields), on_one_line(beside));
        // The calls access different data with the same names, such as two elements of one array. The names then appear
        // twice.
        Datum { beside: if beside.is_empty() { fields.clone() } else { beside }, fields }
    }
}

/// Names come from the guest, and may contain newlines; see [`one_line`].
fn on_one_line(names: Vec<String>) -> Vec<String> {
    names.iter().map(|name| one_line(name).into_owned()).collect()
}

/// `dentry.d_lockref`; `mm_struct.map_count, mm_struct.mmap_lock` for several fields; and
/// `cred.usage / cred.fsuid` for false sharing.
impl Display for Datum {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fields.join(", "))?;
        match self.beside.is_empty() {
            true => Ok(()),
            false => write!(f, " / {}", self.beside.join(", ")),
        }
    }
}
