//! The part of QEMU's plugin interface that this plugin uses.
//!
//! The declarations follow include/qemu/qemu-plugin.h of QEMU 7.2, with API version 1, and
//! include/plugins/qemu-plugin.h of QEMU 11.1, with version 7. For the functions used here, the
//! versions differ as follows:
//!
//! * QEMU refuses a plugin whose `qemu_plugin_version` is below the oldest API version that this QEMU
//!   supports. QEMU 9.0 requires at least 2, and QEMU 11.1 requires at least 7. QEMU reads the symbol after
//!   it has loaded the plugin, so a constructor can set it. The plugin's constructor sets the symbol to the
//!   value of the environment variable `KNEE_PLUGIN_API`. If QEMU refuses the plugin's default version, knee
//!   sets this variable to the oldest version that QEMU supports. Without this variable, the constructor sets
//!   the symbol to 2 if this QEMU has the functions for scoreboards, which API version 2 introduced.
//! * Before API version 3 (QEMU 9.1), `qemu_plugin_insn_data` returns a pointer. Since version 3, it copies
//!   the bytes to the caller's buffer. In the C calling convention of x86-64, both variants can be called
//!   with all three arguments.
//! * Before API version 7, the first argument of the callbacks for translation and reset is the plugin's ID.
//!   Version 7 removed this argument, and added a last argument: the user data given at registration. The
//!   functions that register these callbacks take the user data as an additional argument, which older
//!   versions ignore.
//! * The CPU number that callbacks receive is wrong in some versions: see [`crate::executing`].

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use crate::scope::{counts_kernel, is_kernel, is_program};

/// The first version whose `qemu_plugin_insn_data` copies the bytes.
const COPIES_INSTRUCTIONS: c_int = 3;
/// The first version that passes user data to all callbacks.
const PASSES_USER_DATA: c_int = 7;
/// The maximum length of an x86 instruction, in bytes.
const MAX_INSTRUCTION: usize = 15;
const NO_REGISTERS: c_int = 0;
const READS_REGISTERS: c_int = 1;
const LOADS_AND_STORES: c_int = 3;

/// A block of instructions being translated.
#[repr(C)]
pub(crate) struct RawBlock([u8; 0]);
#[repr(C)]
struct RawInstruction([u8; 0]);
#[repr(C)]
struct RawPhysical([u8; 0]);

/// A callback that QEMU calls when it translates a block. Before version [`PASSES_USER_DATA`], the arguments
/// are the plugin's ID and the block. Since this version, the arguments are the block and the user data.
pub(crate) type OnTranslate = unsafe extern "C" fn(*mut c_void, *mut c_void);
type OnExecute = extern "C" fn(c_uint, *mut c_void);
type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: OnTranslate, data: *mut c_void);
    fn qemu_plugin_reset(id: u64, callback: extern "C" fn(u64), data: *mut c_void);
    fn qemu_plugin_tb_n_insns(block: *const RawBlock) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const RawBlock, index: usize) -> *mut RawInstruction;
    fn qemu_plugin_insn_data(insn: *const RawInstruction, to: *mut u8, length: usize) -> usize;
    fn qemu_plugin_insn_size(insn: *const RawInstruction) -> usize;
    fn qemu_plugin_insn_vaddr(insn: *const RawInstruction) -> u64;
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut RawBlock,
        callback: OnExecute,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut RawInstruction,
        callback: OnExecute,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut RawInstruction,
        callback: OnAccess,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_mem_size_shift(access: u32) -> c_uint;
    fn qemu_plugin_mem_is_store(access: u32) -> bool;
    fn qemu_plugin_get_hwaddr(access: u32, address: u64) -> *mut RawPhysical;
    fn qemu_plugin_hwaddr_is_io(physical: *const RawPhysical) -> bool;
    fn qemu_plugin_hwaddr_phys_addr(physical: *const RawPhysical) -> u64;

    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Returns the address of a function of QEMU or of a library that QEMU uses; `None` if this QEMU does not
/// have the function.
pub(crate) fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a null handle searches all loaded objects, and the name ends in a zero. Constructors
    // may call dlsym too.
    NonNull::new(unsafe { dlsym(ptr::null_mut(), name.as_ptr()) })
}

/// The plugin's ID, which functions of QEMU take as an argument.
static ID: AtomicU64 = AtomicU64::new(0);
/// The API version of this QEMU.
static RUNNING: AtomicI32 = AtomicI32::new(0);
/// Stores the plugin's ID and the API version of this QEMU. Call this function when QEMU has loaded
/// the plugin.
pub(crate) fn start(id: u64, version: c_int) {
    ID.store(id, Relaxed);
    RUNNING.store(version, Relaxed);
}

/// Calls `callback` for each block that is translated from now on.
pub(crate) fn translate_with(callback: OnTranslate) {
    // SAFETY: the ID is the one that QEMU passed. The callback stays valid, since QEMU unloads a plugin only
    // on the plugin's request. Every version of QEMU calls the callback with two arguments, each a word.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(ID.load(Relaxed), callback, ptr::null_mut());
    }
}

/// Discards all translated code as soon as all virtual CPUs have left their current blocks, then
/// calls `on_reset`.
pub(crate) fn reset(on_reset: extern "C" fn(u64)) {
    // SAFETY: the ID is the one that QEMU passed, and the callback stays valid.
    unsafe { qemu_plugin_reset(ID.load(Relaxed), on_reset, ptr::null_mut()) }
}

/// A block that is being translated. A `Block` exists only during QEMU's callback. QEMU keeps the handles of
/// the block and of its instructions valid during the callback, so calls with these handles are sound.
pub(crate) struct Block(*mut RawBlock);

