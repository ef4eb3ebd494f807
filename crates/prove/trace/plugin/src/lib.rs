//! A TCG plugin for QEMU that finds the cache lines that two operations of a guest share.
//!
//! The idea is COMMUTER's (Clements et al., "The Scalable Commutativity Rule", SOSP 2013, section
//! 5.3). COMMUTER patched an emulator; this plugin works with unmodified QEMU. The guest marks the
//! start and the end of each test and of the windows of its sides (crate knee-marks). While a
//! side's window is open on a virtual CPU, the plugin adds each memory access of the kernel on that
//! CPU to the side's table of cache lines. At the end of the test, the plugin intersects the
//! tables. A line is a conflict if one side wrote it and another side read or wrote it. The windows
//! of a test open one after the other, so no CPU spins on a lock, and the result depends neither on
//! timing nor on the machine.
//!
//! | from → to | module |
//! | --- | --- |
//! | QEMU loads the plugin → the plugin starts | `plugin` |
//! | QEMU's C interface → safe functions | `qemu` |
//! | `out=…,user=on,trace=7` → settings | `settings` |
//! | settings → the code that is traced | `scope` |
//! | instructions → their callbacks | `translate`, `instruction`, `block` |
//! | callbacks → the executing virtual CPU | `executing`, `registers` |
//! | callbacks → the accesses of each side | `vcpu`, `side` |
//! | virtual addresses → physical addresses | `pages` |
//! | calls and returns → the callers of the running code | `calls` |
//! | accesses → lines | `lines` |
//! | accesses → their order | `log`, `place` |
//! | tables of sides → conflicts | `conflict` |
//! | tables of sides → lines that move between CPUs | `coherence` |
//! | tests → JSON lines, with the documentation of their schema | `output` |
//! | the current test and its open windows | `session` |
//!
//! # Arguments
//! `-plugin file=libknee_plugin.so,out=PATH[,user=on][,trace=INDEX][,resume=PATH][,moves=on][,accesses=on][,stack=off][,scope=program][,cpu=number]`
//!
//! * `out=PATH`: a file, a FIFO or `/dev/fd/N` for the results. The plugin writes a line when a
//!   test ends.
//! * `user=on`: the plugin also traces user code (the default is `off`). Required under `qemu-x86_64`, which
//!   runs a program without a machine and executes no kernel code.
//! * `trace=INDEX`: for the test with this index, the plugin writes every access before it writes
//!   the line of the test.
//! * `resume=PATH`: if a test had conflicts, or a side was switched out, the guest pauses once the line of
//!   the test has been written, and continues when the plugin can read a byte from PATH. Until then, the
//!   objects of the test stay in the guest's memory, where the reader of the results can examine them.
//! * `moves=on`: the plugin also reports the lines that sides had to get from other CPUs (the
//!   default is `off`).
//! * `accesses=on`: with `moves=on`, the plugin also reports, in order, each access to the lines that have
//!   moved between CPUs since the caches were emptied (the default is `off`). Most lines of an operation have
//!   not moved, so they cannot make CPUs wait for each other.
//! * `stack=off`: the plugin ignores the accesses of kernel code to its stack: pushes, pops, and operands
//!   relative to the stack pointer (the default is `on`). Each task has its own stack, so these accesses
//!   cause no conflicts, but they are a third of all accesses and lines.
//! * `scope=program`: the plugin traces only user code, and identifies a line by its virtual address (the
//!   default is `machine`). While the window of a thread is open, no other user code may run on its virtual
//!   CPU.
//! * `cpu=number`: QEMU's number identifies the executing virtual CPU. Some versions of QEMU pass wrong
//!   numbers, and `number` serves only to demonstrate this. By default (`registers`), the guest's registers
//!   identify the CPU, if this QEMU lets plugins read them.
//!
//! # Programs without a machine
//! QEMU's user mode gives each thread a virtual CPU and passes system calls to the host's kernel.
//! So the plugin does not see what the kernel does for the program, and there are neither interrupts
//! nor physical addresses. A virtual address identifies a line, so memory that is mapped twice
//! counts as two lines.
//!
//! # Undocumented behaviour of QEMU
//! The plugin relies on undocumented behaviour of QEMU. Each guest first runs trials that fail if QEMU
//! behaves differently (the module `calibration` of the crate knee-agent). The list below names each of these
//! behaviours, the modules that rely on the behaviour, and the test that covers it:
//!
//! * QEMU executes each virtual CPU on one thread. A thread switches to another virtual CPU only at the end
//!   of a block of instructions. Modules: `executing`, `vcpu`. Test: `each_side_is_on_its_own_virtual_cpu`.
//! * QEMU before 10.0 passes the correct number of the executing CPU. QEMU 9.0 and later let plugins read the
//!   registers of that CPU. Module: `executing`. Test: `each_side_is_on_its_own_virtual_cpu`.
//! * QEMU translates code separately for each value of the flag AC. Modules: `translate`, and `apart` of
//!   crate knee-agent. Test: all trials, since their code first runs outside of windows.
//! * QEMU may still call the memory callback of a block's last instruction after the end of the block.
//!   Module: `translate`. Test: `interrupts_leave_no_trace_in_the_figures`.
//! * QEMU repeats a string instruction either by a jump to the instruction or within one execution of the
//!   block. Module: `vcpu`. Test:
//!   `a_repeated_string_instruction_counts_once_but_each_of_its_accesses_counts`.
//! * QEMU ends a block at each instruction that enters or leaves the kernel. Module: `vcpu`. Test:
//!   `interrupts_leave_no_trace_in_the_figures`.
//!
//! # Limits
//! The plugin does not see the CPU's implicit accesses: page-table walks, updates of accessed and dirty bits,
//! and the frames that interrupts push and `iretq` pops. A read-modify-write counts as a store. The plugin
//! counts all instructions of a translated block when the block starts. So if a page fault ends the block
//! early, the instruction that faulted and the rest of the block are counted twice. A repeated string
//! instruction counts once. Softirqs count as part of an operation if they run because the operation enables
//! them (`local_bh_enable`), but not if they run at the end of an interrupt.

mod block;
mod calls;
mod coherence;
mod conflict;
mod executing;
mod instruction;
mod lines;
mod log;
mod output;
mod pages;
mod place;
mod plugin;
mod qemu;
mod registers;
mod scope;
mod session;
mod settings;
mod side;
mod translate;
mod vcpu;
