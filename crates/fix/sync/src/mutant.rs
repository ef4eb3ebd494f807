//! Macros for *mutants*: deliberate mistakes in knee-sync and knee-vm, each of which must make a test fail.
//!
//! With `--cfg mutants` a crate becomes the mutant that the environment variable `KNEE_MUTANT` names, so one
//! build serves all mutants. On a machine without environment variables, a call of `choose_mutant` sets the
//! name. Without `--cfg mutants` the macros compile to the correct code. In each crate,
//! `tests/mutants/list.rs` names the tests that detect its mutants.

/// Whether the chosen mutant has one of these names.
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

/// The memory ordering `$order`, or `Relaxed` in the mutant `$mutant`.
#[doc(hidden)]
#[macro_export]
macro_rules! order {
    ($order:ident, $mutant:literal) => {
        if $crate::is_mutant!($mutant) { core::sync::atomic::Ordering::Relaxed } else { $order }
    };
}

#[cfg(mutants)]
pub use chosen::Answer;
#[cfg(all(mutants, not(feature = "std")))]
pub use chosen::choose_mutant;

/// The chosen mutant. A check must not synchronize threads: otherwise Miri would not notice that the mutant
/// lacks an ordering. So each use of `is_mutant!` keeps its answer in a relaxed atomic, and looks up the
/// mutant's name only at its first check.
#[cfg(mutants)]
mod chosen {
    use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// The answer of one use of `is_mutant!`: whether the chosen mutant has one of its names.
    #[derive(Debug)]
    pub struct Answer(AtomicU8);

    const UNKNOWN: u8 = 2;

    impl Answer {
        /// An answer that the first call of [`is_one_of`](Answer::is_one_of) will look up.
        #[allow(clippy::new_without_default, reason = "only the macro makes one")]
        pub const fn new() -> Answer {
            Answer(AtomicU8::new(UNKNOWN))
        }

        /// Whether the chosen mutant has one of these names.
        pub fn is_one_of(&self, names: &[&str]) -> bool {
            if self.0.load(Relaxed) == UNKNOWN {
                let is_chosen = chosen().is_some_and(|chosen| names.contains(&chosen));
                self.0.store(u8::from(is_chosen), Relaxed);
            }
            self.0.load(Relaxed) == 1
        }
    }

    #[cfg(feature = "std")]
    fn chosen() -> Option<&'static str> {
        static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
        NAME.get_or_init(|| std::env::var("KNEE_MUTANT").ok()).as_deref()
    }

    #[cfg(not(feature = "std"))]
    pub use bare::choose_mutant;
    #[cfg(not(feature = "std"))]
    use bare::chosen;

    /// The choice of a mutant on machines without environment variables.
    #[cfg(not(feature = "std"))]
    mod bare {
        use core::ptr;
        use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

        static NAME: AtomicPtr<&str> = AtomicPtr::new(ptr::null_mut());

        /// Chooses the mutant. Must be called before anything else in this crate, and before other CPUs
        /// start.
        pub fn choose_mutant(name: &'static &'static str) {
            NAME.store(ptr::from_ref(name).cast_mut(), Relaxed);
        }

        pub(super) fn chosen() -> Option<&'static str> {
            // SAFETY: only `choose_mutant` stores a pointer here, and the pointer is to a static.
            unsafe { NAME.load(Relaxed).as_ref() }.copied()
        }
    }
}

pub(crate) use {is_mutant, order};
