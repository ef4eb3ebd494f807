//! Has QEMU translate the kernel code of windows apart from the rest, so that only that code needs
//! callbacks: four of five blocks of kernel code are executed in set-ups and clean-ups.
//!
//! QEMU translates code again where the flag AC of the CPU differs, since that flag changes what a
//! kernel may access where the CPU has SMAP (`cpu_get_tb_cpu_state` of target/i386/cpu.h). These guests'
//! CPUs have not, and then AC means nothing to a kernel (`arch_enter_from_user_mode` of Linux says
//! so); nor does it to user mode, as QEMU does not check alignment. So it is free to mark windows.
//! A system call clears those flags that the register SFMASK has, AC among them. It is the
//! only thing that is changed: once, through the driver of such registers. Everything else that
//! enters the kernel keeps AC. Without such a driver, all code has callbacks: results are the same, and
//! the guest is slower.
//!
//! AC follows the CPU and not the task, so a task that is switched out in a window is without it when
//! it comes back, until it is in user mode again. That run is disturbed, and does not count.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use knee_marks::Mark;

use crate::module;

/// Where the host leaves the driver's module in the initramfs, without the root.
pub const MSR: &str = "msr.ko";
/// Lets programs write, of Linux 5.9 and later, which ask for it.
const ALLOW: &str = "allow_writes=on";
/// Major number of the driver's devices; minors are CPUs (Documentation/admin-guide/devices.txt).
const MAJOR: u32 = 202;
/// Number of the register (Intel's manual, volume 4, IA32_FMASK), which is the offset in the device.
const SFMASK: u64 = 0xc000_0084;
const AC: u64 = 1 << 18;

static APART: AtomicBool = AtomicBool::new(false);

/// A parameter for the kernel's command line, where the driver is built in.
pub fn parameter() -> String {
    format!("msr.{ALLOW}")
}

/// Keeps AC across system calls on this many CPUs, if that can be done. Call it before anything that
/// is to have windows is forked, and before [`Mark::Arm`].
pub(crate) fn prepare(cpus: usize) {
    if (0..cpus).try_for_each(keep_ac).is_ok() {
        APART.store(true, Relaxed);
        Mark::Apart.emit();
    }
}

/// Loads the driver's module, if the host has sent it and the kernel takes it.
pub(crate) fn load_driver() {
    let path = format!("/{MSR}");
    if let Ok(module) = fs::read(&path) {
        // Without it tests are slower, or the driver is built in.
        let _ = module::load(&module, ALLOW);
        let _ = fs::remove_file(path);
    }
}

fn keep_ac(cpu: usize) -> io::Result<()> {
    let path = format!("/msr{cpu}");
    let node = CString::new(path.as_str())?;
    // SAFETY: a valid C string.
    let made = unsafe {
        libc::mknod(node.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(MAJOR, cpu as u32))
    };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    let register = File::options().read(true).write(true).open(path)?;
    let mut mask = [0; 8];
    register.read_exact_at(&mut mask, SFMASK)?;
    let kept = u64::from_le_bytes(mask) & !AC;
    // One system call: a part of a register cannot be written.
    register.write_all_at(&kept.to_le_bytes(), SFMASK)?;
    register.read_exact_at(&mut mask, SFMASK)?;
    match u64::from_le_bytes(mask) == kept {
        true => Ok(()),
        false => Err(io::Error::other("the register is as it was")),
    }
}

/// Opens the window of a side; if the plugin sees it, with the flag.
#[inline(always)]
pub(crate) fn open(side: u8, seen: bool) {
    Mark::Open(side).emit();
    if seen && APART.load(Relaxed) {
        set_ac();
    }
}

/// Closes it.
#[inline(always)]
pub(crate) fn close(side: u8) {
    if APART.load(Relaxed) {
        clear_ac();
    }
    Mark::Close(side).emit();
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn set_ac() {
    // SAFETY: pushes and pops one word, for which the compiler leaves room. AC has no effect where
    // [`prepare`] has succeeded, which is in a guest only.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], {}", "popfq", const AC) }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn clear_ac() {
    // SAFETY: as in `set_ac`; AC is clear everywhere else.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], {}", "popfq", const !(AC as i64)) }
}
