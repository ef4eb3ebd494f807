//! Places where the crate can be made wrong, to see that some test notices.
//!
//! With `--cfg mutants` the crate is the mutant that the environment's `KNEE_MUTANT` names, so that one
//! build is all of them. Without, nothing of this is left. `tests/mutants` knows who notices which.

/// Whether the crate is this mutant, or one of these.
macro_rules! is_mutant {
    ($($name:literal),+) => {{
        #[cfg(mutants)]
        {
            static IS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
            *IS.get_or_init(|| {
                let mutant = std::env::var_os("KNEE_MUTANT");
                [$($name),+].into_iter().any(|name| mutant.as_deref() == Some(name.as_ref()))
            })
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

pub(crate) use {is_mutant, order};
