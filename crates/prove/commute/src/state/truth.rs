//! Truth values.

use crate::execution::{Execution, Stop};
use crate::facts::{Flag, Question};

/// A truth value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// A value that an operation has set.
    Known(bool),
    /// The value of the initial state, which no operation has changed.
    Initial(Flag),
}

impl Truth {
    /// The value, if it is known.
    pub fn known(self, execution: &Execution) -> Option<bool> {
        match self {
            Self::Known(value) => Some(value),
            Self::Initial(flag) => execution.facts().answer(&Question::Is(flag)),
        }
    }

    /// Whether two truth values are equal. The difference, if there is one, is described with the
    /// words `yes` for true and `no` for false.
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

    /// Whether the value is true. Asks a question if the value is unknown.
    pub fn ask(self, execution: &mut Execution) -> Result<bool, Stop> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Initial(flag) => execution.ask(Question::Is(flag)),
        }
    }
}
