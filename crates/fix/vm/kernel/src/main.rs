//! The kernel's image, for `qemu-system-ARCH -kernel`. All code is in the library.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
use knee_kernel as _;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!(
        "this kernel runs on bare metal; run cargo build -p knee-kernel --target x86_64-unknown-none"
    );
    std::process::exit(2);
}
