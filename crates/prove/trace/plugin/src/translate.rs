//! Selects the callbacks of each block of instructions when QEMU translates it.
//!
//! Kernel code, identified by addresses in the upper half, gets a callback per block and per memory access.
//! User code gets callbacks only with `user=on`, because callbacks would slow down user threads that spin.
//! With `scope=program`, user code gets callbacks and kernel code gets none. Before `Mark::Arm`,
//! callbacks are set only for the marks that precede tests: with callbacks for all code, a guest takes nine
//! times as long to boot. After `Mark::Apart`, kernel code gets no callbacks if it is translated while no
//! window is open.

use std::ffi::{c_uint, c_void};

use knee_marks::{Entry, EntryKind, Mark};

use crate::block::{BlockStart, Ends};
use crate::executing::{current, locate};
use crate::instruction::{IRETQ, ends, is_of_stack, is_repeated_string, own_accesses, update};
use crate::place::Place;
use crate::qemu::{self, AccessInfo, Block, Instruction};
use crate::scope::{self, is_kernel};
use crate::session;
use crate::vcpu::vcpu;

/// Registers the translation callback for the marks that precede tests. Call this function when
/// QEMU has loaded the plugin.
pub(crate) fn start() {
    qemu::translate_with(on_translate_before_arming);
}

unsafe extern "C" fn on_translate_before_arming(first: *mut c_void, second: *mut c_void) {
    // SAFETY: these are QEMU's arguments, and the block does not outlive this call.
    before_arming(&unsafe { Block::of_callback(first, second) });
}

unsafe extern "C" fn on_translate(first: *mut c_void, second: *mut c_void) {
    // SAFETY: as in `on_translate_before_arming`.
    after_arming(&unsafe { Block::of_callback(first, second) });
}

extern "C" fn on_reset(_: u64) {
    qemu::translate_with(on_translate);
}

/// Handles the marks that precede tests, and the reports of entry points of the kernel. Both occur in blocks
/// of user code.
fn before_arming(block: &Block) {
    for insn in block.instructions() {
        if is_kernel(insn.address()) {
            return;
        }
        let code = insn.code();
        if let Some(entry) = Entry::decode(&code) {
            session::learn(entry);
        } else if let Some(mark @ (Mark::Apart | Mark::Arm)) = Mark::decode(&code) {
            on_mark(insn, mark);
        }
    }
}

/// Registers the callbacks that a block needs while tests run.
fn after_arming(block: &Block) {
    let length = block.instructions().len();
    let Some(first) = block.instructions().next() else { return };
    let kernel = is_kernel(first.address());
    let user = scope::counts_user();
    let stack = !kernel || scope::counts_stack();
    if kernel && !(scope::counts_kernel() && session::is_watching()) {
        return;
    }
    let ends = block.instructions().last().map_or(Ends::Otherwise, |last| ends(&last.code()));
    if kernel || user {
        let enters = if kernel { session::entry_at(first.address()) } else { None };
        let start = BlockStart { address: first.address(), length, enters, ends };
        match enters == Some(EntryKind::Deferred) && scope::logs_accesses() {
            true => block.on_execute(on_deferred, start.pack()),
            false => block.on_execute(on_block, start.pack()),
        }
    }
    let log = scope::logs_accesses();
    let place = |insn: Instruction<'_>, code: &[u8], at: usize| {
        Place { pc: insn.address(), rest: length - at, update: update(code) }.pack()
    };
    for (at, insn) in block.instructions().enumerate() {
        let code = insn.code();
        let is_last = at + 1 == length;
        let calls = is_last && ends == Ends::Call;
        if calls && (kernel || user) {
            insn.on_execute(on_call, insn.address());
        }
        if (kernel || user) && is_repeated_string(&code) {
            insn.on_execute(on_repeat, insn.address());
        }
        // A call pushes its return address after all its other accesses.
        let pushes = u8::from(calls && !stack);
        match if is_last { own_accesses(&code) } else { None } {
            _ if !kernel && !user => {}
            _ if !stack && is_of_stack(&code) => {}
            None if log => insn.on_access(on_logged_access, place(insn, &code, at)),
            None => insn.on_access(on_access, insn.address()),
            Some(own) if own == pushes => {}
            Some(own) => {
                insn.on_execute(on_last, (own - pushes).into());
                match log {
                    true => insn.on_access(on_logged_access_of_last, place(insn, &code, at)),
                    false => insn.on_access(on_access_of_last, insn.address()),
                }
            }
        }
        if kernel && *code == IRETQ {
            insn.on_execute(on_return, insn.address() + IRETQ.len() as u64);
        } else if !kernel && let Some(mark) = Mark::decode(&code) {
            on_mark(insn, mark);
        }
    }
}

