//! The processes and threads that `/proc` lists.

use std::{fs, io};

use super::access::SampleError;

pub(super) fn threads(pid: i32) -> Result<Vec<i32>, SampleError> {
    numbers(&format!("/proc/{pid}/task")).map_err(|_| SampleError::NoProcess { pid })
}

/// The processes or threads in a directory of `/proc`.
pub(super) fn numbers(directory: &str) -> io::Result<Vec<i32>> {
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(fs::read_dir(directory)?.filter_map(number).collect())
}
