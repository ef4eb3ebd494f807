#![no_main]

use knee_fuzz::{place, readers};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| readers::check_tests(place(), text));
