//! Memory accesses from user mode. Each space of a storm maps a few short routines at [`CODE`]; this module
//! runs them.

use alloc::boxed::Box;

use knee_vm::{Fault, Object, PAGE, Page, Pager, PagerError, Pages, Protection, Sharing};

use crate::arch::Registers;
use crate::cpu::{self, Event};
use crate::frames;
use crate::late::Late;
use crate::machine::{Board, Space};

unsafe extern "C" {
    static user_code: u8;
    static user_code_end: u8;
    static user_load: u8;
    static user_store: u8;
    static user_watch: u8;
    static user_write: u8;
    #[cfg(target_arch = "x86_64")]
    static user_arm: u8;
}

/// The page at which spaces map the code.
pub(crate) const CODE: Page = Page(1);

/// A pager that copies the code from the kernel's image.
struct Image;

impl Pager for Image {
    fn page_in(&self, _index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        let (start, end) = (&raw const user_code, &raw const user_code_end);
        let bytes = end.addr() - start.addr();
        // SAFETY: the code is in the image, between the two symbols.
        page[..bytes].copy_from_slice(unsafe { core::slice::from_raw_parts(start, bytes) });
        Ok(())
    }

    fn page_out(&self, _index: u64, _page: &[u8; PAGE]) -> Result<(), PagerError> {
        Err(PagerError::Failed)
    }
}

/// The object that contains the code. Every space of a storm maps it.
static CODE_OBJECT: Late<Object<'static, Board>> = Late::new();

/// Creates the object that contains the code. Must be called once, by the first CPU.
pub(crate) fn init() {
    let object = Object::with_pager(cpu::current(), 1, 1, Box::new(Image));
    // SAFETY: the first CPU calls this function once.
    unsafe { CODE_OBJECT.set(object.expect("there is memory")) };
}

/// Maps the code in a new space.
pub(crate) fn map_code(space: &Space) {
    let (pages, protection) = (Pages::new(CODE, 1), Protection::READ | Protection::EXECUTE);
    let object = CODE_OBJECT.get().expect("`init` was called");
    let result = space.map_object(cpu::current(), pages, object, 0, protection, Sharing::Shared);
    result.expect("the page is free, and there is memory");
}

/// Runs the routine at this symbol. Returns the first argument of its system call.
fn run(space: &Space, symbol: *const u8, arguments: [u64; 2]) -> Result<u64, Fault> {
    let offset = symbol.addr() - (&raw const user_code).addr();
    let pc = CODE.address().0 + offset as u64;
    let mut registers = Registers::new(pc, 0, arguments);
    loop {
        match cpu::run(space, &mut registers) {
            Event::SystemCall => return Ok(registers.system_call().1[0]),
            Event::Tick => (),
            Event::Fault(fault, _) => return Err(fault),
        }
    }
}

/// Checks that a word loaded by a program is not from a free frame. Returns the word.
fn check(address: u64, word: u64) -> u64 {
    let is_stale = frames::is_free_word(word);
    assert!(
        !is_stale,
        "stale translation: a load of {address:#x} found the pattern {word:#x} of a free frame"
    );
    word
}

/// Loads a word.
pub(crate) fn load(space: &Space, address: u64) -> Result<u64, Fault> {
    let word = run(space, &raw const user_load, [address, 0])?;
    Ok(check(address, word))
}

/// Stores a word.
pub(crate) fn store(space: &Space, address: u64, value: u64) -> Result<(), Fault> {
    run(space, &raw const user_store, [address, value]).map(|_| ())
}

/// Loads a word until it differs from `expected`, at most 5,000 times. Returns the result of the last load.
pub(crate) fn watch(space: &Space, address: u64, expected: u64) -> Result<u64, Fault> {
    let word = run(space, &raw const user_watch, [address, expected])?;
    Ok(check(address, word))
}

/// Stores 5,000 consecutive values, beginning with `value`. Returns the value that follows the last stored
/// one.
pub(crate) fn write(space: &Space, address: u64, value: u64) -> Result<u64, Fault> {
    run(space, &raw const user_write, [address, value])
}

/// Tells knee's QEMU plugin at which addresses traps enter the kernel, and makes the plugin observe all code
/// from now on.
#[cfg(target_arch = "x86_64")]
pub(crate) fn arm() {
    let space = Box::new(Space::new(cpu::current()).expect("there is memory"));
    map_code(&space);
    run(&space, &raw const user_arm, [0, 0]).expect("the code is mapped");
    cpu::drop_space(space);
}

/// Only x86-64 is supported.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn arm() {
    panic!("the parameter cost requires x86-64: knee's QEMU plugin supports no other architecture");
}
