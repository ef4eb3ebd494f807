//! A bag: an unordered collection from which any element can be taken.
//!
//! The interface leaves open which element a call takes, so the explorer may choose an element that
//! makes the orders agree. The explorer need not try all choices:
//!
//! - The orders agree if an initial element is reserved for each call, because no other call can take that
//!   element away. In the order in which the explorer runs calls, initial element 0 is reserved for the first
//!   call that takes an element, element 1 for the next such call, and so on.
//! - If the bag has initial elements, but not one for each call that takes an element, no choice makes the
//!   orders agree. In some order, a call finds the bag empty or takes an element that another call has added.
//!   In an order in which the same call comes first, the call gets an initial element.
//! - If the bag has no initial elements, the first call of an order finds the bag empty. Each call that takes
//!   an element comes first in some order, so the orders agree only if every such call finds the bag empty in
//!   every order. Then there is nothing to choose.

use super::{Part, State};
use crate::call::Call;
use crate::execution::{Execution, Stop};
use crate::facts::Int;

/// A bag whose initial length and content are unknown.
#[derive(Debug, Clone)]
pub struct Bag<V> {
    label: String,
    /// The number of initial elements.
    length: Int,
    /// The indexes of the initial elements that were taken.
    taken: Vec<usize>,
    /// The elements that were added and have not been taken.
    added: Vec<V>,
}

impl<V: State> Bag<V> {
    /// Adds an element.
    pub fn add(&mut self, value: V) {
        self.added.push(value);
    }

    /// Takes an element: if possible, an element that makes the orders agree. Returns `None` if the
    /// bag is empty.
    pub fn take_any(&mut self, call: &mut Call<'_>) -> Result<Option<V>, Stop> {
        let own = self.place(call);
        if self.has_initial(own, call.execution)? {
            return Ok(Some(self.take_initial(own, call.execution)));
        }
        // There are not enough initial elements for all calls that take an element. If there is at least one
        // initial element, the orders differ, whichever element this call takes.
        for nr in 0..own {
            if self.has_initial(nr, call.execution)? {
                return Ok(Some(self.take_initial(nr, call.execution)));
            }
        }
        Ok(self.added.pop())
    }

    /// The number of elements.
    pub fn length(&self) -> Int {
        self.length - self.taken.len() as i64 + self.added.len() as i64
    }

    /// The index of the initial element that is reserved for this call. Every order reserves the same element
    /// for the call.
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

    /// The elements of this bag, except the initial elements that both bags still have.
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

    /// Pairs each element with an equal element of the other bag. If several elements of the other bag equal
    /// an element, the element is paired with the first of these. The choice does not matter, because
    /// equality is transitive.
    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        let (mine, mut theirs) = (self.beyond(other, execution), other.beyond(self, execution));
        let lengths = [mine.len(), theirs.len()].map(|n| format!("{n} elements"));
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

    /// The length, and the initial elements that are known to exist.
    fn part(&self, execution: &mut Execution) -> Part {
        let least = execution.facts().least(self.length).expect("a length is not negative");
        let element = |nr| self.initial(nr as usize, execution).part(execution);
        Part::Sequence { length: self.length, elements: (0..least).map(element).collect() }
    }
}
