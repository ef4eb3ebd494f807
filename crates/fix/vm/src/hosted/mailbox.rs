//! Messages to a CPU, and its TLB.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};

use knee_sync::Platform;
use knee_sync::shim::{AtomicBool, AtomicU64, Mutex, MutexGuard, fence, is_mutant, order};

use super::tlb::Tlb;
use crate::machine::Flush;
use crate::machine::cpu_set::CpuSet;

/// What one CPU wants another to forget.
struct Message {
    space: u64,
    pages: Flush,
    /// Where to say that it is done: in the frame of somebody who waits for it.
    answers: *const AtomicU64,
}

/// What waits for a CPU.
#[derive(Default)]
struct Inbox {
    /// There is such a CPU, and it answers. One that is not there knows nothing.
    there: bool,
    messages: Vec<Message>,
}

// SAFETY: `answers` is an atomic that stays until it is answered.
unsafe impl Send for Inbox {}

/// A CPU, as others know it.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Mailbox {
    /// There are messages.
    full: AtomicBool,
    inbox: Mutex<Inbox>,
    /// The CPU's own.
    tlb: Tlb,
}

// SAFETY: the TLB is used by the CPU's thread alone, as the functions below say.
unsafe impl Sync for Mailbox {}

impl Mailbox {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The CPU comes. Whether it was not there.
    pub(super) fn come(&self) -> bool {
        !std::mem::replace(&mut self.inbox().there, true)
    }

    /// The CPU goes, and knows nothing from now on.
    ///
    /// # Safety
    /// By its thread.
    pub(super) unsafe fn go(&self) {
        self.tlb.flush_all();
        let mut inbox = self.inbox();
        inbox.there = false;
        if !is_mutant!("hosted_goes_unanswered") {
            // SAFETY: said by the caller.
            unsafe { self.answer_in(&mut inbox) };
        }
    }

    /// The CPU forgets a space, has `leave` say so, and answers who did not know it. Nobody who has known
    /// [posts](Mailbox::post) anything afterwards.
    ///
    /// # Safety
    /// By the CPU's thread.
    pub(super) unsafe fn leave(&self, space: u64, leave: impl FnOnce()) {
        if !is_mutant!("hosted_leaves_knowing") {
            self.tlb.flush(space, Flush::All);
        }
        let mut inbox = self.inbox();
        leave();
        if !is_mutant!("hosted_leaves_unanswered") {
            // SAFETY: said by the caller.
            unsafe { self.answer_in(&mut inbox) };
        }
    }

    /// Posts a message; whether there is anybody to answer it. `wants` is whether the CPU has to know it now.
    ///
    /// # Safety
    /// `answers` stays until it has been counted up.
    pub(super) unsafe fn post(
        &self,
        space: u64,
        pages: Flush,
        answers: *const AtomicU64,
        wants: impl FnOnce() -> bool,
    ) -> bool {
        let mut inbox = self.inbox();
        let there = inbox.there || is_mutant!("hosted_asks_who_rests");
        let is_posted = there && (wants() || is_mutant!("hosted_asks_who_has_left"));
        if is_posted {
            inbox.messages.push(Message { space, pages, answers });
            self.full.store(true, Release);
        }
        is_posted
    }

    /// Does what the messages say.
    ///
    /// # Safety
    /// By the CPU's thread.
    #[inline]
    pub(super) unsafe fn handle_ipis(&self) {
        if self.full.load(Acquire) {
            // SAFETY: the caller says so.
            unsafe { self.answer_all() };
        }
    }

    /// # Safety
    /// As above.
    #[cold]
    unsafe fn answer_all(&self) {
        // SAFETY: as above.
        unsafe { self.answer_in(&mut self.inbox()) };
    }

    /// # Safety
    /// As above.
    unsafe fn answer_in(&self, inbox: &mut Inbox) {
        self.full.swap(false, AcqRel);
        for Message { space, pages, answers } in inbox.messages.drain(..) {
            if !is_mutant!("hosted_answers_only") {
                self.tlb.flush(space, pages);
            }
            // SAFETY: who waits for it is there. Release: our accesses by what is forgotten came before.
            unsafe { &*answers }.fetch_add(1, order!(Release, "hosted_answer"));
        }
    }

    /// Waits while `condition` is true. Others may wait for this CPU meanwhile.
    ///
    /// # Safety
    /// By the CPU's thread.
    pub(super) unsafe fn wait_while(
        &self,
        platform: &impl Platform,
        mut condition: impl FnMut() -> bool,
    ) {
        platform.wait_while(|| {
            if !is_mutant!("hosted_waits_deaf") {
                // SAFETY: said by the caller.
                unsafe { self.handle_ipis() };
            }
            condition()
        });
    }

    /// Flushes pages from the CPU's own TLB.
    ///
    /// # Safety
    /// By the CPU's thread.
    pub(super) unsafe fn flush(&self, space: u64, pages: Flush) {
        self.tlb.flush(space, pages);
    }

    /// Flushes the CPU's own TLB.
    ///
    /// # Safety
    /// By the CPU's thread.
    pub(super) unsafe fn flush_all(&self) {
        self.tlb.flush_all();
    }

    /// # Safety
    /// By the CPU's thread.
    pub(super) unsafe fn tlb(&self) -> &Tlb {
        &self.tlb
    }
}

/// Has the CPUs of `on` forget pages of a space, and returns when they have.
///
/// # Safety
/// By the thread of `cpu`.
pub(super) unsafe fn shoot_down(
    mailboxes: &[Mailbox],
    platform: &impl Platform,
    cpu: usize,
    on: &CpuSet,
    space: u64,
    pages: Flush,
) {
    // What was taken out of the tables comes before the look at who may know it.
    if !is_mutant!("hosted_unfenced") {
        fence(SeqCst);
    }
    let answers = AtomicU64::new(0);
    let mut asked = 0;
    for other in on.iter().filter(|&other| other != cpu) {
        // SAFETY: `answers` is there until all have answered.
        let is_asked = unsafe {
            // It may have left since we looked.
            mailboxes[other].post(space, pages, &answers, || on.contains(other))
        };
        asked += u64::from(is_asked);
    }
    if on.contains(cpu) {
        // SAFETY: said by the caller.
        unsafe { mailboxes[cpu].flush(space, pages) };
    }
    // Acquire: what others did by what they have forgotten came before.
    let waits = || answers.load(order!(Acquire, "hosted_answered")) < asked;
    // SAFETY: said by the caller.
    unsafe { mailboxes[cpu].wait_while(platform, waits) };
}
