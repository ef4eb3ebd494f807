//! The kernel as a program, for `qemu-system-ARCH -kernel`. All of it is in the library.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
use knee_kernel as _;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!(
        "this kernel runs on a bare machine: cargo build -p knee-kernel --target x86_64-unknown-none"
    );
    std::process::exit(2);
}
