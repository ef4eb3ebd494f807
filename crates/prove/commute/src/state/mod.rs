//! The states of models: the traits that a state implements, and the types from which it is built.

mod bag;
mod map;
mod part;
mod scalar;
mod sequence;
mod term;
mod truth;

pub use bag::Bag;
pub use map::{Map, TotalMap};
pub use part::Part;
pub use scalar::Natural;
pub use sequence::{Queue, Stack};
pub use term::Term;
pub use truth::Truth;

use crate::execution::{Execution, Stop};

/// A state, or a part of a state, whose initial value is unknown.
pub trait State: Clone + 'static {
    /// The value in the initial state. Equal labels must give equal values.
    fn unknown(execution: &mut Execution, label: &str) -> Self;

    /// Whether no operation, now or later, can distinguish the two values.
    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop>;

    /// The value as text, for labels and formulas.
    fn show(&self, execution: &Execution) -> String;

    /// The value as a tree of parts. For a map, the tree contains only the known entries. The explorer calls
    /// this method only on initial states.
    fn part(&self, execution: &mut Execution) -> Part;
}

/// A sort of names. The only operation on names is to compare two names of the same sort.
pub trait Sort: Clone + 'static {
    /// The name of the sort, in the singular.
    const NAME: &'static str;
}

/// Declares sorts of names: `sort!(Key, Content)`.
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

/// Declares a struct whose fields all implement [`State`](crate::State), and implements `State` for
/// it, field by field.
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

/// The label of a field: `label.field`, or `field` at the root.
pub fn join(label: &str, field: &str) -> String {
    if label.is_empty() { field.to_owned() } else { format!("{label}.{field}") }
}
