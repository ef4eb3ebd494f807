//! Places where the crate can be made wrong, to see that some test notices.
//!
//! With `--cfg mutants` the crate is the mutant that the environment's `KNEE_MUTANT` names, so that one
//! build is all of them. Without, nothing of this is left. `tests/mutants` knows who notices which.

/// Whether the crate is this mutant.
macro_rules! is_mutant {
    ($name:literal) => {{
        #[cfg(mutants)]
        {
            static IS: $crate::mutant::Answer = $crate::mutant::Answer::new();
            IS.is($name)
        }
        #[cfg(not(mutants))]
        {
            false
        }
    }};
}

/// The order of an access or, in a mutant, the weakest one.
macro_rules! order {
    ($order:ident, $mutant:literal) => {
        if $crate::mutant::is_mutant!($mutant) {
            core::sync::atomic::Ordering::Relaxed
        } else {
            $order
        }
    };
}

#[cfg(mutants)]
pub(crate) use chosen::Answer;

/// Which mutant it is. To ask must not bring threads into an order that the mutant does not have, as Miri
/// would see it: so answers are relaxed, and the name is asked for once, by the first who comes.
#[cfg(mutants)]
mod chosen {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// Whether the crate is one mutant.
    pub(crate) struct Answer(AtomicU8);

    const UNKNOWN: u8 = 2;

    impl Answer {
        pub(crate) const fn new() -> Answer {
            Answer(AtomicU8::new(UNKNOWN))
        }

        pub(crate) fn is(&self, name: &str) -> bool {
            if self.0.load(Relaxed) == UNKNOWN {
                self.0.store(u8::from(chosen() == Some(name)), Relaxed);
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
