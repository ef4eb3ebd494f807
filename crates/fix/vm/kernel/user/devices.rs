//! Reads the registers of a device.
#![no_std]
#![no_main]

mod sys;

use sys::*;

const AT: u64 = 0x1000_0000;

/// The offset of a register, and its value under QEMU.
#[cfg(target_arch = "x86_64")]
const REGISTER: (usize, u32) = (0x30, 0x5_0014); // The version of the local APIC.
#[cfg(not(target_arch = "x86_64"))]
const REGISTER: (usize, u32) = (0, u32::from_le_bytes(*b"virt")); // The magic value of a virtio device.

fn has_registers(at: u64) -> bool {
    let (offset, value) = REGISTER;
    // SAFETY: the program has mapped the registers at this address, and the access has the register's size.
    unsafe { (at as *const u32).byte_add(offset).read_volatile() == value }
}

fn main() {
    check(mmap_registers(AT + 1, READ) == EINVAL, 1);
    check(mmap_registers(AT, READ | WRITE) == AT as i64 && has_registers(AT), 2);
    check(!store(AT, 0) && cannot_execute(AT), 3);
    check(mprotect(AT, PAGE, 0) == 0 && load(AT).is_none(), 4);
    check(mprotect(AT, PAGE, READ) == 0 && has_registers(AT), 5);
    check(mprotect(AT, PAGE, READ | WRITE) == 0 && !store(AT, 0), 6);
    let child = fork();
    if child == 0 {
        check(has_registers(AT) && munmap(AT, PAGE) == 0 && load(AT).is_none(), 7);
        exit(0);
    }
    check(child > 0 && wait(child) == 0 && has_registers(AT), 8);
    let moved = mremap(AT, PAGE, 2 * PAGE);
    check(moved > 0 && has_registers(moved as u64) && load(moved as u64 + PAGE).is_none(), 9);
    check(munmap(moved as u64, 2 * PAGE) == 0 && load(moved as u64).is_none(), 10);
    // Once other memory is mapped over the registers, they cannot be accessed at this address.
    check(mmap_registers(AT, READ) == AT as i64 && has_registers(AT), 11);
    check(mmap_fixed(AT, PAGE, READ) > 0 && !has_registers(AT) && load(AT) == Some(0), 12);
}
