//! A TCG plugin for QEMU that finds the cache lines that two operations of a guest share.
//!
//! The idea is COMMUTER's (Clements et al., "The Scalable Commutativity Rule", SOSP 2013, section
//! 5.3), which patched an emulator; here it is a plugin of stock QEMU. The guest marks where a
//! test and the windows of its sides begin and end (crate knee-marks). While a side's window is open on a
//! virtual CPU, each access to memory that the kernel makes there is entered in that side's table of
//! cache lines. At the end of the test the tables are intersected: a line that two sides touched and
//! one wrote is a conflict. Windows are open one after the other, so nothing spins for a lock, and
//! the answer depends neither on time nor on the machine.
//!
//! | arrow | module |
//! | --- | --- |
//! | QEMU → the plugin starts | `plugin` |
//! | QEMU → safe calls | `qemu` |
//! | `out=…,user=on,trace=7` → settings | `settings` |
//! | settings → which code counts | `scope` |
//! | instructions → which callbacks | `translate`, `instruction`, `block` |
//! | callbacks → which virtual CPU executes | `executing`, `registers` |
//! | callbacks → what belongs to a side | `vcpu`, `side` |
//! | virtual addresses → physical addresses | `pages` |
//! | calls and returns → the callers of the code that runs | `calls` |
//! | accesses → lines | `lines` |
//! | tables of sides → conflicts | `conflict` |
//! | tables of sides → lines that move between CPUs | `coherence` |
//! | tests → JSON lines, whose schema is documented there | `output` |
//! | which test it is, whose turn it is | `session` |
//!
//! # Arguments
//! `-plugin file=libknee_plugin.so,out=PATH[,user=on][,trace=INDEX][,resume=PATH][,moves=on][,stack=off][,scope=program][,cpu=number]`
//!
//! * `out=PATH`: a file, fifo or `/dev/fd/N`; a line is written when a test ends.
//! * `user=on`: what the CPU does in user mode counts as well (off by default). Under `qemu-x86_64`,
//!   which runs a program without a machine, there is nothing else, and it has to be on.
//! * `trace=INDEX`: every access of that test is written before the test's line.
//! * `resume=PATH`: after the line of a test with conflicts, or with a side that was switched out, the
//!   guest pauses until a byte can be read there, so that what the test made is still in its memory.
//! * `moves=on`: the lines that the sides had to get from other CPUs are reported too (off by default).
//! * `stack=off`: what kernel code pushes to its stack, pops off it and accesses relative to the stack
//!   pointer is left out (on by default). Each task has a stack of its own, so the sides share none of
//!   it, but it makes up a third of all accesses and lines.
//! * `scope=program`: only a program in the guest is traced: user code counts, kernel code does not,
//!   and a line is known by its virtual address (`scope=machine` by default). While the window of a
//!   thread is open, no other user code may run on its virtual CPU.
//! * `cpu=number`: QEMU's number identifies the executing virtual CPU, instead of the guest's registers
//!   (`registers`, the default where this QEMU can read them). Some versions pass wrong numbers, so this
//!   only serves to show that they do.
//!
//! # Programs without a machine
//! QEMU's user mode gives each thread a virtual CPU and makes system calls itself, so what the kernel
//! does for the program is not seen, and there are neither interrupts nor physical addresses: a line
//! is known by its virtual address. Memory that is mapped twice is taken for two.
//!
//! # What it relies on
//! Some of what QEMU does is documented nowhere. Each guest that knee starts begins with trials that
//! fail where it is otherwise (the module `calibration` of crate knee-agent), and a test covers
//! each:
//!
//! | QEMU | where | test |
//! | --- | --- | --- |
//! | executes a virtual CPU on one thread, a block of instructions to its end | `executing`, `vcpu` | `each_side_is_on_its_own_virtual_cpu` |
//! | passes the number of the CPU that executes (before 10.0) or reads its registers | `executing` | `each_side_is_on_its_own_virtual_cpu` |
//! | translates code again where the flag AC differs | `translate`, and `apart` of crate knee-agent | the trials, whose code was executed outside of windows before |
//! | keeps the callback of a block's last instruction, or takes it back | `translate` | `interrupts_leave_no_trace_in_the_figures` |
//! | repeats an instruction on a string by a jump to it, or within its block | `vcpu` | `a_repeated_instruction_on_a_string_counts_once_and_each_of_its_accesses_counts` |
//! | ends a block at each instruction that enters or leaves the kernel | `vcpu` | `interrupts_leave_no_trace_in_the_figures` |
//!
//! # What it does not see
//! What the CPU does by itself: reads of page tables and their accessed and dirty bits, and the
//! frames that interrupts push and `iretq` pops. A read-modify-write counts as a store. Instructions
//! are counted by blocks of translation: where a page fault ends a block early, its rest counts
//! twice. An instruction on a string counts once, however often it is repeated. Softirqs that run when an operation enables them itself (`local_bh_enable`), not at the
//! end of an interrupt, count as the operation's.

mod block;
mod calls;
mod coherence;
mod conflict;
mod executing;
mod instruction;
mod lines;
mod output;
mod pages;
mod plugin;
mod qemu;
mod registers;
mod scope;
mod session;
mod settings;
mod side;
mod translate;
mod vcpu;