fn on_mark(insn: Instruction<'_>, mark: Mark) {
    match mark {
        Mark::Begin => insn.on_execute(on_begin, 0),
        Mark::End => insn.on_execute(on_end, 0),
        Mark::Open(side) => insn.on_execute_with_registers(on_open, side.into()),
        Mark::Close(side) => insn.on_execute_with_registers(on_close, side.into()),
        Mark::Flush => insn.on_execute(on_flush, 0),
        Mark::Apart => insn.on_execute(on_apart, 0),
        Mark::Arm => insn.on_execute(on_arm, 0),
    }
}

extern "C" fn on_arm(_: c_uint, _: *mut c_void) {
    if session::arm() {
        qemu::reset(on_reset);
    }
}

extern "C" fn on_begin(_: c_uint, _: *mut c_void) {
    session::begin();
}

extern "C" fn on_end(_: c_uint, _: *mut c_void) {
    session::end();
}

extern "C" fn on_flush(_: c_uint, _: *mut c_void) {
    session::flush();
}

extern "C" fn on_apart(_: c_uint, _: *mut c_void) {
    session::apart();
}

extern "C" fn on_open(cpu: c_uint, side: *mut c_void) {
    let cpu = locate(cpu);
    vcpu(cpu, |vcpu| session::open(side.addr(), cpu, vcpu));
}

extern "C" fn on_close(cpu: c_uint, side: *mut c_void) {
    vcpu(locate(cpu), |vcpu| session::close(side.addr(), vcpu));
}

extern "C" fn on_block(cpu: c_uint, start: *mut c_void) {
    if session::has_windows() {
        let cpu = locate(cpu);
        vcpu(cpu, |vcpu| {
            if let Some(done) = vcpu.block(|| BlockStart::unpack(start.addr() as u64)) {
                session::end_deferred(done);
            }
        });
    }
}

extern "C" fn on_deferred(cpu: c_uint, start: *mut c_void) {
    let at = locate(cpu);
    vcpu(at, |vcpu| session::begin_deferred(at, vcpu));
    on_block(cpu, start);
}

extern "C" fn on_call(cpu: c_uint, pc: *mut c_void) {
    vcpu(current(cpu), |vcpu| vcpu.call(pc.addr() as u64));
}

extern "C" fn on_repeat(cpu: c_uint, pc: *mut c_void) {
    vcpu(current(cpu), |vcpu| vcpu.repeat(pc.addr() as u64));
}

extern "C" fn on_return(cpu: c_uint, next: *mut c_void) {
    vcpu(current(cpu), |vcpu| vcpu.returns(next.addr() as u64));
}

extern "C" fn on_access(cpu: c_uint, info: u32, address: u64, pc: *mut c_void) {
    vcpu(current(cpu), |vcpu| vcpu.access(AccessInfo(info), address, pc.addr() as u64, None));
}

extern "C" fn on_logged_access(cpu: c_uint, info: u32, address: u64, place: *mut c_void) {
    let place = Place::unpack(place.addr() as u64);
    vcpu(current(cpu), |vcpu| vcpu.access(AccessInfo(info), address, place.pc, Some(&place)));
}

extern "C" fn on_last(cpu: c_uint, own: *mut c_void) {
    vcpu(current(cpu), |vcpu| vcpu.last_of_block(own.addr()));
}

extern "C" fn on_access_of_last(cpu: c_uint, info: u32, address: u64, pc: *mut c_void) {
    vcpu(current(cpu), |vcpu| {
        if vcpu.is_access_of_last() {
            vcpu.access(AccessInfo(info), address, pc.addr() as u64, None);
        }
    });
}

extern "C" fn on_logged_access_of_last(cpu: c_uint, info: u32, address: u64, place: *mut c_void) {
    let place = Place::unpack(place.addr() as u64);
    vcpu(current(cpu), |vcpu| {
        if vcpu.is_access_of_last() {
            vcpu.access(AccessInfo(info), address, place.pc, Some(&place));
        }
    });
}
