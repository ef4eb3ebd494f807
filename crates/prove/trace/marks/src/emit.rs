//! Reports the entries of the guest's kernel to the plugin.

use std::{io, mem, ptr};

use crate::entries;

/// The return instruction of x86.
const RETURN: u8 = 0xc3;

/// Reports the entries that [`entries`] finds in the text of `/proc/kallsyms`. Writes into memory
/// the instructions that encode these entries, and executes the instructions.
pub fn emit_entries(kallsyms: &str) -> io::Result<()> {
    let mut code = Vec::new();
    entries(kallsyms, |entry| code.extend(entry.code().iter().flatten()));
    code.push(RETURN);
    // SAFETY: a new mapping that nothing else uses gets the code, then becomes executable. The code
    // consists of instructions that do nothing and a return, so it is a function without arguments.
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
