#![no_main]

#[path = "../../crates/fix/vm/tests/reference/mod.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| reference::family(text));
