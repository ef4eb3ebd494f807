//! Truth values.

use crate::facts::Flag;
use crate::world::{Stop, World};

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
    pub fn known(self, world: &World) -> Option<bool> {
        match self {
            Self::Known(value) => Some(value),
            Self::Initial(flag) => world.facts().answer(&crate::facts::Question::Is(flag)),
        }
    }

    /// Whether the two are the same; if not, these words for true and for false say what is
    /// different.
    pub fn same_in_words(
        &self,
        other: &Self,
        [yes, no]: [&str; 2],
        world: &mut World,
    ) -> Result<bool, Stop> {
        if self == other {
            return Ok(true);
        }
        let [a, b] = [self.ask(world)?, other.ask(world)?];
        let [word_a, word_b] = [a, b].map(|truth| if truth { yes } else { no });
        Ok(world.same_thing(word_a, word_b, a == b))
    }

    /// Whether it is true.
    pub fn ask(self, world: &mut World) -> Result<bool, Stop> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Initial(flag) => world.is(flag),
        }
    }
}
