//! Groups the accesses of an operation into visits.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::event::{ContentionEvent, EventKind, Visit};
use super::sections::Section;
use crate::record::{AccessKind, SharedAccess};

/// The latest visit to a line.
struct Latest {
    /// The position of its last access.
    at: u64,
    /// The index of its event; `None` if the visit takes or releases a lock.
    event: Option<usize>,
    /// The position of its first access.
    begin: u64,
    /// Bit n is set if the visit has loaded byte n with an instruction that does not write the line.
    loaded: u64,
}

/// Calls `visit` with the line of each visit, whether or not the visit takes or releases a lock. Unlike
/// [`events`], this function uses the distance from the previous access even in the lines of locks.
pub(super) fn count(accesses: &[SharedAccess], apart: u64, mut visit: impl FnMut(u64)) {
    let mut latest: HashMap<u64, u64> = HashMap::new();
    for access in accesses {
        let last = latest.insert(access.line, access.at);
        if last.is_none_or(|last| access.at.saturating_sub(last) >= apart) {
            visit(access.line);
        }
    }
}

/// The function of Linux that tells the other CPUs of an address space to invalidate translations
/// (arch/x86/mm/tlb.c). Its only atomic instruction counts these requests in `mm_context_t.tlb_gen`.
const SHOOTDOWN: &str = "flush_tlb_mm_range";

/// The events of an operation, in order. In the line of a lock, a visit contains the accesses that are fewer
/// than `apart` instructions after its first one. `line` returns the index of a line, and `lock` returns the
/// index of the lock of a section. `function` returns the function that contains the code at an address.
pub(super) fn events<'f>(
    accesses: &[SharedAccess],
    sections: &[Section],
    apart: u64,
    line: impl Fn(u64) -> usize,
    lock: impl Fn(&Section) -> usize,
    function: impl Fn(u64) -> Option<&'f str>,
) -> Vec<ContentionEvent> {
    let mut ends: BTreeMap<usize, Vec<EventKind>> = BTreeMap::new();
    for section in sections {
        let (lock, hold) = (lock(section), section.hold);
        ends.entry(section.release).or_default().insert(0, EventKind::Release { lock });
        ends.entry(section.acquire).or_default().push(EventKind::Acquire { lock, hold });
    }
    let lock_lines: HashSet<u64> =
        sections.iter().map(|section| accesses[section.acquire].line).collect();
    let mut events: Vec<ContentionEvent> = Vec::new();
    let mut latest: HashMap<u64, Latest> = HashMap::new();
    for (number, access) in accesses.iter().enumerate() {
        let &SharedAccess { at, pc, .. } = access;
        if let Some(ends) = ends.get(&number) {
            events.extend(ends.iter().map(|&kind| ContentionEvent { at, pc, kind }));
            latest.insert(access.line, Latest { at, event: None, begin: at, loaded: 0 });
            continue;
        }
        let continued = latest.get_mut(&access.line);
        // A CPU that waits for a lock takes the lock's line again and again, however often the holder
        // accesses the line.
        let since = |latest: &Latest| match lock_lines.contains(&access.line) {
            true => latest.begin,
            false => latest.at,
        };
        match continued.filter(|latest| at.saturating_sub(since(latest)) < apart) {
            Some(latest) => latest.add(access, &mut events),
            None => {
                let kind = access.kind.min(AccessKind::Atomic);
                let atomics = access.kind.is_atomic().into();
                let line = line(access.line);
                let visit = Visit {
                    line,
                    kind,
                    begins_with_load: kind == AccessKind::Load,
                    accesses: 1,
                    atomics,
                    instructions: 0,
                };
                let event = Some(events.len());
                events.push(ContentionEvent { at, pc, kind: EventKind::Visit(visit) });
                let loaded = access.loaded();
                latest.insert(access.line, Latest { at, event, begin: at, loaded });
            }
        }
        if access.kind.is_atomic() && function(pc) == Some(SHOOTDOWN) {
            events.push(ContentionEvent { at, pc, kind: EventKind::Shootdown });
        }
    }
    events
}

impl Latest {
    /// Adds an access to the visit.
    fn add(&mut self, access: &SharedAccess, events: &mut [ContentionEvent]) {
        self.at = access.at;
        let event = self.event.and_then(|event| events.get_mut(event));
        let Some(ContentionEvent { pc, kind: EventKind::Visit(visit), .. }) = event else { return };
        let is_again = access.bits() & self.loaded != 0;
        let kind = match access.kind {
            AccessKind::CompareExchange if !is_again => AccessKind::Atomic,
            kind => kind,
        };
        if kind > visit.kind {
            (visit.kind, *pc) = (kind, access.pc);
        }
        visit.accesses += 1;
        visit.atomics += u32::from(access.kind.is_atomic());
        visit.instructions = access.at.saturating_sub(self.begin);
        self.loaded |= access.loaded();
    }
}

impl SharedAccess {
    /// Bit n is set if the access includes byte n of the line.
    fn bits(&self) -> u64 {
        let unused = u64::BITS.saturating_sub(self.bytes.into());
        u64::MAX.checked_shr(unused).unwrap_or(0) << (self.offset % 64)
    }

    /// The same as `bits` if the access only loads; otherwise 0.
    fn loaded(&self) -> u64 {
        if self.kind == AccessKind::Load { self.bits() } else { 0 }
    }
}
