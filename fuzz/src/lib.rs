//! The readers, and a place for the files that they read.

pub mod readers;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A directory of this process alone: the fuzzer may run several.
pub fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("knee-fuzz.{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a place for the files");
        dir
    })
}
