//! Threads of one process that map, use and unmap memory.
#![no_std]
#![no_main]

mod sys;

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sys::*;

const THREADS: u64 = 4;
const ROUNDS: u64 = 100;

static DONE: AtomicU64 = AtomicU64::new(0);

fn work(number: u64) {
    for round in 0..ROUNDS {
        let bytes = (1 + (round + number) % 5) * PAGE;
        let at = mmap(bytes, READ | WRITE);
        check(at > 0, 1);
        let at = at as u64;
        for page in (at..at + bytes).step_by(PAGE as usize) {
            check(load(page) == Some(0), 2);
            check(store(page, number << 32 | round), 3);
        }
        check(mprotect(at, PAGE, READ) == 0 && !store(at, 0), 4);
        for page in (at..at + bytes).step_by(PAGE as usize) {
            check(load(page) == Some(number << 32 | round), 5);
        }
        check(munmap(at, bytes) == 0, 6);
    }
    DONE.fetch_add(ROUNDS, Relaxed);
}

fn main() {
    on_threads(THREADS, work);
    check(DONE.load(Relaxed) == THREADS * ROUNDS, 7);
}
