#![no_main]

#[path = "../../crates/fix/vm/tests/reference/mod.rs"]
mod reference;
#[path = "../../crates/fix/vm/tests/reference/space.rs"]
mod space;

use libfuzzer_sys::fuzz_target;

use space::AddressSpace;

fuzz_target!(|text: &[u8]| reference::family::<knee_vm::X86_64>(text));
