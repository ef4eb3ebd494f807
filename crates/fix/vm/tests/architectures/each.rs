//! Macros that run a test on each architecture.
#![allow(dead_code, unused_imports, unused_macros, reason = "most test binaries use only a part")]

/// Defines tests that run each of these functions on each architecture. The functions take the architecture
/// as their type parameter. RISC-V is tested with Sv48.
macro_rules! on_each_architecture {
    ($($test:ident),+ $(,)?) => {
        $(crate::each::tests!($test: x86_64 = X86_64, aarch64 = AArch64, sv48 = Sv48);)+
    };
}

/// Like `on_each_architecture`, but also runs each test on Sv39.
macro_rules! on_each_format {
    ($($test:ident),+ $(,)?) => {
        $(crate::each::tests!($test: x86_64 = X86_64, aarch64 = AArch64, sv48 = Sv48, sv39 = Sv39);)+
    };
}

/// Defines a test of this function for each of these architectures.
macro_rules! tests {
    ($test:ident: $($name:ident = $architecture:ident),+) => {
        mod $test {
            $(#[test]
            fn $name() {
                super::$test::<knee_vm::$architecture>();
            })+
        }
    };
}

/// The number of architectures, including Sv39.
pub(crate) const ARCHITECTURES: u8 = 4;

/// Calls a generic function for the architecture with this number. Numbers are below
/// `ARCHITECTURES`.
macro_rules! on_architecture {
    ($number:expr, $test:ident($($argument:expr),*)) => {
        match $number {
            0 => $test::<knee_vm::X86_64>($($argument),*),
            1 => $test::<knee_vm::AArch64>($($argument),*),
            2 => $test::<knee_vm::Sv48>($($argument),*),
            _ => $test::<knee_vm::Sv39>($($argument),*),
        }
    };
}

pub(crate) use {on_architecture, on_each_architecture, on_each_format, tests};
