//! Makes QEMU translate kernel code separately inside and outside of windows, so that only the code in
//! windows needs callbacks. Most kernel code runs outside of windows: four out of five blocks of kernel code
//! that a guest executes belong to set-ups and clean-ups.
//!
//! QEMU translates code separately for each value of the CPU's flag AC, since on a CPU with SMAP, this flag
//! changes what the kernel may access (`cpu_get_tb_cpu_state` of target/i386/cpu.h). The CPUs of these guests
//! have no SMAP, so AC has no effect on the kernel (see `arch_enter_from_user_mode` of Linux). AC has no
//! effect in user mode either, since QEMU does not check alignment. So the agent can use AC to mark windows.
//! A system call clears all flags whose bits are set in the register SFMASK, and Linux sets the bit of AC
//! there. All other entries to the kernel keep AC. The agent removes AC from SFMASK once, through the
//! kernel's msr driver. Without this driver, the plugin's callbacks run in all kernel code: the results are
//! the same, but the guest is slower.
//!
//! AC belongs to the CPU and not to the task. If a task is switched out in a window and later resumes, AC may
//! be clear until the task returns to user mode. knee counts the run as disturbed, and ignores its results.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use knee_marks::Mark;

use crate::module;

/// The file of the driver's module in the initramfs, relative to the root.
pub const MSR: &str = "msr.ko";
/// The parameter of the msr driver that allows programs to write model-specific registers. Linux 5.9 and
/// later require this parameter.
const ALLOW: &str = "allow_writes=on";
/// The major number of the driver's devices; the minor number is the number of the CPU
/// (Documentation/admin-guide/devices.txt).
const MAJOR: u32 = 202;
/// The number of the register SFMASK (Intel's manual, volume 4, IA32_FMASK), which is also its
/// offset in the device.
const SFMASK: u64 = 0xc000_0084;
const AC: u64 = 1 << 18;

static APART: AtomicBool = AtomicBool::new(false);

/// Returns the kernel parameter that allows programs to write model-specific registers through the msr
/// driver, if the driver is built in.
pub fn parameter() -> String {
    format!("msr.{ALLOW}")
}

/// Changes the first `cpus` CPUs so that a system call does not clear AC, if the kernel's driver allows it.
/// Call this function before [`Mark::Arm`], and before forking any process that opens windows.
pub(crate) fn prepare(cpus: usize) {
    if (0..cpus).try_for_each(keep_ac).is_ok() {
        APART.store(true, Relaxed);
        Mark::Apart.emit();
    }
}

/// Loads the driver's module, if the host has sent it.
pub(crate) fn load_driver() {
    let path = format!("/{MSR}");
    if let Ok(module) = fs::read(&path) {
        // An error does no harm: the driver may be built in, and without a driver, tests are only slower.
        let _ = module::load(&module, ALLOW);
        let _ = fs::remove_file(path);
    }
}

fn keep_ac(cpu: usize) -> io::Result<()> {
    let path = format!("/msr{cpu}");
    let node = CString::new(path.as_str())?;
    // SAFETY: the path is a valid C string.
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
    // A register must be written as a whole. For these eight bytes, `write_all_at` makes one system
    // call.
    register.write_all_at(&kept.to_le_bytes(), SFMASK)?;
    register.read_exact_at(&mut mask, SFMASK)?;
    match u64::from_le_bytes(mask) == kept {
        true => Ok(()),
        false => Err(io::Error::other("the register did not change")),
    }
}

/// Opens the window of a side, and sets AC if the run is traced.
#[inline(always)]
pub(crate) fn open(side: u8, seen: bool) {
    Mark::Open(side).emit();
    if seen && APART.load(Relaxed) {
        set_ac();
    }
}

/// Clears AC and closes the window of a side.
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
    // SAFETY: the code pushes and pops one word, for which the compiler leaves room. The caller has checked
    // that [`prepare`] succeeded, which happens only in a guest. AC has no effect in a guest.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], {}", "popfq", const AC) }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn clear_ac() {
    // SAFETY: as in `set_ac`; code outside of windows expects AC to be clear.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], {}", "popfq", const !(AC as i64)) }
}
