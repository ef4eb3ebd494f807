//! A line of memory that calls share → what the kernel keeps there: `file.f_count`.
//!
//! | where an address lies | how it is named |
//! | --- | --- |
//! | the kernel's image, modules | a static variable, by symbol |
//! | the area of a CPU | `per-cpu runqueues.__lock`, by symbol and type |
//! | `struct page` | `page._refcount (page cache of tmpfs)`, `slab.freelist (filp)`, by what the page is used for |
//! | a table that is allocated at boot | `dentry_hashtable[]` |
//! | a slab with a type of its own | `dentry.d_lockref`, by the cache's name and the type's fields |
//! | a slab of a general size | the same, by the type of the pointers to it; else `kmalloc-192+0x40` |
//! | other memory | `page table`, `page cache of tmpfs`, `anonymous memory`, `vmalloc` |
//!
//! All of it is read from the guest's memory from outside: symbols locate things, and the kernel's
//! description of its own types (BTF) has their layout. So nothing here knows a version
//! of Linux by its number, and nothing in the guest has to help. What is read may be changing or may
//! have been freed, even if the guest is paused after a test: a call frees what it no longer needs.
//! So everything is checked before it is believed, and what cannot be named gets the name of its class.
//! Names hold no address and no number of a CPU: one datum has one name in all runs and in all
//! kernels that call it the same.

mod btf;
mod fields;
#[cfg(test)]
mod kernel;
mod learned;
mod memory;
mod module_types;
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

pub use resolver::Resolver;
pub use symbols::{Symbol, Symbols};

/// What is in a line that calls share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Datum {
    /// Fields or variables, by address: those of the bytes that one call writes and another touches.
    /// Where there is no such byte, it is false sharing: those that are written.
    pub fields: Vec<String>,
    /// With false sharing, what else is touched.
    pub beside: Vec<String>,
}

impl Datum {
    /// Of bytes that several calls touch.
    pub(crate) fn shared(fields: Vec<String>) -> Datum {
        Datum { fields, beside: Vec::new() }
    }

    /// Of bytes that are written next to others that are touched.
    pub(crate) fn falsely_shared(fields: Vec<String>, beside: Vec<String>) -> Datum {
        match fields.len() {
            // Elements of one array have one name.
            1 if beside.is_empty() => Datum { beside: fields.clone(), fields },
            _ => Datum { fields, beside },
        }
    }
}

/// `dentry.d_lockref`; `mm_struct.map_count, mm_struct.mmap_lock` where it is several; and
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
