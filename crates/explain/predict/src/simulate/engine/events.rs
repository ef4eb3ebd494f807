//! What happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Marks the events of lines.
const LINE: u32 = 1 << 31;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The task goes on.
    Task(usize),
    /// A transfer of the line ends.
    Line(usize),
}

/// Future events, in the order of time. Simultaneous events have a fixed order.
#[derive(Debug, Default)]
pub(super) struct Events(BinaryHeap<Reverse<u128>>);

impl Events {
    /// Adds an event. A time is at least 0, so that its bits have the order of the times.
    pub(super) fn add(&mut self, time: f64, event: Event) {
        let event = match event {
            Event::Task(task) => task as u32,
            Event::Line(line) => line as u32 | LINE,
        };
        self.0.push(Reverse(u128::from(time.to_bits()) << 32 | u128::from(event)));
    }

    /// Removes the next event, and returns its time.
    pub(super) fn next(&mut self) -> Option<(f64, Event)> {
        let Reverse(key) = self.0.pop()?;
        let event = key as u32;
        let index = (event & !LINE) as usize;
        let event = if event & LINE == 0 { Event::Task(index) } else { Event::Line(index) };
        Some((f64::from_bits((key >> 32) as u64), event))
    }
}
