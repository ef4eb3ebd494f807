//! A tree of processes. Each process has its own memory.
#![no_std]
#![no_main]

mod sys;

use sys::*;

const DEPTH: u64 = 4;
const PAGES: u64 = 16;

/// Forks two children, which fork trees of depth `depth - 1`. Returns the number of descendants.
fn tree(memory: u64, depth: u64, path: u64) -> u64 {
    let word = |page: u64| memory + page * PAGE;
    if depth == 0 {
        return 0;
    }
    let mut below = 0;
    for side in 0..2 {
        for page in 0..PAGES {
            check(store(word(page), path << 8 | page), 2);
        }
        let child = fork();
        check(child >= 0, 3);
        if child == 0 {
            // The child sees the parent's memory as it was at the fork.
            for page in 0..PAGES {
                check(load(word(page)) == Some(path << 8 | page), 4);
            }
            exit(128 + tree(memory, depth - 1, path << 1 | side));
        }
        // The child does not see these stores, and this process does not see the child's stores.
        for page in 0..PAGES {
            check(store(word(page), !path), 5);
        }
        let status = wait(child);
        check(status >= 128, 6);
        below += 1 + status as u64 - 128;
        for page in 0..PAGES {
            check(load(word(page)) == Some(!path), 7);
        }
    }
    below
}

fn main() {
    let memory = mmap(PAGES * PAGE, READ | WRITE);
    check(memory > 0, 1);
    check(tree(memory as u64, DEPTH, 1) == (2 << DEPTH) - 2, 8);
}
