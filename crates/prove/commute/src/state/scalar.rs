//! States that are a single value.

use super::{Part, State, Truth};
use crate::execution::{Execution, Stop};
use crate::facts::{Int, Question};

impl State for Int {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        execution.int(label, None, None)
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        execution.same_int(*self, *other)
    }

    fn show(&self, execution: &Execution) -> String {
        execution.facts().show_int(*self)
    }

    fn part(&self, _: &mut Execution) -> Part {
        Part::Int(*self)
    }
}

/// An integer that is not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Natural(pub Int);

impl Natural {
    /// Treats this number as a count of holders. In the initial state, `holder` was one of these holders.
    /// Assumes that the number is at least the number of different holders that are known.
    pub fn assume_counts<H: State>(
        self,
        holder: &H,
        execution: &mut Execution,
    ) -> Result<(), Stop> {
        let label = format!("holders of {}", self.show(execution));
        let known = execution.heap.entries::<H, ()>(&label);
        for (other, ()) in known.iter() {
            if other.same(holder, execution)? {
                return Ok(());
            }
        }
        let others = known.len() as i64;
        drop(known);
        execution.heap.add(&label, holder.clone(), ());
        execution.assume_at_most(others + 1, self.0)
    }
}

impl State for Natural {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self(execution.int(label, Some(0), None))
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        self.0.same(&other.0, execution)
    }

    fn show(&self, execution: &Execution) -> String {
        self.0.show(execution)
    }

    fn part(&self, _: &mut Execution) -> Part {
        Part::Int(self.0)
    }
}

impl State for Truth {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self::Initial(execution.terms.flag(label))
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        self.same_in_words(other, ["true", "false"], execution)
    }

    fn show(&self, execution: &Execution) -> String {
        match self {
            Self::Known(value) => value.to_string(),
            Self::Initial(flag) => execution.facts().show(&Question::Is(*flag), true),
        }
    }

    fn part(&self, _: &mut Execution) -> Part {
        Part::Truth(*self)
    }
}

/// A state that has only one possible value. A map with this value type is a set.
impl State for () {
    fn unknown(_: &mut Execution, _: &str) -> Self {}

    fn same(&self, (): &Self, _: &mut Execution) -> Result<bool, Stop> {
        Ok(true)
    }

    fn show(&self, _: &Execution) -> String {
        String::new()
    }

    fn part(&self, _: &mut Execution) -> Part {
        Part::Fields(Vec::new())
    }
}
