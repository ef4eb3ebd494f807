//! The callers of the running code: a shadow call stack of the task whose window is open.
//!
//! The plugin knows how each block of instructions ends, and the address of the next block shows where
//! execution continues. The callback of a call instruction records the instruction's address, and the next
//! block is the callee's. After a return, the next block is the caller's and begins right after the call. If
//! this call is not the innermost one, the calls inside it never returned, and their frames are dropped too.
//! A return that matches no frame is in effect a jump (a retpoline) and drops only the innermost frame. A
//! fault counts as a call by the interrupted block. `iretq` counts as the return from the fault, whatever its
//! target: the target is the access that faulted or, if the kernel cannot resolve the fault, fixup code. A
//! tail call adds no frame.
//!
//! The callers of the code that opens the window are unknown: the shadow stack begins empty, and a return has
//! no effect on an empty stack. This module never sees the code of interrupts or of other tasks.
//!
//! When code touches a line for the first time, the innermost callers of the code are recorded as a *chain*.
//! The chain stays the same until the next call or return, and is stored once.

use knee_marks::EntryKind;

use crate::block::{BlockStart, Ends};

/// The maximum number of callers in a chain. Only the innermost callers are recorded.
pub(crate) const MAX_CALLERS: usize = 6;
/// The maximum number of frames that are kept. The outermost frames are dropped first. In Linux, function
/// calls nest about twenty deep within a system call.
const MAX_FRAMES: usize = 64;
/// The maximum number of chains. Beyond this number, code is recorded without callers. At most eight chains
/// are recorded for a cache line, so only an operation that touches more than 100,000 lines can reach this
/// number.
const MAX_CHAINS: usize = 1 << 20;
/// The maximum length of an instruction, in bytes.
pub(crate) const INSTRUCTION_BYTES: u64 = 15;

#[derive(Clone, Copy)]
struct Frame {
    /// The address of the call instruction, or of the block that the fault interrupted.
    code: u64,
    is_fault: bool,
}

/// A chain's index in `Calls::chains`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain(u32);

impl Chain {
    /// The chain without callers.
    pub(crate) const EMPTY: Chain = Chain(0);
}

/// The call stack of a task, and the chains that were recorded.
pub(crate) struct Calls {
    /// A ring: if the stack is deeper than [`MAX_FRAMES`], new frames overwrite the outermost ones.
    frames: [Frame; MAX_FRAMES],
    /// The next frame's index in the ring is this number modulo [`MAX_FRAMES`].
    next: usize,
    /// The number of frames.
    count: usize,
    /// The address of the running block. `ends` says how this block ends.
    block: u64,
    ends: Ends,
    /// The address of the call instruction that was executed last.
    call: u64,
    /// The chain of the current frames, if it has been recorded.
    chain: Option<Chain>,
    /// The recorded chains, padded with zeroes. The first chain is empty.
    chains: Vec<[u64; MAX_CALLERS]>,
}

impl Calls {
    pub(crate) fn new() -> Calls {
        Calls {
            frames: [Frame { code: 0, is_fault: false }; MAX_FRAMES],
            next: 0,
            count: 0,
            block: 0,
            ends: Ends::Leaves,
            call: 0,
            chain: None,
            chains: vec![[0; MAX_CALLERS]],
        }
    }

    /// Drops all chains.
    pub(crate) fn clear(&mut self) {
        self.chains.truncate(1);
        self.open();
    }

    /// Handles the opening of a window: empties the stack.
    pub(crate) fn open(&mut self) {
        self.ends = Ends::Leaves;
        self.keep(0);
    }

    /// Handles the start of a block.
    #[inline]
    pub(crate) fn block(&mut self, start: &BlockStart) {
        if start.enters == Some(EntryKind::Fault) {
            self.fault();
        } else {
            match self.ends {
                Ends::Otherwise => {}
                Ends::Call => self.push(Frame { code: self.call, is_fault: false }),
                Ends::Return => self.return_to(start.address),
                Ends::Leaves => self.leave(),
            }
        }
        self.block = start.address;
        self.ends = start.ends;
    }

