//! Computes a hash of the sources that knee and the kernel of a guest must have in common: of the plans and
//! reports, of the marks, and of the operations.

use std::fs;

/// The offset basis and the prime of the hash FNV-1a with 64 bits. Unlike the hash of the standard library, its
/// result does not depend on the version of Rust.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;

fn main() {
    let mut hash = BASIS;
    for folder in ["src", "../marks/src", "../operations/src"] {
        println!("cargo::rerun-if-changed={folder}");
        let files = fs::read_dir(folder).expect("read the folder of a crate");
        let mut files: Vec<_> = files.map(|file| file.expect("list a folder").path()).collect();
        files.sort();
        for byte in files.iter().flat_map(|file| fs::read(file).expect("read a source")) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
    println!("cargo::rustc-env=KNEE_SOURCES={hash}");
}
