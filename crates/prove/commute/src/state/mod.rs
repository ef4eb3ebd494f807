//! What states are made of.

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
