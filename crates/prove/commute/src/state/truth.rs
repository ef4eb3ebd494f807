//! Truth values.

use crate::execution::{Execution, Stop};
use crate::facts::Flag;

/// A truth value: known, or a flag of the initial state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// Known.
    Known(bool),
    /// As it was at first.
    Initial(Flag),
}

impl Truth {
    /// Whether it is true, if that is known.
    pub fn known(self, execution: &Execution) -> Option<bool> {
        match self {
            Self::Known(value) => Some(value),
            Self::Initial(flag) => execution.facts().answer(&crate::facts::Question::Is(flag)),
        }
    }

    /// Whether the two are the same; if not, these words for true and for false say what is
    /// different.
    pub fn same_in_words(
        &self,
        other: &Self,
        [yes, no]: [&str; 2],
        execution: &mut Execution,
    ) -> Result<bool, Stop> {
        if self == other {
            return Ok(true);
        }
        let [a, b] = [self.ask(execution)?, other.ask(execution)?];
        let [word_a, word_b] = [a, b].map(|truth| if truth { yes } else { no });
        Ok(execution.same_thing(word_a, word_b, a == b))
    }

    /// Whether it is true.
    pub fn ask(self, execution: &mut Execution) -> Result<bool, Stop> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Initial(flag) => execution.is(flag),
        }
    }
}
