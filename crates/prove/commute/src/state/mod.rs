//! What states are made of.

mod bag;
mod map;
mod part;
mod sequence;
mod term;
mod truth;

pub use bag::Bag;
pub(crate) use map::latest;
pub use map::{Map, Total};
pub use part::Part;
pub use sequence::{Queue, Stack};
pub use term::Term;
pub use truth::Truth;

use crate::facts::Int;
use crate::world::{Stop, World};

/// A part of a state: unknown at first, and comparable.
pub trait State: Clone + 'static {
    /// Of the initial state, where nobody has looked yet. Equal labels give equal values.
    fn unknown(world: &mut World, label: &str) -> Self;

    /// Whether nobody can tell the two apart.
    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop>;

    /// As a person reads it.
    fn show(&self, world: &World) -> String;

    /// What it is made of. Of maps it is what is known of their initial content: only an initial
    /// state is asked.
    fn part(&self, world: &mut World) -> Part;
}

/// A sort of names.
pub trait Sort: Clone + 'static {
    /// What its members are called, in the singular.
    const NAME: &'static str;
}

impl State for Int {
    fn unknown(world: &mut World, label: &str) -> Self {
        world.int(label, None, None)
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        world.same_int(*self, *other)
    }

    fn show(&self, world: &World) -> String {
        world.facts().show_int(*self)
    }

    fn part(&self, _: &mut World) -> Part {
        Part::Int(*self)
    }
}

/// A number that is not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Natural(pub Int);

impl State for Natural {
    fn unknown(world: &mut World, label: &str) -> Self {
        Self(world.int(label, Some(0), None))
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        self.0.same(&other.0, world)
    }

    fn show(&self, world: &World) -> String {
        self.0.show(world)
    }

    fn part(&self, _: &mut World) -> Part {
        Part::Int(self.0)
    }
}

impl State for Truth {
    fn unknown(world: &mut World, label: &str) -> Self {
        Self::Initial(world.flag(label))
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        self.same_in_words(other, ["true", "false"], world)
    }

    fn show(&self, world: &World) -> String {
        match self {
            Self::Known(value) => value.to_string(),
            Self::Initial(flag) => world.facts().show(&crate::facts::Question::Is(*flag), true),
        }
    }

    fn part(&self, _: &mut World) -> Part {
        Part::Truth(*self)
    }
}

/// Nothing to know: for maps that are sets.
impl State for () {
    fn unknown(_: &mut World, _: &str) -> Self {}

    fn same(&self, (): &Self, _: &mut World) -> Result<bool, Stop> {
        Ok(true)
    }

    fn show(&self, _: &World) -> String {
        String::new()
    }

    fn part(&self, _: &mut World) -> Part {
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
            fn unknown(world: &mut $crate::World, label: &str) -> Self {
                Self {
                    $($field: $crate::State::unknown(
                        world,
                        &$crate::join(label, stringify!($field)),
                    )),*
                }
            }

            fn same(
                &self,
                other: &Self,
                world: &mut $crate::World,
            ) -> Result<bool, $crate::Stop> {
                $(if !self.$field.same(&other.$field, world)? {
                    return Ok(false);
                })*
                Ok(true)
            }

            fn show(&self, world: &$crate::World) -> String {
                let fields: Vec<String> = vec![$(
                    format!("{}: {}", stringify!($field), self.$field.show(world))
                ),*];
                format!("{{{}}}", fields.join(", "))
            }

            fn part(&self, world: &mut $crate::World) -> $crate::Part {
                $crate::Part::Fields(vec![$(
                    (stringify!($field), $crate::State::part(&self.$field, world))
                ),*])
            }
        }
    };
}

/// The label of a field.
pub fn join(label: &str, field: &str) -> String {
    if label.is_empty() { field.to_owned() } else { format!("{label}.{field}") }
}
