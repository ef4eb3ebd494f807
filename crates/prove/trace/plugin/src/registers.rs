//! Reads registers of the executing virtual CPU. Since QEMU 9.0, plugins can read registers.
//!
//! Older versions lack the functions that read registers, so the plugin looks these functions up at run time.
//! It also looks up functions of GLib, because QEMU's functions return GLib arrays or append to them.

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

/// The first fields of `qemu_plugin_reg_descriptor`. Later versions of the plugin API append fields to the
/// struct.
#[repr(C)]
struct RawDescriptor {
    handle: *mut c_void,
    name: *const c_char,
}

type GetRegisters = unsafe extern "C" fn() -> *mut RawArray;
/// Before version 6 of the plugin API, returns the number of appended bytes; since version 6, returns whether
/// the call succeeded.
type ReadRegister = unsafe extern "C" fn(*mut c_void, *mut RawArray) -> c_int;
type NewByteArray = unsafe extern "C" fn() -> *mut RawArray;
type SetSize = unsafe extern "C" fn(*mut RawArray, c_uint) -> *mut RawArray;
type ElementSize = unsafe extern "C" fn(*mut RawArray) -> c_uint;

/// Reads the two registers that identify a CPU.
pub(crate) struct Registers {
    read: ReadRegister,
    set_size: SetSize,
    /// The array to which QEMU appends values.
    buffer: *mut RawArray,
    gs: *mut c_void,
    kernel_gs: *mut c_void,
}

/// Returns the function of this name and type.
///
/// # Safety
/// `T` is the type of a pointer to the function.
unsafe fn function<T: Copy>(name: &CStr) -> Option<T> {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
    // SAFETY: pointers to functions and to data have the same size, and the caller guarantees the
    // type.
    symbol(name).map(|address| unsafe { mem::transmute_copy::<NonNull<c_void>, T>(&address) })
}

impl Registers {
    /// Returns whether this QEMU lets plugins read registers.
    pub(crate) fn can_be_read() -> bool {
        symbol(c"qemu_plugin_read_register").is_some()
    }

    /// Finds the registers, if this QEMU has them. Call this function in a virtual CPU's callback
    /// that may read registers.
    pub(crate) fn find() -> Option<Registers> {
        // SAFETY: the types below match the declarations in QEMU's include/qemu/qemu-plugin.h (9.0 and later)
        // and in GLib's glib/garray.h. The array of descriptors states its length, and GLib returns the size
        // of an element. Each descriptor begins with a handle and a name that ends in a zero. QEMU does not
        // use the array after returning it. The array is never freed, which is harmless because the plugin
        // calls this function only once.
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

    /// Returns the base of GS. Call this and `kernel_gs_base` in a callback that may read
    /// registers.
    #[inline]
    pub(crate) fn gs_base(&self) -> u64 {
        self.read(self.gs)
    }

    /// Returns the base that `swapgs` exchanges with the base of GS.
    #[inline]
    pub(crate) fn kernel_gs_base(&self) -> u64 {
        self.read(self.kernel_gs)
    }

    /// Returns the value of a 64-bit register, or 0 if QEMU cannot read it now.
    #[inline]
    fn read(&self, handle: *mut c_void) -> u64 {
        // SAFETY: the handle is QEMU's and stays valid. QEMU appends to the buffer, which belongs
        // to this plugin and is used only by the thread of the callback.
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
