//! Tests that are written once for all architectures.

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

pub(crate) use on_each_architecture;
