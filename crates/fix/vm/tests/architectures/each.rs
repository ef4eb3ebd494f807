//! Tests that are written once for all architectures.
#![allow(unused_imports, unused_macros, reason = "each test binary uses one macro or both")]

/// Runs each of these functions, which take the architecture as their type parameter, on each of them.
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

/// Calls a function, which takes the architecture as its type parameter, on the one with this number: 0, 1
/// or 2.
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
