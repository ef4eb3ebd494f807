//! What states are made of.

mod bag;
mod map;
mod part;
mod sequence;
mod term;
mod truth;

pub use bag::Bag;
pub(crate) use map::latest;
pub use map::{Map, TotalMap};
pub use part::Part;
pub use sequence::{Queue, Stack};
pub use term::Term;
pub use truth::Truth;

use crate::execution::{Execution, Stop};
use crate::facts::Int;

/// A part of a state: unknown at first, and comparable.
pub trait State: Clone + 'static {
    /// Of the initial state, where nobody has looked yet. Equal labels give equal values.
    fn unknown(execution: &mut Execution, label: &str) -> Self;

    /// Whether nobody can tell the two apart.
    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop>;

    /// As a person reads it.
    fn show(&self, execution: &Execution) -> String;

    /// What it is made of. Of maps it is what is known of their initial content: only an initial
    /// state is asked.
    fn part(&self, execution: &mut Execution) -> Part;
}

/// A sort of names.
pub trait Sort: Clone + 'static {
    /// What its members are called, in the singular.
    const NAME: &'static str;
}

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

/// A number that is not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Natural(pub Int);

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
        Self::Initial(execution.flag(label))
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        self.same_in_words(other, ["true", "false"], execution)
    }

    fn show(&self, execution: &Execution) -> String {
        match self {
            Self::Known(value) => value.to_string(),
            Self::Initial(flag) => execution.facts().show(&crate::facts::Question::Is(*flag), true),
        }
    }

    fn part(&self, _: &mut Execution) -> Part {
        Part::Truth(*self)
    }
}

/// Nothing to know: for maps that are sets.
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

/// Declares a sort of names: `sort!(Key)`.
#[macro_export]
macro_rules! sort {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("The sort of names called ", stringify!($name), ".")]
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl $crate::Sort for $name {
            const NAME: &'static str = stringify!($name);
        }
    )*};
}

/// Declares a struct whose fields are all [`State`], and makes it one.
#[macro_export]
macro_rules! state {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type),*
        }

        impl $crate::State for $name {
            fn unknown(execution: &mut $crate::Execution, label: &str) -> Self {
                Self {
                    $($field: $crate::State::unknown(
                        execution,
                        &$crate::join(label, stringify!($field)),
                    )),*
                }
            }

            fn same(
                &self,
                other: &Self,
                execution: &mut $crate::Execution,
            ) -> Result<bool, $crate::Stop> {
                $(if !self.$field.same(&other.$field, execution)? {
                    return Ok(false);
                })*
                Ok(true)
            }

            fn show(&self, execution: &$crate::Execution) -> String {
                let fields: Vec<String> = vec![$(
                    format!("{}: {}", stringify!($field), self.$field.show(execution))
                ),*];
                format!("{{{}}}", fields.join(", "))
            }

            fn part(&self, execution: &mut $crate::Execution) -> $crate::Part {
                $crate::Part::Fields(vec![$(
                    (stringify!($field), $crate::State::part(&self.$field, execution))
                ),*])
            }
        }
    };
}

/// The label of a field.
pub fn join(label: &str, field: &str) -> String {
    if label.is_empty() { field.to_owned() } else { format!("{label}.{field}") }
}
