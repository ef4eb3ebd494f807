//! Lets plug-ins that were written for will-it-scale find `new_task` in the executable.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=new_task");
}
