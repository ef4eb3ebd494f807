//! `knee_sync::invalidation`: threads that invalidate batches, and threads that wait for the
//! batches.

use std::cell::RefCell;
use std::process::ExitCode;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Model, models::independent::independent};
use knee_sync::System;
use knee_sync::invalidation::{Member, Stamp, Tracker};

const OPERATIONS: &[(&str, &str)] = &[
    ("begin", "(): begins and finishes a section"),
    ("mark_own", "(): marks the thread's own stamp in a section"),
    ("mark_shared", "(): marks a shared stamp in a section, without the stamp's lock"),
    ("wait_own", "(): waits for the sections that marked the thread's own stamp"),
    ("wait_shared", "(): waits for the sections that marked the shared stamp"),
    ("register", "(): registers and unregisters the thread"),
];

/// A member and a stamp, on cache lines of their own.
#[repr(align(128))]
struct Own {
    member: RefCell<Member<'static>>,
    stamp: Stamp,
}

/// A stamp on cache lines of its own.
#[repr(align(128))]
struct Shared(Stamp);

struct Bound {
    tracker: &'static Tracker<System>,
    own: [Own; 2],
    shared: Box<Shared>,
}

// SAFETY: each member is used only by the calls of one thread, and by the main thread while no
// thread makes a call.
unsafe impl Sync for Bound {}

impl Binding for Bound {
    fn model() -> impl Model {
        let about = "threads that invalidate, and threads that wait for the invalidations";
        independent("invalidation", about, OPERATIONS)
    }

    fn set_up(_: &Setup<'_>) -> Self {
        let tracker: &'static Tracker<System> = Box::leak(Box::new(Tracker::new()));
        let own = || Own { member: RefCell::new(tracker.register()), stamp: Stamp::new() };
        let own = std::array::from_fn(|_| own());
        // Leave a free slot for the next thread that registers.
        drop(tracker.register());
        Self { tracker, own, shared: Box::new(Shared(Stamp::new())) }
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let (tracker, own) = (self.tracker, &self.own[call.thread()]);
        let mark = move |stamp: Option<&Stamp>| {
            let mut member = own.member.borrow_mut();
            let section = member.begin();
            stamp.into_iter().for_each(|stamp| section.mark(stamp));
            section.finish();
        };
        let (shared, private) = (&self.shared.0, &own.stamp);
        let operation: Box<dyn Fn() + '_> = match call.operation() {
            "begin" => Box::new(move || mark(None)),
            "mark_own" => Box::new(move || mark(Some(private))),
            "mark_shared" => Box::new(move || mark(Some(shared))),
            "wait_own" => Box::new(move || tracker.wait(private)),
            "wait_shared" => Box::new(move || tracker.wait(shared)),
            "register" => Box::new(move || drop(tracker.register())),
            _ => return None,
        };
        Some(Box::new(move || {
            operation();
            Returned::Nothing
        }))
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Bound>()
}
