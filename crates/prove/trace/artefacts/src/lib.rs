//! Programs that run outside knee's process, built by this crate's build script and embedded as
//! bytes, so that knee is one binary and plain `cargo` builds all of it.
#![forbid(unsafe_code)]

/// The QEMU plugin (crate knee-plugin), a shared library.
pub static PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libknee_plugin.so"));

/// The init of a guest (crate knee-agent), a static program.
pub static AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/knee-agent"));
