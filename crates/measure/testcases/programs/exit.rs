//! A program that does nothing: what `exec_static` and `exec_dynamic` start. The C library is in
//! it because setting that up is part of starting a program.

#![no_std]
#![no_main]

use core::ffi::{c_char, c_int};

/// Called by the C library's start code.
#[unsafe(no_mangle)]
extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    0
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
