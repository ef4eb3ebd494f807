//! Registers of the executing virtual CPU, which QEMU reads from version 9.0 on.
//!
//! Older versions do not have the functions, so they are looked up; so are those of GLib, by which
//! QEMU passes arrays.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem;
use std::ptr::{self, NonNull};

use crate::qemu::symbol;

/// `GArray` and `GByteArray` of GLib.
#[repr(C)]
struct RawArray {
    data: *mut u8,
    length: c_uint,
}

/// The head of `qemu_plugin_reg_descriptor`; from version 7 on something follows.
#[repr(C)]
struct RawDescriptor {
    handle: *mut c_void,
    name: *const c_char,
}

type GetRegisters = unsafe extern "C" fn() -> *mut RawArray;
/// It returns how many bytes it has appended, or from version 6 on whether it could read.
type ReadRegister = unsafe extern "C" fn(*mut c_void, *mut RawArray) -> c_int;
type NewByteArray = unsafe extern "C" fn() -> *mut RawArray;
type SetSize = unsafe extern "C" fn(*mut RawArray, c_uint) -> *mut RawArray;
type ElementSize = unsafe extern "C" fn(*mut RawArray) -> c_uint;

/// Reads the two registers that identify a CPU.
pub(crate) struct Registers {
    read: ReadRegister,
    set_size: SetSize,
    /// What QEMU reads into.
    buffer: *mut RawArray,
    gs: *mut c_void,
    kernel_gs: *mut c_void,
}

/// The function of this name and type.
///
/// # Safety
/// `T` is the type of a pointer to the function.
unsafe fn function<T: Copy>(name: &CStr) -> Option<T> {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
    // SAFETY: a pointer to a function has the size of one to data, and the caller vouches for its type.
    symbol(name).map(|address| unsafe { mem::transmute_copy::<NonNull<c_void>, T>(&address) })
}

impl Registers {
    /// Whether this QEMU can read registers.
    pub(crate) fn can_be_read() -> bool {
        symbol(c"qemu_plugin_read_register").is_some()
    }

    /// Finds the registers, if this QEMU has them. To be called in a callback of a virtual CPU, where they
    /// can be read.
    pub(crate) fn find() -> Option<Registers> {
        // SAFETY: these are the types of include/qemu/qemu-plugin.h of QEMU 9.0 and later and of
        // glib/garray.h. An array of descriptors has the length that it contains, each of the size that GLib
        // returns, beginning with a handle and a name that ends in a zero. QEMU does not use it any
        // more; it is not freed, as it is got once.
        unsafe {
            let get = function::<GetRegisters>(c"qemu_plugin_get_registers")?;
            let element = function::<ElementSize>(c"g_array_get_element_size")?;
            let new = function::<NewByteArray>(c"g_byte_array_new")?;
            let all = get();
            let size = element(all) as usize;
            let handle = |wanted: &CStr| {
                (0..(*all).length as usize)
                    .map(|nr| (*all).data.add(nr * size).cast::<RawDescriptor>().read_unaligned())
                    .find(|register| CStr::from_ptr(register.name) == wanted)
                    .map(|register| register.handle)
            };
            Some(Registers {
                read: function(c"qemu_plugin_read_register")?,
                set_size: function(c"g_byte_array_set_size")?,
                buffer: new(),
                gs: handle(c"gs_base")?,
                kernel_gs: handle(c"k_gs_base")?,
            })
        }
    }

    /// The base of GS. To be called in a callback that may read registers, as the next one.
    #[inline]
    pub(crate) fn gs_base(&self) -> u64 {
        self.read(self.gs)
    }

    /// The base that `swapgs` exchanges with it.
    #[inline]
    pub(crate) fn kernel_gs_base(&self) -> u64 {
        self.read(self.kernel_gs)
    }

    /// A register of 64 bits; 0 if QEMU cannot read it now.
    #[inline]
    fn read(&self, handle: *mut c_void) -> u64 {
        // SAFETY: the handle is QEMU's and stays valid. QEMU appends to the buffer, which is this
        // plugin's own and is used by the thread of the callback only.
        unsafe {
            (self.set_size)(self.buffer, 0);
            (self.read)(handle, self.buffer);
            match (*self.buffer).length {
                8 => ptr::read_unaligned((*self.buffer).data.cast::<u64>()),
                _ => 0,
            }
        }
    }
}
