//! Maps and touches memory in a space of knee-vm, with large or small pages, to count the instructions:
//! `valgrind --tool=callgrind large_pages large|small again|fresh ROUNDS`.
//!
//! Each round touches 2 MiB: it raises one fault for each small page, or one fault for the large page. With
//! `again`, each round maps the memory, touches it and unmaps it, always at the same addresses. With `fresh`,
//! the memory of all rounds is mapped at the beginning and stays mapped. Each round then touches memory
//! that no other round touches, so each round needs a page table of its own.

use std::env;
use std::process;

use knee_vm::hosted::Hosted;
use knee_vm::{Cpu, Page, Pages, Protection, Space};

const LARGE: u64 = 512;
const START: Page = Page(512 * LARGE);
/// Enough for 512 rounds. The same number in all runs, so that its cost cancels out in a difference of two
/// runs.
const FRAMES: usize = 520 * LARGE as usize;
const WRITE: Protection = Protection::READ_WRITE;

fn touch<'m>(space: &Space<'m, Hosted>, cpu: &Cpu<'m, Hosted>, pages: Pages) {
    let step = if space.has_large_pages() { LARGE } else { 1 };
    for page in pages.iter().step_by(step as usize) {
        space.fault(cpu, page, Protection::WRITE).expect("there are enough frames");
    }
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let (is_large, is_again, rounds) = match &words.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        [size @ ("large" | "small"), place @ ("again" | "fresh"), rounds] => {
            (*size == "large", *place == "again", rounds.parse().expect("ROUNDS is a number"))
        }
        _ => {
            eprintln!("usage: large_pages large|small again|fresh ROUNDS");
            process::exit(2);
        }
    };
    let count: u64 = if is_again { 1 } else { rounds };
    let machine = Hosted::new(FRAMES, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).expect("there are enough frames");
    space.set_large_pages(is_large);
    let all = Pages::new(START, LARGE * count);
    if is_again {
        for _ in 0..rounds {
            space.map(&cpu, all, WRITE).expect("the pages are free");
            touch(&space, &cpu, all);
            space.unmap(&cpu, all).expect("the pages are mapped");
        }
    } else {
        space.map(&cpu, all, WRITE).expect("the pages are free");
        touch(&space, &cpu, all);
        assert_eq!(space.resident(), all.count());
    }
    // Exit without dropping the space, because callgrind would count the instructions of the drop as well.
    process::exit(0);
}
