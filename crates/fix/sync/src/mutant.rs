//! Marked places where knee-sync and knee-vm can be broken on purpose, so that a test must fail.
//!
//! With `--cfg mutants` a crate becomes the mutant that the environment variable `KNEE_MUTANT` names, so one
//! build serves all mutants. Without it the marks compile to nothing. `tests/mutants/list.rs` of each crate names
//! the test that detects each mutant.

/// Whether the crate is this mutant, or one of these.
#[doc(hidden)]
#[macro_export]
macro_rules! is_mutant {
    ($($name:literal),+) => {{
        #[cfg(mutants)]
        {
            static ANSWER: $crate::shim::Answer = $crate::shim::Answer::new();
            ANSWER.is_one_of(&[$($name),+])
        }
        #[cfg(not(mutants))]
        {
            false
        }
    }};
}

/// The ordering of an access or, in a mutant, `Relaxed`.
#[doc(hidden)]
#[macro_export]
macro_rules! order {
    ($order:ident, $mutant:literal) => {
        if $crate::is_mutant!($mutant) { core::sync::atomic::Ordering::Relaxed } else { $order }
    };
}

#[cfg(mutants)]
pub use chosen::Answer;

/// The chosen mutant. A check must not order threads, as Miri would then miss the order that the mutant lacks.
/// So the results are relaxed, and only the first check of a place reads the environment.
#[cfg(mutants)]
mod chosen {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// Whether the crate is the mutant of one place.
    #[derive(Debug)]
    pub struct Answer(AtomicU8);

    const UNKNOWN: u8 = 2;

    impl Answer {
        /// Not known yet.
        #[allow(clippy::new_without_default, reason = "only the macro makes one")]
        pub const fn new() -> Answer {
            Answer(AtomicU8::new(UNKNOWN))
        }

        /// Whether the chosen mutant is one of these.
        pub fn is_one_of(&self, names: &[&str]) -> bool {
            if self.0.load(Relaxed) == UNKNOWN {
                let is_chosen = chosen().is_some_and(|chosen| names.contains(&chosen));
                self.0.store(u8::from(is_chosen), Relaxed);
            }
            self.0.load(Relaxed) == 1
        }
    }

    fn chosen() -> Option<&'static str> {
        static NAME: OnceLock<Option<String>> = OnceLock::new();
        NAME.get_or_init(|| std::env::var("KNEE_MUTANT").ok()).as_deref()
    }
}

pub(crate) use {is_mutant, order};