impl Block {
    /// Takes the block from the two arguments of a translation callback.
    ///
    /// # Safety
    /// The arguments are those that QEMU passed to the callback, and the block does not outlive the
    /// callback.
    pub(crate) unsafe fn of_callback(first: *mut c_void, second: *mut c_void) -> Block {
        Block(if RUNNING.load(Relaxed) < PASSES_USER_DATA { second } else { first }.cast())
    }

    pub(crate) fn instructions(&self) -> impl ExactSizeIterator<Item = Instruction<'_>> {
        // SAFETY: see Block; the index is less than the number of instructions.
        let get =
            |index| unsafe { Instruction(qemu_plugin_tb_get_insn(self.0, index), PhantomData) };
        // SAFETY: see Block.
        (0..unsafe { qemu_plugin_tb_n_insns(self.0) }).map(get)
    }

    /// Calls `callback` with `data` at the start of each execution of the block. The callback may
    /// read registers.
    pub(crate) fn on_execute(&self, callback: OnExecute, data: u64) {
        // SAFETY: see Block; the data is a number that is never dereferenced.
        unsafe {
            let data = ptr::without_provenance_mut(data as usize);
            qemu_plugin_register_vcpu_tb_exec_cb(self.0, callback, READS_REGISTERS, data);
        }
    }
}

/// An instruction of a [`Block`], valid as long as the block.
#[derive(Clone, Copy)]
pub(crate) struct Instruction<'a>(*mut RawInstruction, PhantomData<&'a Block>);

impl Instruction<'_> {
    pub(crate) fn address(self) -> u64 {
        // SAFETY: see Block.
        unsafe { qemu_plugin_insn_vaddr(self.0) }
    }

    /// Returns the bytes of the instruction.
    pub(crate) fn code(self) -> Code {
        let mut code = Code { bytes: [0; MAX_INSTRUCTION], length: 0 };
        // SAFETY: see Block, and the head of this file for the two versions. Older versions return
        // a pointer to all bytes of the instruction. This pointer is valid as long as the block.
        unsafe {
            code.length = qemu_plugin_insn_size(self.0).min(MAX_INSTRUCTION);
            let bytes = code.bytes.as_mut_ptr();
            let returned = qemu_plugin_insn_data(self.0, bytes, code.length);
            if RUNNING.load(Relaxed) < COPIES_INSTRUCTIONS {
                let from = ptr::with_exposed_provenance::<u8>(returned);
                bytes.copy_from_nonoverlapping(from, code.length);
            }
        }
        code
    }

    /// Calls `callback` with `data` before the instruction is executed.
    pub(crate) fn on_execute(self, callback: OnExecute, data: u64) {
        self.before(callback, NO_REGISTERS, data);
    }

    /// Like [`on_execute`](Self::on_execute), with a callback that may read registers.
    pub(crate) fn on_execute_with_registers(self, callback: OnExecute, data: u64) {
        self.before(callback, READS_REGISTERS, data);
    }

    fn before(self, callback: OnExecute, registers: c_int, data: u64) {
        // SAFETY: see Block; the data is a number that is never dereferenced.
        unsafe {
            let data = ptr::without_provenance_mut(data as usize);
            qemu_plugin_register_vcpu_insn_exec_cb(self.0, callback, registers, data);
        }
    }

    /// Calls `callback` with `data` after each access to memory that the instruction makes.
    pub(crate) fn on_access(self, callback: OnAccess, data: u64) {
        // SAFETY: as in `on_execute`.
        unsafe {
            let data = ptr::without_provenance_mut(data as usize);
            let flags = NO_REGISTERS;
            qemu_plugin_register_vcpu_mem_cb(self.0, callback, flags, LOADS_AND_STORES, data);
        }
    }
}

/// The bytes of an instruction.
pub(crate) struct Code {
    bytes: [u8; MAX_INSTRUCTION],
    length: usize,
}

impl Deref for Code {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The target of an access.
pub(crate) enum Physical {
    Memory(u64),
    /// A device. If only a program is traced, kernel memory counts as a device, too.
    Device,
    /// QEMU no longer has a translation of the address. QEMU's documentation says that this may
    /// happen.
    Unknown,
}

/// An access to memory. Use it only within QEMU's callback.
#[derive(Clone, Copy)]
pub(crate) struct AccessInfo(pub(crate) u32);

impl AccessInfo {
    pub(crate) fn bytes(self) -> u64 {
        // SAFETY: QEMU only decodes the number.
        1 << unsafe { qemu_plugin_mem_size_shift(self.0) }
    }

    pub(crate) fn is_store(self) -> bool {
        // SAFETY: as in `bytes`.
        unsafe { qemu_plugin_mem_is_store(self.0) }
    }

    /// Returns the physical address of the access. For a program, returns the virtual address,
    /// since all threads have the same address space.
    pub(crate) fn physical(self, address: u64) -> Physical {
        if is_program() || !counts_kernel() {
            // A system call or a page fault may end a block of the program. The CPU then enters the kernel
            // and accesses the kernel's tables and stacks, and QEMU may report these accesses for the block.
            return if is_kernel(address) { Physical::Device } else { Physical::Memory(address) };
        }
        // SAFETY: this method is called within the callback of the access, on the thread of its
        // virtual CPU. The result belongs to QEMU, and is read before the next call of
        // `qemu_plugin_get_hwaddr`.
        unsafe {
            let physical = qemu_plugin_get_hwaddr(self.0, address);
            if physical.is_null() {
                Physical::Unknown
            } else if qemu_plugin_hwaddr_is_io(physical) {
                Physical::Device
            } else {
                Physical::Memory(qemu_plugin_hwaddr_phys_addr(physical))
            }
        }
    }
}
