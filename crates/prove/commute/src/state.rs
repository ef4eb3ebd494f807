//! What states are made of.

use std::marker::PhantomData;

use crate::facts::{Flag, Int, Name};
use crate::part::Part;
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

/// A name of a sort: equal to another or not, and nothing else.
#[derive(Debug)]
pub struct Term<S>(pub(crate) Name, PhantomData<S>);

impl<S> Clone for Term<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Term<S> {}

impl<S> Term<S> {
    pub(crate) fn new(name: Name) -> Self {
        Self(name, PhantomData)
    }

    /// The one called `label` wherever it is met: see [`World::constant`].
    pub fn constant(world: &mut World, label: &str) -> Self
    where
        S: Sort,
    {
        Self(world.constant(S::NAME, label), PhantomData)
    }

    /// Takes for granted that it is not `other`: see [`World::assume_different`].
    pub fn assume_different(self, other: Self, world: &mut World) -> Result<(), Stop> {
        world.assume_different(self.0, other.0)
    }
}

impl<S: Sort> State for Term<S> {
    fn unknown(world: &mut World, label: &str) -> Self {
        Self::new(world.name(S::NAME, label))
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        world.same_name(self.0, other.0)
    }

    fn show(&self, world: &World) -> String {
        world.facts().label(self.0).to_owned()
    }

