//! A bag: elements without an order, of which any may be taken.
//!
//! Which element is taken is left open by the interface, so it may be chosen such that orders
//! agree, where any choice lets them. There is no need to try all: calls agree if each takes an
//! element of its own that is in the bag at first, which nothing that the others do can take away.
//! So the first call that takes has the first of the initial elements, in all orders, the second
//! call the second, and so on. If the bag has fewer than the calls want, no choice is any better:
//! some order leaves one of them with nothing, or with what another call has added, and the order
//! in which that one comes first does not.

use super::{Part, State};
use crate::call::Call;
use crate::execution::{Execution, Stop};
use crate::facts::Int;

/// Elements of unknown number and content, in no order.
#[derive(Debug, Clone)]
pub struct Bag<V> {
    label: String,
    /// Initial length.
    length: Int,
    /// Which of the initial elements are gone, by number.
    taken: Vec<usize>,
    /// What has been added since and is still there.
    added: Vec<V>,
}

impl<V: State> Bag<V> {
    /// Adds an element.
    pub fn add(&mut self, value: V) {
        self.added.push(value);
    }

    /// Takes any element, whichever lets orders agree.
    pub fn take_any(&mut self, call: &mut Call<'_>) -> Result<Option<V>, Stop> {
        let own = self.place(call);
        if self.has_initial(own, call.execution)? {
            return Ok(Some(self.take_initial(own, call.execution)));
        }
        // Fewer than are wanted: any will do.
        for nr in 0..own {
            if self.has_initial(nr, call.execution)? {
                return Ok(Some(self.take_initial(nr, call.execution)));
            }
        }
        Ok(self.added.pop())
    }

    /// How many there are.
    pub fn length(&self) -> Int {
        self.length - self.taken.len() as i64 + self.added.len() as i64
    }

    /// The number of the initial element that is the caller's own: the same in all orders.
    fn place(&self, call: &mut Call<'_>) -> usize {
        let label = format!("takers of {}", self.label);
        let me = Int::from(call.nr() as i64);
        let takers = call.execution.heap.list(&label);
        let place = takers.iter().position(|taker| *taker == me);
        let next = takers.len();
        place.unwrap_or_else(|| {
            call.execution.heap.append(&label, me);
            next
        })
    }

    fn has_initial(&self, nr: usize, execution: &mut Execution) -> Result<bool, Stop> {
        Ok(!self.taken.contains(&nr) && execution.at_most(nr as i64 + 1, self.length)?)
    }

    fn take_initial(&mut self, nr: usize, execution: &mut Execution) -> V {
        self.taken.push(nr);
        self.initial(nr, execution)
    }

    fn initial(&self, nr: usize, execution: &mut Execution) -> V {
        V::unknown(execution, &format!("{}({nr})", self.label))
    }

    /// What is in this bag and may not be in `other`: what both have of the initial elements is
    /// left out.
    fn beyond(&self, other: &Self, execution: &mut Execution) -> Vec<V> {
        let only = other.taken.iter().filter(|nr| !self.taken.contains(nr));
        let mut elements: Vec<V> = only.map(|&nr| self.initial(nr, execution)).collect();
        elements.extend(self.added.iter().cloned());
        elements
    }
}

impl<V: State> State for Bag<V> {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        let length = execution.int(&format!("{label}.length"), Some(0), None);
        Self { label: label.to_owned(), length, taken: Vec::new(), added: Vec::new() }
    }

    /// Each element of one has an equal one in the other. Equality is transitive, so the first
    /// that is equal is as good as any.
    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        let (mine, mut theirs) = (self.beyond(other, execution), other.beyond(self, execution));
        let lengths = [mine.len(), theirs.len()].map(|n| format!("{n} of them"));
        if !execution.same_thing(&lengths[0], &lengths[1], mine.len() == theirs.len()) {
            return Ok(false);
        }
        for element in &mine {
            let found = execution.search(|execution| {
                for (nr, candidate) in theirs.iter().enumerate() {
                    if candidate.same(element, execution)? {
                        return Ok(Some(nr));
                    }
                }
                Ok(None)
            })?;
            if !execution.same_presence(true, found.is_some()) {
                return Ok(false);
            }
            theirs.swap_remove(found.expect("it is there"));
        }
        Ok(true)
    }

    fn show(&self, _: &Execution) -> String {
        self.label.clone()
    }

    /// The initial elements, as many as there have to be.
    fn part(&self, execution: &mut Execution) -> Part {
        let least = execution.facts().least(self.length).expect("a length is not negative");
        let element = |nr| self.initial(nr as usize, execution).part(execution);
        Part::Sequence { length: self.length, elements: (0..least).map(element).collect() }
    }
}