    /// Handles a call instruction, which is the last one of its block.
    pub(crate) fn call(&mut self, pc: u64) {
        self.call = pc;
    }

    /// Whether the function in which the window began will have returned when the next block starts.
    pub(crate) fn have_returned(&self) -> bool {
        self.count == 0 && self.ends == Ends::Return
    }

    /// Returns the chain of the running code.
    pub(crate) fn chain(&mut self) -> Chain {
        if let Some(chain) = self.chain {
            return chain;
        }
        let chain = match self.chains.len() {
            _ if self.count == 0 => Chain::EMPTY,
            MAX_CHAINS => Chain::EMPTY,
            number => {
                let mut callers = [0; MAX_CALLERS];
                for (caller, frame) in callers.iter_mut().zip(self.innermost()) {
                    *caller = frame.code;
                }
                self.chains.push(callers);
                Chain(number as u32)
            }
        };
        self.chain = Some(chain);
        chain
    }

    /// Returns the addresses of a chain's calls, the innermost call first.
    pub(crate) fn callers(&self, chain: Chain) -> &[u64] {
        let callers = self.chains.get(chain.0 as usize).map_or(&[][..], |callers| callers);
        let count = callers.iter().take_while(|&&caller| caller != 0).count();
        &callers[..count]
    }

    /// Handles a fault, which has interrupted the running block or user code that the plugin does not
    /// observe.
    fn fault(&mut self) {
        match self.ends {
            Ends::Leaves => self.keep(0),
            _ => self.push(Frame { code: self.block, is_fault: true }),
        }
    }

    fn return_to(&mut self, address: u64) {
        let (mut inner, mut found) = (0, false);
        for frame in self.innermost().take_while(|frame| !frame.is_fault) {
            inner += 1;
            found = address > frame.code && address - frame.code <= INSTRUCTION_BYTES;
            if found {
                break;
            }
        }
        let left = if found { inner } else { inner.min(1) };
        self.keep(self.count - left);
    }

    fn leave(&mut self) {
        let fault = self.innermost().position(|frame| frame.is_fault);
        if let Some(at) = fault {
            self.keep(self.count - at - 1);
        }
    }

    fn innermost(&self) -> impl Iterator<Item = &Frame> {
        (1..=self.count).map(|back| &self.frames[self.next.wrapping_sub(back) % MAX_FRAMES])
    }

    fn push(&mut self, frame: Frame) {
        self.frames[self.next % MAX_FRAMES] = frame;
        self.next = self.next.wrapping_add(1);
        self.count = (self.count + 1).min(MAX_FRAMES);
        self.chain = None;
    }