    fn part(&self, _: &mut World) -> Part {
        Part::Name(self.0)
    }
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

/// What was written last at `key`; newest writes last.
pub(crate) fn latest<'w, K: State, T>(
    writes: &'w [(K, T)],
    key: &K,
    world: &mut World,
) -> Result<Option<&'w T>, Stop> {
    for (written, value) in writes.iter().rev() {
        if written.same(key, world)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// A map whose initial content nobody knows: entries come to light when they are looked at.
#[derive(Debug, Clone)]
pub struct Map<K, V> {
    label: String,
    /// Newest last; `None`: removed.
    writes: Vec<(K, Option<V>)>,
}

impl<K: State, V: State> Map<K, V> {
    /// The value at `key`.
    pub fn get(&self, key: &K, world: &mut World) -> Result<Option<V>, Stop> {
        Ok(self.find(key, world)?.map(|(value, _)| value))
    }

    /// The value at `key`, and whether it is that of the initial state.
    pub fn find(&self, key: &K, world: &mut World) -> Result<Option<(V, bool)>, Stop> {
        world.search(|world| {
            if let Some(value) = latest(&self.writes, key, world)? {
                return Ok(value.clone().map(|value| (value, false)));
            }
            Ok(world.initial(&self.label, key)?.map(|value| (value, true)))
        })
    }

    /// What was written, newest last; `None` was removed.
    pub fn writes(&self) -> &[(K, Option<V>)] {
        &self.writes
    }

    /// What is known of the initial state.
    pub fn known(&self, world: &World) -> Vec<(K, Option<V>)> {
        world.known(&self.label)
    }

    /// Says that there is nothing, or something, at `key` at first, without asking: it follows
    /// from what the caller knows. `Err` if the opposite is known.
    pub fn know(&self, key: &K, present: bool, world: &mut World) -> Result<(), Stop> {
        world.know::<K, V>(&self.label, key, present)
    }

    /// Whether there is a value at `key`.
    pub fn contains(&self, key: &K, world: &mut World) -> Result<bool, Stop> {
        Ok(self.get(key, world)?.is_some())
    }

    /// Sets the value at `key`.
    pub fn insert(&mut self, key: K, value: V) {
        self.writes.push((key, Some(value)));
    }

    /// Removes what is at `key`.
    pub fn remove(&mut self, key: K) {
        self.writes.push((key, None));
    }
}

impl<K: State, V: State> State for Map<K, V> {
    fn unknown(_: &mut World, label: &str) -> Self {
        Self { label: label.to_owned(), writes: Vec::new() }
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        assert_eq!(self.label, other.label, "two states of one map");
        for (key, _) in self.writes.iter().chain(&other.writes) {
            let values = (self.get(key, world)?, other.get(key, world)?);
            let same = match values {
                (Some(a), Some(b)) => a.same(&b, world)?,
                (a, b) => world.same_presence(a.is_some(), b.is_some()),
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show(&self, _: &World) -> String {
        self.label.clone()
    }

    fn part(&self, world: &mut World) -> Part {
        let known = self.known(world);
        Part::entries(known, world)
    }
}

/// A map in which every key has a value, unknown at first.
#[derive(Debug, Clone)]
pub struct Total<K, V> {
    label: String,
    /// Newest last.
    writes: Vec<(K, V)>,
}

impl<K: State, V: State> Total<K, V> {
    /// The value at `key`.
    pub fn get(&self, key: &K, world: &mut World) -> Result<V, Stop> {
        world.search(|world| match latest(&self.writes, key, world)? {
            Some(value) => Ok(value.clone()),
            None => world.first(&self.label, key),
        })
    }

    /// Sets the value at `key`.
    pub fn insert(&mut self, key: K, value: V) {
        self.writes.push((key, value));
    }

    /// What is known of the initial state.
    pub fn known(&self, world: &World) -> Vec<(K, Option<V>)> {
        world.known(&self.label)
    }

    /// The keys that have been written.
    pub fn written(&self) -> impl Iterator<Item = &K> {
        self.writes.iter().map(|(key, _)| key)
    }
}

impl<K: State, V: State> State for Total<K, V> {
    fn unknown(_: &mut World, label: &str) -> Self {
        Self { label: label.to_owned(), writes: Vec::new() }
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        for key in self.written().chain(other.written()) {
            if !self.get(key, world)?.same(&other.get(key, world)?, world)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show(&self, _: &World) -> String {
        self.label.clone()
    }

    fn part(&self, world: &mut World) -> Part {
        let known = self.known(world);
        Part::entries(known, world)
    }
}

/// A sequence of unknown length and content that is taken from at one end.
#[derive(Debug, Clone)]
struct Pile<V> {
    label: String,
    /// Initial length.
    length: Int,
    /// How many of the initial elements are gone.
    taken: i64,
    /// What has been added since.
    added: Vec<V>,
}

impl<V: State> Pile<V> {
    fn unknown(world: &mut World, label: &str) -> Self {
        let length = world.int(&format!("{label}.length"), Some(0), None);
        Self { label: label.to_owned(), length, taken: 0, added: Vec::new() }
    }

    fn has_initial(&self, world: &mut World) -> Result<bool, Stop> {
        Ok(!world.at_most(self.length, self.taken)?)
    }

    /// The next of the initial elements.
    fn take_initial(&mut self, world: &mut World) -> V {
        let label = format!("{}({})", self.label, self.taken);
        self.taken += 1;
        V::unknown(world, &label)
    }

    fn length(&self) -> Int {
        self.length - self.taken + self.added.len() as i64
    }

    /// The initial elements, as many as there have to be; the first is the first to be taken.
    fn initial(&self, world: &mut World) -> Vec<V> {
        let mut pile = self.clone();
        let least = world.facts().least(self.length).expect("a length is not negative");
        (0..least).map(|_| pile.take_initial(world)).collect()
    }

    fn part(&self, world: &mut World) -> Part {
        let elements = self.initial(world);
        let elements = elements.into_iter().map(|element| element.part(world)).collect();
        Part::Sequence { length: self.length, elements }
    }

    /// Whether all of `a` and `b` agree, element by element.
    fn same_elements(a: &[V], b: &[V], world: &mut World) -> Result<bool, Stop> {
        let lengths = [a.len().to_string(), b.len().to_string()].map(|n| format!("{n} of them"));
        if !world.same_thing(&lengths[0], &lengths[1], a.len() == b.len()) {
            return Ok(false);
        }
        for (a, b) in a.iter().zip(b) {
            if !a.same(b, world)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A stack: what was pushed last is popped first.
#[derive(Debug, Clone)]
pub struct Stack<V>(Pile<V>);

impl<V: State> Stack<V> {
    /// Puts `value` on top.
    pub fn push(&mut self, value: V) {
        self.0.added.push(value);
    }

    /// Takes the top away.
    pub fn pop(&mut self, world: &mut World) -> Result<Option<V>, Stop> {
        if let Some(value) = self.0.added.pop() {
            return Ok(Some(value));
        }
        Ok(if self.0.has_initial(world)? { Some(self.0.take_initial(world)) } else { None })
    }
}

impl<V: State> State for Stack<V> {
    fn unknown(world: &mut World, label: &str) -> Self {
        Self(Pile::unknown(world, label))
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        // What both have left of the initial elements lies at the bottom, and is the same.
        let taken = self.0.taken.max(other.0.taken);
        let mut above = |side: &Self| {
            let mut pile = side.0.clone();
            let mut elements = Vec::new();
            while pile.taken < taken {
                elements.push(pile.take_initial(world));
            }
            elements.reverse();
            elements.extend(pile.added);
            elements
        };
        let (a, b) = (above(self), above(other));
        Pile::same_elements(&a, &b, world)
    }

    fn show(&self, _: &World) -> String {
        self.0.label.clone()
    }

    fn part(&self, world: &mut World) -> Part {
        self.0.part(world)
    }
}

/// A queue: what was pushed first is popped first.
#[derive(Debug, Clone)]
pub struct Queue<V>(Pile<V>);

impl<V: State> Queue<V> {
    /// One without anything in it.
    pub fn empty() -> Self {
        let length = Int::from(0);
        Self(Pile { label: "empty".to_owned(), length, taken: 0, added: Vec::new() })
    }

    /// Puts `value` at the end.
    pub fn push(&mut self, value: V) {
        self.0.added.push(value);
    }

    /// Takes the front away.
    pub fn pop(&mut self, world: &mut World) -> Result<Option<V>, Stop> {
        if self.0.has_initial(world)? {
            return Ok(Some(self.0.take_initial(world)));
        }
        Ok(if self.0.added.is_empty() { None } else { Some(self.0.added.remove(0)) })
    }

    /// How many there are.
    pub fn length(&self) -> Int {
        self.0.length()
    }

    /// Those that are there at first, as many as there have to be.
    pub fn initial(&self, world: &mut World) -> Vec<V> {
        self.0.initial(world)
    }
}

impl<V: State> State for Queue<V> {
    fn unknown(world: &mut World, label: &str) -> Self {
        Self(Pile::unknown(world, label))
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        let (mut a, mut b) = (self.0.clone(), other.0.clone());
        if a.taken != b.taken {
            // Element by element: then nothing initial is left in either.
            let mut fronts = [Vec::new(), Vec::new()];
            for (pile, front) in [&mut a, &mut b].into_iter().zip(&mut fronts) {
                while pile.has_initial(world)? {
                    front.push(pile.take_initial(world));
                }
                front.append(&mut pile.added);
            }
            return Pile::same_elements(&fronts[0], &fronts[1], world);
        }
        Pile::same_elements(&a.added, &b.added, world)
    }

    fn show(&self, _: &World) -> String {
        self.0.label.clone()
    }

    fn part(&self, world: &mut World) -> Part {
        self.0.part(world)
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
