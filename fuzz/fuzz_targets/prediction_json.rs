#![no_main]

use knee_fuzz::readers;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| readers::prediction_json(text));
