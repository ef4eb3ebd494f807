#![no_main]

use knee_fuzz::{place, readers};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| readers::perf_data(place(), bytes));
