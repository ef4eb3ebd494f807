//! Finds lock sections in the accesses of an operation.
//!
//! A lock is taken by an atomic instruction in one of the functions that take locks, or by any compare and
//! exchange of four bytes whose first byte a plain store sets later. The latter is how an inlined
//! `spin_lock` and `spin_unlock` look (queued_spin_lock and queued_spin_unlock of
//! include/asm-generic/qspinlock.h).

use super::lock::{Hold, LockId, LockKind};
use super::lock_functions::acquires;
use crate::record::{AccessKind, SharedAccess};

/// The number of bytes of a spin lock or a reader-writer spin lock.
const SPIN_BYTES: u8 = 4;
/// The number of bytes whose store releases a spin lock.
const HELD_BYTES: u8 = 1;

/// A lock section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) kind: LockKind,
    pub(super) hold: Hold,
    /// The index of the access that takes the lock.
    pub(super) acquire: usize,
    /// The index of the access that releases the lock.
    pub(super) release: usize,
}

impl Section {
    pub(super) fn lock(&self, accesses: &[SharedAccess]) -> LockId {
        let access = &accesses[self.acquire];
        (access.line, access.offset, self.kind)
    }
}

/// A lock that may have been taken.
struct Taken {
    kind: LockKind,
    hold: Hold,
    /// Whether only the access, not the function, suggests that this is a lock.
    by_access: bool,
    acquire: usize,
}

/// The lock sections of an operation, in the order of their ends. `function` returns the function that
/// contains the code at an address. A lock that is taken or released outside of the operation has no section.
pub(super) fn sections<'f>(
    accesses: &[SharedAccess],
    function: impl Fn(u64) -> Option<&'f str>,
) -> Vec<Section> {
    let mut taken: Vec<Taken> = Vec::new();
    let mut found = Vec::new();
    for (at, access) in accesses.iter().enumerate() {
        if access.kind == AccessKind::Load {
            continue;
        }
        let acquires = function(access.pc).and_then(acquires);
        let is_of_word = |one: &Taken| {
            let by = &accesses[one.acquire];
            (by.line, by.offset) == (access.line, access.offset)
        };
        let is_end = |one: &Taken| is_of_word(one) && one.is_released(access, acquires);
        if let Some(end) = taken.iter().rposition(is_end) {
            let Taken { kind, hold, acquire, .. } = taken.remove(end);
            found.push(Section { kind, hold, acquire, release: at });
            // A downgrade both ends and begins a section.
            if acquires.is_none() {
                continue;
            }
        }
        let is_held = |one: &Taken| is_of_word(one) && one.hold == Hold::Exclusive;
        if !access.kind.is_atomic() || taken.iter().any(is_held) {
            continue;
        }
        let by_access = access.kind == AccessKind::CompareExchange && access.bytes == SPIN_BYTES;
        let spin = by_access.then_some((LockKind::Spin, Hold::Exclusive));
        if let Some((kind, hold)) = acquires.or(spin) {
            taken.push(Taken { kind, hold, by_access: acquires.is_none(), acquire: at });
        }
    }
    found
}

impl Taken {
    /// Whether an access that writes the lock's word releases the lock. `acquires` is the lock that the
    /// function of the access takes.
    fn is_released(&self, access: &SharedAccess, acquires: Option<(LockKind, Hold)>) -> bool {
        let is_plain = access.kind == AccessKind::Store;
        match (self.kind, self.hold) {
            (LockKind::Spin | LockKind::RwSpin, Hold::Exclusive) => {
                access.bytes == HELD_BYTES && (is_plain || !self.by_access)
            }
            (LockKind::RwSpin, _) => access.kind.is_atomic() && acquires.is_none(),
            // Code that takes a lock may need several atomic instructions. Only a downgrade turns one hold
            // into another.
            _ => acquires
                .is_none_or(|(_, hold)| (self.hold, hold) == (Hold::Exclusive, Hold::Shared)),
        }
    }
}
