#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| knee_models::space::family::<knee_vm::X86_64>(text));
