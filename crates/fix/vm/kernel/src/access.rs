//! Accesses in user mode, by a few instructions that each space has at [`CODE`].

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
}

/// The page of the code.
pub(crate) const CODE: Page = Page(1);

/// Pages from the image of the kernel.
struct Image;

impl Pager for Image {
    fn page_in(&self, _index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        let (start, end) = (&raw const user_code, &raw const user_code_end);
        let bytes = end.addr() - start.addr();
        // SAFETY: the image has the code between the two symbols.
        page[..bytes].copy_from_slice(unsafe { core::slice::from_raw_parts(start, bytes) });
        Ok(())
    }

    fn page_out(&self, _index: u64, _page: &[u8; PAGE]) -> Result<(), PagerError> {
        Err(PagerError::Failed)
    }
}

/// The code, mapped by every space.
static CODE_OBJECT: Late<Object<'static, Board>> = Late::new();

/// Makes the object of the code. Must be called once, by the first CPU.
pub(crate) fn init() {
    let object = Object::with_pager(cpu::current(), 1, 1, alloc::boxed::Box::new(Image));
    // SAFETY: the caller calls this once.
    unsafe { CODE_OBJECT.set(object.expect("there is memory")) };
}

/// Maps the code in a new space.
pub(crate) fn map_code(space: &Space) {
    let (pages, protection) = (Pages::new(CODE, 1), Protection::READ | Protection::EXECUTE);
    let object = CODE_OBJECT.get().expect("`init` was called");
    let result = space.map_object(cpu::current(), pages, object, 0, protection, Sharing::Shared);
    result.expect("the page is free, and there is memory");
}

/// Runs the code at this symbol. Returns the argument of its system call.
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

/// Checks that no program has read a free frame.
fn check(address: u64, word: u64) -> u64 {
    let is_stale = frames::is_free_word(word);
    assert!(!is_stale, "a stale translation: {address:#x} has the word {word:#x} of a free frame");
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

/// Loads a word some thousand times, or until it is not `expected` any more. Returns the last word.
pub(crate) fn watch(space: &Space, address: u64, expected: u64) -> Result<u64, Fault> {
    let word = run(space, &raw const user_watch, [address, expected])?;
    Ok(check(address, word))
}

/// Stores `value` and some thousand greater values, one after the other. Returns the one after the last.
pub(crate) fn write(space: &Space, address: u64, value: u64) -> Result<u64, Fault> {
    run(space, &raw const user_write, [address, value])
}
