//! Finds lock sections in the accesses of an operation.
//!
//! In a kernel, a lock is taken by an atomic instruction in one of the functions that take locks, or by any
//! compare and exchange of four bytes whose first byte is later written by a plain store. This compare and
//! exchange and this store are an inlined `spin_lock` and `spin_unlock` (queued_spin_lock and
//! queued_spin_unlock of include/asm-generic/qspinlock.h).
//!
//! Programs have many kinds of locks, which are released by stores or by atomic instructions. In a program, a
//! compare and exchange takes a lock unless the previous access to the same word was a load. Without such a
//! load, the compare and exchange expects a constant: the value of a free lock. The next write to the word
//! releases the lock. After a load, a compare and exchange expects the loaded value, so it does not take a
//! lock.

use super::lock::{Hold, LockId, LockKind};
use super::lock_functions;
use super::program_locks;
use crate::record::{AccessKind, SharedAccess};

/// The size in bytes of the word by which a spin lock or a reader-writer spin lock is taken.
const SPIN_BYTES: u8 = 4;
/// The size in bytes of the store that releases a spin lock.
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

/// The lock sections of an operation, in the order in which they end. `is_program` is true for a program and
/// false for a kernel. `function` returns the name of the function that contains the code at an address. A
/// lock has a section only if the operation both takes and releases it.
pub(super) fn sections<'f>(
    accesses: &[SharedAccess],
    is_program: bool,
    function: impl Fn(u64) -> Option<&'f str>,
) -> Vec<Section> {
    let acquires = if is_program { program_locks::acquires } else { lock_functions::acquires };
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
            let Taken { kind, hold, acquire, by_access } = taken.remove(end);
            // If a plain store releases a lock, the waiters must be spinning: a store cannot find out whether
            // to wake a waiter.
            let kind = match access.kind {
                AccessKind::Store if by_access => LockKind::Spin,
                _ => kind,
            };
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
        let by_access = access.kind == AccessKind::CompareExchange
            && match is_program {
                true => !is_loaded(accesses, at),
                false => access.bytes == SPIN_BYTES,
            };
        let kind = if is_program { LockKind::Mutex } else { LockKind::Spin };
        let unknown = by_access.then_some((kind, Hold::Exclusive));
        if let Some((kind, hold)) = acquires.or(unknown) {
            taken.push(Taken { kind, hold, by_access: acquires.is_none(), acquire: at });
        }
    }
    found
}

/// Whether the previous access to the same word is a load.
fn is_loaded(accesses: &[SharedAccess], at: usize) -> bool {
    let SharedAccess { line, offset, .. } = accesses[at];
    let mut before = accesses[..at].iter().rev();
    let last = before.find(|access| (access.line, access.offset) == (line, offset));
    last.is_some_and(|access| access.kind == AccessKind::Load)
}

impl Taken {
    /// Whether an access that writes the lock's word releases the lock. If the function that makes the access
    /// takes a lock, `acquires` describes this lock.
    fn is_released(&self, access: &SharedAccess, acquires: Option<(LockKind, Hold)>) -> bool {
        let is_plain = access.kind == AccessKind::Store;
        match (self.kind, self.hold) {
            (LockKind::Spin | LockKind::RwSpin, Hold::Exclusive) => {
                access.bytes == HELD_BYTES && (is_plain || !self.by_access)
            }
            (LockKind::RwSpin, _) => access.kind.is_atomic() && acquires.is_none(),
            // A function that takes a lock may use several atomic instructions, and these do not release the
            // lock. But a downgrade turns an exclusive hold into a shared one.
            _ => acquires
                .is_none_or(|(_, hold)| (self.hold, hold) == (Hold::Exclusive, Hold::Shared)),
        }
    }
}
