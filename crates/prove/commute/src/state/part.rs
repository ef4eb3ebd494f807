//! States as trees, whatever their types are.

use super::{State, Truth};
use crate::execution::Execution;
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
    /// Of a struct: each with what it is called.
    Fields(Vec<(&'static str, Self)>),
    /// Of a map, as far as it is known; nothing is at a key without a value.
    Entries(Vec<(Self, Option<Self>)>),
    /// Of a stack or a queue.
    Sequence {
        /// How many there are.
        length: Int,
        /// Those that are known, what is taken first first.
        elements: Vec<Self>,
    },
}

impl Part {
    /// What is known of a map. What was new when somebody put it there was not there at first.
    pub(crate) fn entries<K: State, V: State>(
        known: Vec<(K, Option<V>)>,
        execution: &mut Execution,
    ) -> Self {
        let mut entries = Vec::new();
        for (key, value) in known {
            let key = key.part(execution);
            if let Self::Name(name) = key
                && execution.facts().is_fresh(name)
            {
                continue;
            }
            entries.push((key, value.map(|value| value.part(execution))));
        }
        Self::Entries(entries)
    }

    /// All names in it.
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
