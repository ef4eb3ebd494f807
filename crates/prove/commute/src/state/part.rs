//! Initial states as trees, independent of the type of the state.

use super::Truth;
use crate::facts::{Int, Name};

/// A part of an initial state.
#[derive(Debug, Clone)]
pub enum Part {
    /// A name.
    Name(Name),
    /// An integer.
    Int(Int),
    /// A truth value.
    Truth(Truth),
    /// The fields of a struct, by name.
    Fields(Vec<(&'static str, Self)>),
    /// The known entries of a map. A key that is known to have no value is listed with `None`.
    Entries(Vec<(Self, Option<Self>)>),
    /// A stack, a queue or a bag.
    Sequence {
        /// The number of elements.
        length: Int,
        /// The elements that are known to exist, in the order in which they are taken.
        elements: Vec<Self>,
    },
}

impl Part {
    /// Appends all names of this part.
    pub(crate) fn names(&self, into: &mut Vec<Name>) {
        match self {
            Self::Name(name) => into.push(*name),
            Self::Int(_) | Self::Truth(_) => {}
            Self::Fields(fields) => fields.iter().for_each(|(_, part)| part.names(into)),
            Self::Entries(entries) => {
                for (key, value) in entries {
                    key.names(into);
                    if let Some(value) = value {
                        value.names(into);
                    }
                }
            }
            Self::Sequence { elements, .. } => elements.iter().for_each(|part| part.names(into)),
        }
    }
}
