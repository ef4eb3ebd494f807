//! Reports the entry points of the guest's kernel to the plugin.

extern crate std;

use std::vec::Vec;
use std::{io, mem, ptr};

use crate::entries;

/// The return instruction of x86.
const RETURN: u8 = 0xc3;

/// Reports the entry points that [`entries`] finds in the text of `/proc/kallsyms`. Each entry point is
/// encoded as instructions; this function writes all these instructions to new memory, and executes them.
pub fn emit_entries(kallsyms: &str) -> io::Result<()> {
    let mut code = Vec::new();
    entries(kallsyms, |entry| code.extend(entry.code().iter().flatten()));
    code.push(RETURN);
    // SAFETY: the code is copied to a new mapping, which nothing else uses and which then becomes executable.
    // The code consists of instructions that do nothing, followed by a return instruction, so it is a
    // function without arguments.
    unsafe {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        let memory =
            libc::mmap(ptr::null_mut(), code.len(), protection, flags | libc::MAP_ANONYMOUS, -1, 0);
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        ptr::copy_nonoverlapping(code.as_ptr(), memory.cast(), code.len());
        if libc::mprotect(memory, code.len(), libc::PROT_READ | libc::PROT_EXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        mem::transmute::<*mut libc::c_void, extern "C" fn()>(memory)();
    }
    Ok(())
}
