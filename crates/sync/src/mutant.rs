//! Places where the crate can be made wrong, to see that some test notices.
//!
//! With `--cfg mutants` the crate is the mutant that the environment's `KNEE_MUTANT` names, so that one
//! build is all of them. Without, nothing of this is left. `tests/mutants` knows who notices which.

/// Whether the crate is this mutant.
macro_rules! is_mutant {
    ($name:literal) => {{
        #[cfg(mutants)]
        {
            static IS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
            *IS.get_or_init(|| $crate::mutant::name().is_some_and(|name| name == $name))
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

/// Which mutant it is. It is asked for once: to ask takes a lock, by which Miri would see threads in an
/// order that the mutant does not have.
#[cfg(mutants)]
pub(crate) fn name() -> Option<&'static str> {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("KNEE_MUTANT").ok()).as_deref()
}

pub(crate) use {is_mutant, order};
