//! The libraries in C: see `c/peer.h`.

use std::ffi::c_void;

/// C's state of a registered thread.
type Raw = *mut c_void;
type Loop = extern "C" fn(Raw, u64);

/// A library: `struct peer`.
#[repr(C)]
pub(crate) struct C {
    join: extern "C" fn() -> Raw,
    leave: extern "C" fn(Raw),
    replace: extern "C" fn(Raw, u64, u64),
    sections: Loop,
    nested: Loop,
    load: Loop,
    special: Loop,
    synchronize: Loop,
    enter: extern "C" fn(Raw),
    exit: extern "C" fn(Raw),
    drain: extern "C" fn(Raw),
}

unsafe extern "C" {
    /// Concurrency Kit's ck_epoch.
    #[link_name = "peer_ck"]
    pub(crate) safe static CK: C;
    /// liburcu with membarrier(2).
    #[link_name = "peer_memb"]
    pub(crate) safe static MEMB: C;
    /// liburcu with QSBR.
    #[link_name = "peer_qsbr"]
    pub(crate) safe static QSBR: C;
    /// liburcu whose threads need not register.
    #[link_name = "peer_bp"]
    pub(crate) safe static BP: C;
}

/// Registers the calling thread until it is dropped. It stays on its thread.
pub(crate) struct Member {
    of: &'static C,
    raw: Raw,
}

impl C {
    pub(crate) fn join(&'static self) -> Member {
        Member { of: self, raw: (self.join)() }
    }
}

impl Member {
    /// How: after how many ck polls; for liburcu 0 for call_rcu, 1 for defer_rcu.
    pub(crate) fn replace(&mut self, times: u64, how: u64) {
        (self.of.replace)(self.raw, times, how);
    }

    pub(crate) fn sections(&mut self, times: u64) {
        (self.of.sections)(self.raw, times);
    }

    pub(crate) fn nested(&mut self, times: u64) {
        (self.of.nested)(self.raw, times);
    }

    pub(crate) fn load(&mut self, times: u64) {
        (self.of.load)(self.raw, times);
    }

    /// ck: sections that let the epoch go on. QSBR: a pointer followed, and a quiescent state.
    pub(crate) fn special(&mut self, times: u64) {
        (self.of.special)(self.raw, times);
    }

    pub(crate) fn synchronize(&mut self, times: u64) {
        (self.of.synchronize)(self.raw, times);
    }

    /// Calls `during` in a section.
    pub(crate) fn stall(&mut self, during: impl FnOnce()) {
        (self.of.enter)(self.raw);
        during();
        (self.of.exit)(self.raw);
    }

    /// Frees all retired objects.
    pub(crate) fn drain(&mut self) {
        (self.of.drain)(self.raw);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        (self.of.leave)(self.raw);
    }
}
