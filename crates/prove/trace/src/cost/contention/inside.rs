//! What lock sections contain, and which lines are accessed only inside of them.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{ContentionEvent, EventKind, Iteration};
use super::lock::{Hold, LockSections};
use crate::cost::Spread;

/// The sections of a lock.
#[derive(Debug, Default, Clone)]
pub(super) struct ByHold {
    pub(super) exclusive: Inside,
    pub(super) shared: Inside,
}

/// The exclusive sections of a lock, or its shared sections.
#[derive(Debug, Default, Clone)]
pub(super) struct Inside {
    /// The number of instructions of each section.
    instructions: Vec<u64>,
    /// The number of distinct lines that each section accesses, not counting the line of the lock.
    lines: Vec<u64>,
    /// The number of visits to each line in all sections. Taking a lock counts as a visit to its line.
    visits: BTreeMap<usize, usize>,
}

/// A lock that is held.
struct Held {
    lock: usize,
    hold: Hold,
    since: u64,
    lines: BTreeSet<usize>,
}

/// The sections of each lock. `lines` contains the line of each lock.
pub(super) fn of_locks(iterations: &[Iteration], lines: &[usize]) -> Vec<ByHold> {
    let mut all = vec![ByHold::default(); lines.len()];
    for iteration in iterations {
        walk(&iteration.events, |event, held| {
            let line = match event.kind {
                EventKind::Visit(visit) => visit.line,
                EventKind::Acquire { lock, .. } => lines[lock],
                EventKind::Release { lock } => {
                    let Some(held) = held.iter().rfind(|held| held.lock == lock) else { return };
                    let inside = all[lock].of(held.hold);
                    inside.instructions.push(event.at.saturating_sub(held.since));
                    inside.lines.push(held.lines.len() as u64);
                    return;
                }
                EventKind::Shootdown => return,
            };
            for held in held.iter_mut() {
                if line != lines[held.lock] {
                    held.lines.insert(line);
                }
                *all[held.lock].of(held.hold).visits.entry(line).or_default() += 1;
            }
        });
    }
    all
}

impl ByHold {
    fn of(&mut self, hold: Hold) -> &mut Inside {
        match hold {
            Hold::Exclusive => &mut self.exclusive,
            Hold::Shared => &mut self.shared,
        }
    }
}

impl Inside {
    /// The figures of the sections, which occurred in this many operations.
    pub(super) fn figures(&self, operations: usize) -> LockSections {
        let sections = self.instructions.len() as f64;
        let mean = |(&line, &visits): (&usize, &usize)| (line, visits as f64 / sections);
        LockSections {
            per_operation: sections / operations as f64,
            instructions: Spread::of(self.instructions.iter().copied()),
            lines: Spread::of(self.lines.iter().copied()),
            inside: self.visits.iter().map(mean).collect(),
        }
    }
}

/// For each of the `number` lines, the lock that operations always hold exclusively when they access the
/// line. If there are several such locks, this is the innermost one; if there is none, `None`. A lock in the
/// line itself does not count. `lines` contains the line of each lock.
pub(super) fn guards<'i>(
    iterations: impl Iterator<Item = &'i Iteration>,
    lines: &[usize],
    number: usize,
) -> Vec<Option<usize>> {
    let mut guards: Vec<Option<Vec<usize>>> = vec![None; number];
    for iteration in iterations {
        walk(&iteration.events, |event, held| {
            let line = match event.kind {
                EventKind::Visit(visit) => visit.line,
                EventKind::Acquire { lock, .. } => lines[lock],
                EventKind::Release { .. } | EventKind::Shootdown => return,
            };
            let guarding = |lock: usize| {
                let mut held = held.iter().filter(|held| held.hold == Hold::Exclusive);
                lines[lock] != line && held.any(|held| held.lock == lock)
            };
            match &mut guards[line] {
                Some(guards) => guards.retain(|&lock| guarding(lock)),
                none => {
                    let locks = held.iter().map(|held| held.lock);
                    *none = Some(locks.filter(|&lock| guarding(lock)).collect());
                }
            }
        });
    }
    guards.into_iter().map(|guards| guards?.last().copied()).collect()
}

/// Calls `each` for each event, and passes the locks that are held at this event, in the order in which they
/// were taken. A lock is not yet held at the event that takes it, but is still held at the event that
/// releases it.
fn walk(events: &[ContentionEvent], mut each: impl FnMut(&ContentionEvent, &mut Vec<Held>)) {
    let mut held: Vec<Held> = Vec::new();
    for event in events {
        each(event, &mut held);
        match event.kind {
            EventKind::Visit(_) | EventKind::Shootdown => {}
            EventKind::Acquire { lock, hold } => {
                held.push(Held { lock, hold, since: event.at, lines: BTreeSet::new() });
            }
            EventKind::Release { lock } => {
                if let Some(at) = held.iter().rposition(|held| held.lock == lock) {
                    held.remove(at);
                }
            }
        }
    }
}
