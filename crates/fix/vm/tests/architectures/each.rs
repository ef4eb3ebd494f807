//! Macros that run a test on each architecture.
#![allow(unused_imports, unused_macros, reason = "each test binary uses one macro or both")]

/// Defines tests that run each of these functions on each architecture. The functions take the architecture
/// as their type parameter.
macro_rules! on_each_architecture {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[test]
            fn x86_64() {
                super::$test::<knee_vm::X86_64>();
            }

            #[test]
            fn aarch64() {
                super::$test::<knee_vm::AArch64>();
            }

            #[test]
            fn sv48() {
                super::$test::<knee_vm::Sv48>();
            }
        })+
    };
}

/// Calls a function with the architecture of this number, 0 to 2, as its type parameter.
macro_rules! on_architecture {
    ($number:expr, $test:ident($($argument:expr),*)) => {
        match $number {
            0 => $test::<knee_vm::X86_64>($($argument),*),
            1 => $test::<knee_vm::AArch64>($($argument),*),
            _ => $test::<knee_vm::Sv48>($($argument),*),
        }
    };
}

pub(crate) use {on_architecture, on_each_architecture};
