//! Loads kernel modules.

use std::ffi::CString;
use std::io;

/// Loads a module, given the content of its file. Succeeds if the kernel already has the module.
pub(crate) fn load(module: &[u8], parameters: &str) -> io::Result<()> {
    let parameters = CString::new(parameters)?;
    // SAFETY: the pointer and the length are those of a slice, and the parameters are a valid C
    // string.
    let loaded = unsafe {
        libc::syscall(libc::SYS_init_module, module.as_ptr(), module.len(), parameters.as_ptr())
    };
    match io::Error::last_os_error() {
        error if loaded != 0 && error.raw_os_error() != Some(libc::EEXIST) => Err(error),
        _ => Ok(()),
    }
}
