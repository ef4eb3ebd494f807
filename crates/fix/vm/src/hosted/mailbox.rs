//! The shootdown mailbox and the TLB of each CPU.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use knee_sync::Platform;
use knee_sync::shim::{AtomicBool, AtomicU64, Mutex, MutexGuard, fence, is_mutant, order};

use super::tlb::Tlb;
use crate::machine::Flush;
use crate::machine::cpu_set::CpuSet;

/// A shootdown request.
struct Message {
    space: u64,
    pages: Flush,
    /// The acknowledgement counter, on the stack of the waiting requester.
    answers: *const AtomicU64,
}

/// Pending requests to a CPU.
#[derive(Default)]
struct Inbox {
    /// The CPU is online and acknowledges requests. The TLB of an offline CPU is empty.
    there: bool,
    messages: Vec<Message>,
}

// SAFETY: `answers` points to an atomic that the requester keeps alive until its request is acknowledged.
unsafe impl Send for Inbox {}

/// The part of a CPU that other CPUs access, and its TLB.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Mailbox {
    /// Whether messages are pending. Relaxed: this is only a hint, and it changes only under the lock of
    /// the inbox.
    full: AtomicBool,
    inbox: Mutex<Inbox>,
    /// Accessed only by the CPU's own thread.
    tlb: Tlb,
}

// SAFETY: all functions that access the TLB require the caller to be the CPU's thread.
unsafe impl Sync for Mailbox {}

impl Mailbox {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the CPU online. Returns whether it was offline.
    pub(super) fn come(&self) -> bool {
        !std::mem::replace(&mut self.inbox().there, true)
    }

    /// Takes the CPU offline: flushes its TLB and acknowledges pending requests.
    ///
    /// # Safety
    /// The caller must be the CPU's thread.
    pub(super) unsafe fn go(&self) {
        self.tlb.flush_all();
        let mut inbox = self.inbox();
        inbox.there = false;
        if !is_mutant!("hosted_goes_unanswered") {
            // SAFETY: the caller is the CPU's thread.
            unsafe { self.answer_in(&mut inbox) };
        }
    }

    /// Flushes a space from the CPU's TLB, calls `leave` to remove the CPU from the space's active set, and
    /// acknowledges all pending requests. A requester that calls [`post`](Mailbox::post) after this call
    /// learns from `wants` that the CPU has left the set, and so posts no request.
    ///
    /// # Safety
    /// The caller must be the CPU's thread.
    pub(super) unsafe fn leave(&self, space: u64, leave: impl FnOnce()) {
        if !is_mutant!("hosted_leaves_knowing") {
            self.tlb.flush(space, Flush::All);
        }
        let mut inbox = self.inbox();
        leave();
        if !is_mutant!("hosted_leaves_unanswered") {
            // SAFETY: the caller is the CPU's thread.
            unsafe { self.answer_in(&mut inbox) };
        }
    }

    /// Posts a request, and returns whether the CPU will acknowledge it. An offline CPU gets no request.
    /// `wants` is called under the lock of the inbox, and returns whether the CPU still needs the request.
    ///
    /// # Safety
    /// If this function returns true, `answers` must stay valid until the CPU has incremented the counter.
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
            self.full.store(true, Relaxed);
        }
        is_posted
    }

    /// Handles pending requests.
    ///
    /// # Safety
    /// The caller must be the CPU's thread.
    #[inline]
    pub(super) unsafe fn handle_ipis(&self) {
        if self.full.load(Relaxed) {
            // SAFETY: the caller is the CPU's thread.
            unsafe { self.answer_all() };
        }
    }

    /// # Safety
    /// The caller must be the CPU's thread.
    #[cold]
    unsafe fn answer_all(&self) {
        // SAFETY: the caller is the CPU's thread.
        unsafe { self.answer_in(&mut self.inbox()) };
    }

    /// # Safety
    /// The caller must be the CPU's thread.
    unsafe fn answer_in(&self, inbox: &mut Inbox) {
        self.full.store(false, Relaxed);
        for Message { space, pages, answers } in inbox.messages.drain(..) {
            if !is_mutant!("hosted_answers_only") {
                self.tlb.flush(space, pages);
            }
            // SAFETY: the requester keeps the counter alive until it is incremented. Release: this CPU's
            // accesses through the flushed entries happen before the increment.
            unsafe { &*answers }.fetch_add(1, order!(Release, "hosted_answer"));
        }
    }

    /// Waits while `condition` is true, and handles requests from other CPUs meanwhile.
    ///
    /// # Safety
    /// The caller must be the CPU's thread.
    pub(super) unsafe fn wait_while(
        &self,
        platform: &impl Platform,
        mut condition: impl FnMut() -> bool,
    ) {
        platform.wait_while(|| {
            if !is_mutant!("hosted_waits_deaf") {
                // SAFETY: the caller is the CPU's thread.
                unsafe { self.handle_ipis() };
            }
            condition()
        });
    }

    /// Flushes `pages` of `space` from the CPU's TLB.
    ///
    /// # Safety
    /// The caller must be the CPU's thread.
    pub(super) unsafe fn flush(&self, space: u64, pages: Flush) {
        self.tlb.flush(space, pages);
    }

    /// Flushes the CPU's whole TLB.
    ///
    /// # Safety
    /// The caller must be the CPU's thread.
    pub(super) unsafe fn flush_all(&self) {
        self.tlb.flush_all();
    }

    /// # Safety
    /// The caller must be the CPU's thread.
    pub(super) unsafe fn tlb(&self) -> &Tlb {
        &self.tlb
    }
}

/// Flushes `pages` of `space` on the CPUs in `on`, and returns when all have acknowledged the request.
///
/// # Safety
/// The calling thread must be the thread of CPU `caller`.
pub(super) unsafe fn shoot_down(
    mailboxes: &[Mailbox],
    platform: &impl Platform,
    caller: usize,
    on: &CpuSet,
    space: u64,
    pages: Flush,
) {
    // Orders the change of the tables before the read of the set. Pairs with the fence in `CpuSet::add`.
    if !is_mutant!("hosted_unfenced") {
        fence(SeqCst);
    }
    let answers = AtomicU64::new(0);
    let mut asked = 0;
    for other in on.iter().filter(|&other| other != caller) {
        // SAFETY: the wait below keeps `answers` alive until all CPUs have acknowledged.
        let is_asked = unsafe {
            // The CPU may have left since `iter` read the set.
            mailboxes[other].post(space, pages, &answers, || on.contains(other))
        };
        asked += u64::from(is_asked);
    }
    if on.contains(caller) {
        // SAFETY: this is the thread of `caller`.
        unsafe { mailboxes[caller].flush(space, pages) };
    }
    // Acquire: accesses by other CPUs through the flushed entries happen before this load.
    let waits = || answers.load(order!(Acquire, "hosted_answered")) < asked;
    // SAFETY: this is the thread of `caller`.
    unsafe { mailboxes[caller].wait_while(platform, waits) };
}
