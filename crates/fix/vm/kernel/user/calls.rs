//! Tests each memory-management call with valid and invalid arguments. The exit status is the number of the
//! failed check.
#![no_std]
#![no_main]

mod sys;

use sys::*;

const AT: u64 = 0x1000_0000;

fn main() {
    // Newly mapped memory is zero, and keeps the values that are stored in it.
    check(mmap_at(AT, 4 * PAGE, READ | WRITE) == AT as i64, 1);
    check(load(AT) == Some(0) && store(AT + 8, 7) && load(AT + 8) == Some(7), 2);
    check(mmap_at(AT + PAGE, PAGE, READ) == EEXIST, 3);
    check(mmap_at(AT + 1, PAGE, READ) == EINVAL, 4);
    check(mmap_at(AT, 0, READ) == EINVAL, 5);
    check(mmap_at(1 << 62, PAGE, READ) == ENOMEM, 6);
    check(store(AT + 3 * PAGE, 5), 8);
    check(mmap_fixed(AT + 3 * PAGE, PAGE, READ | WRITE) > 0 && load(AT + 3 * PAGE) == Some(0), 9);
    let other = mmap(2 * PAGE, READ | WRITE);
    check(other > 0 && store(other as u64, 1), 7);

    // Protection.
    check(mprotect(AT, PAGE, READ) == 0, 10);
    check(!store(AT + 8, 8) && load(AT + 8) == Some(7), 11);
    check(mprotect(AT, PAGE, 0) == 0 && load(AT).is_none(), 12);
    check(mprotect(AT, PAGE, READ | WRITE) == 0 && store(AT + 8, 8) && load(AT + 8) == Some(8), 13);
    check(mprotect(AT, 5 * PAGE, READ) == ENOMEM, 14);

    // Advice.
    check(discard(AT, PAGE) == 0 && load(AT + 8) == Some(0), 20);
    check(populate(AT, 4 * PAGE) == 0, 21);
    check(populate(AT, 5 * PAGE) == EFAULT, 22);

    // A mapping keeps its content when it grows and moves.
    check(store(AT, 9), 30);
    check(mmap_at(AT + 4 * PAGE, PAGE, READ) > 0, 31);
    let moved = mremap(AT, 4 * PAGE, 8 * PAGE);
    check(moved > 0 && moved as u64 != AT, 32);
    let moved = moved as u64;
    check(load(moved) == Some(9) && load(AT).is_none(), 33);
    check(store(moved + 7 * PAGE, 1), 34);
    check(mremap(moved, 8 * PAGE, PAGE) == moved as i64, 35);
    check(load(moved) == Some(9) && load(moved + PAGE).is_none(), 36);

    // Unmapped memory cannot be accessed.
    check(munmap(moved, PAGE) == 0 && load(moved).is_none() && !store(moved, 1), 40);
    check(munmap(AT + 1, PAGE) == EINVAL, 41);
    check(munmap(other as u64, 2 * PAGE) == 0 && load(other as u64).is_none(), 42);

    // The program cannot write to its code, or read an address that was never mapped.
    check(!store(main as *const () as u64, 0), 50);
    check(load(0).is_none(), 51);

    // Data cannot be executed.
    check(mmap_at(AT, PAGE, READ | WRITE) == AT as i64 && store(AT, 0), 60);
    check(cannot_execute(AT), 61);
}
