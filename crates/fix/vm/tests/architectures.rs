//! What each architecture demands of whoever changes page tables: the machines cache as much as the manuals
//! allow, and panic where a program would reach another's memory or fault forever.

use knee_vm::hosted::{Architecture, Hosted};
use knee_vm::{PAGE, Pages, Protection, Space};

const WRITE: Protection = Protection::READ_WRITE;

fn address(page: u64) -> u64 {
    page * PAGE as u64
}

/// Runs a test on each architecture.
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

on_each_architecture!(a_translation_of_one_space_is_not_used_in_another);

/// A CPU that keeps translations by address-space identifier stays in both spaces.
fn a_translation_of_one_space_is_not_used_in_another<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let spaces = [Space::new(&cpu).unwrap(), Space::new(&cpu).unwrap()];
    for space in &spaces {
        space.map(&cpu, Pages::new(16, 2), WRITE).unwrap();
    }
    let [one, other] = &spaces;
    cpu.store(one, address(16), 1).unwrap();
    assert_eq!(cpu.load(other, address(16)), Ok(0));
    assert_eq!(cpu.load(one, address(16)), Ok(1));
}