    /// Keeps the `count` outermost frames.
    fn keep(&mut self, count: usize) {
        self.next = self.next.wrapping_sub(self.count - count);
        self.count = count;
        self.chain = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAULT: u64 = 0xffff_ffff_81a0_0000;

    /// Runs these blocks, each given as its address and how it ends. A block is 16 bytes long, and a call 5
    /// bytes. For each caller of the last block, returns the address of the caller's block.
    fn callers(blocks: &[(u64, Ends)]) -> Vec<u64> {
        let mut calls = Calls::new();
        run(&mut calls, blocks);
        blocks_of(&mut calls)
    }

    fn run(calls: &mut Calls, blocks: &[(u64, Ends)]) {
        for &(address, ends) in blocks {
            let enters = (address == FAULT).then_some(EntryKind::Fault);
            calls.block(&BlockStart { address, length: 4, enters, ends });
            calls.call(address + 11);
        }
    }

    fn blocks_of(calls: &mut Calls) -> Vec<u64> {
        let chain = calls.chain();
        calls.callers(chain).iter().map(|call| call & !0xf).collect()
    }

    use Ends::{Call, Leaves, Otherwise, Return};

    #[test]
    fn a_caller_stays_until_its_callee_returns() {
        let mut blocks = vec![(0x100, Call), (0x200, Otherwise), (0x210, Call), (0x300, Return)];
        assert_eq!(callers(&blocks), [0x210, 0x100]);
        blocks.push((0x220, Return));
        assert_eq!(callers(&blocks), [0x100]);
        blocks.push((0x110, Otherwise));
        assert_eq!(callers(&blocks), []);
    }

    #[test]
    fn a_return_to_a_caller_before_the_window_leaves_the_stack_empty() {
        assert_eq!(
            callers(&[(0x300, Return), (0x210, Return), (0x110, Call), (0x400, Otherwise)]),
            [0x110]
        );
    }

    #[test]
    fn a_tail_call_returns_to_the_first_caller() {
        let blocks = [(0x100, Call), (0x200, Otherwise), (0x300, Call), (0x400, Return)];
        assert_eq!(callers(&blocks), [0x300, 0x100]);
        assert_eq!(callers(&[&blocks[..], &[(0x310, Return), (0x110, Otherwise)]].concat()), []);
    }

    #[test]
    fn frames_that_are_left_without_a_return_are_dropped_with_the_next_return() {
        let blocks = [(0x100, Call), (0x200, Call), (0x300, Call), (0x400, Return)];
        assert_eq!(callers(&[&blocks[..], &[(0x110, Otherwise)]].concat()), []);
    }

    #[test]
    fn a_return_that_jumps_undoes_one_call() {
        let blocks = [(0x100, Call), (0x200, Call), (0x300, Return), (0x900, Otherwise)];
        assert_eq!(callers(&blocks), [0x100]);
    }

    #[test]
    fn a_fault_is_called_by_the_code_that_it_interrupted() {
        // Without the fault, the block would have ended in a jump, a call or a return.
        for cut in [Otherwise, Call, Return] {
            let blocks = [(0x100, Call), (0x200, cut), (FAULT, Call), (0x500, Otherwise)];
            assert_eq!(callers(&blocks), [FAULT, 0x200, 0x100]);
        }
    }

    #[test]
    fn a_fault_returns_to_the_code_it_interrupted_or_to_fixup_code() {
        for to in [0x200, 0x900] {
            let blocks = [(0x100, Call), (0x200, Call), (FAULT, Leaves), (to, Otherwise)];
            assert_eq!(callers(&blocks), [0x100]);
        }
    }

    #[test]
    fn a_return_in_a_fault_does_not_return_from_the_fault() {
        let blocks = [(0x100, Call), (0x200, Otherwise), (FAULT, Return), (0x110, Otherwise)];
        assert_eq!(callers(&blocks), [0x200, 0x100]);
    }

    #[test]
    fn a_fault_from_user_mode_has_no_callers() {
        assert_eq!(callers(&[(FAULT, Call), (0x500, Otherwise)]), [FAULT]);
        let left = [(0x100, Call), (0x200, Leaves), (FAULT, Otherwise)];
        assert_eq!(callers(&left), []);
    }

    #[test]
    fn deep_stacks_keep_the_innermost_calls_and_drop_the_outermost() {
        let down: Vec<_> = (1..=100).map(|nr| (nr * 0x100, Call)).collect();
        let mut calls = Calls::new();
        run(&mut calls, &down);
        assert_eq!(blocks_of(&mut calls), [0x6300, 0x6200, 0x6100, 0x6000, 0x5f00, 0x5e00]);
        run(&mut calls, &[(0x9900, Return)]);
        let up: Vec<_> = (38..=100).rev().map(|nr| (nr * 0x100 + 0x10, Return)).collect();
        run(&mut calls, &up);
        assert_eq!(blocks_of(&mut calls), [0x2500]);
        run(&mut calls, &[(0x2510, Return), (0x2410, Return)]);
        assert_eq!(blocks_of(&mut calls), []);
    }

    #[test]
    fn a_chain_is_stored_once_until_the_next_call() {
        let mut calls = Calls::new();
        run(&mut calls, &[(0x100, Call), (0x200, Otherwise)]);
        let chain = calls.chain();
        run(&mut calls, &[(0x210, Otherwise)]);
        assert_eq!(calls.chain(), chain);
        run(&mut calls, &[(0x220, Call), (0x300, Return), (0x230, Otherwise)]);
        assert_ne!(calls.chain(), chain);
        assert_eq!(calls.callers(chain), [0x10b]);
        calls.clear();
        assert_eq!((calls.chain(), calls.callers(chain)), (Chain::EMPTY, &[][..]));
    }
}
