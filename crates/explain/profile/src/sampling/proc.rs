//! The threads that `/proc` lists.

use knee_host::process::numbers;

use super::access::SampleError;

pub(super) fn threads(pid: i32) -> Result<Vec<i32>, SampleError> {
    numbers(&format!("/proc/{pid}/task")).map_err(|_| SampleError::NoProcess { pid })
}
