//! `knee_sync::epoch`, and the fences that it uses. Threads enter sections, and retire objects of their own.
//!
//! No section is open when a call begins, so that no call waits for another thread.

use std::cell::RefCell;
use std::process::ExitCode;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::time::Duration;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Model, models::independent::independent};
use knee_sync::epoch::{Domain, Entry, Handle, Protect, QsbrHandle};
use knee_sync::{Platform, System};

const OPERATIONS: &[(&str, &str)] = &[
    ("pin", "(): begins and ends a section"),
    ("pin_twice", "(): begins and ends a section with another section inside"),
    ("refresh", "(): ends a section and begins another"),
    ("load", "(): loads a pointer that both threads load, in a section"),
    ("section", "(): begins and ends a section that may be sent to another thread"),
    ("quiescent", "(): reports a quiescent state"),
    ("offline", "(): goes offline and online again"),
    ("retire", "(): retires an object"),
    ("retire_entry", "(): retires an object that contains its entry"),
    ("retire_full", "(): retires enough objects to fill the thread's bag twice"),
    ("replace", "(): replaces a value of the thread's own"),
    ("defer", "(): defers a call"),
    ("reclaim", "(): tries to free 32 retired objects"),
    ("synchronize", "(): waits for a grace period"),
    ("cookie", "(): a cookie for the current point in time"),
    ("poll", "(): checks a grace period that is over"),
    ("barrier", "(): waits until all retired objects are freed"),
    ("register", "(): registers and unregisters"),
    ("garbage", "(): the approximate number of retired objects"),
    ("stalls", "(): lists the sections that have lasted long"),
    ("set_scan_backoff", "(): sets the pause between scans"),
    ("heavy", "(): the fence of reclaimers"),
    ("light", "(): the fence of readers, and the time"),
];

/// The number of objects that fill a bag.
const BAG: usize = 64;

/// The number of threads that make calls.
const THREADS: usize = 2;

/// The handles and the pointer of a thread, on cache lines of their own.
#[repr(align(128))]
struct Own {
    handle: Handle<'static, System>,
    qsbr: RefCell<QsbrHandle<'static, System>>,
    value: AtomicPtr<u64>,
}

struct Threads {
    domain: &'static Domain<System>,
    own: [Own; THREADS],
    shared: AtomicPtr<u64>,
}

// SAFETY: each handle is used only by the calls of one thread, and by the main thread while no
// thread makes a call.
unsafe impl Send for Threads {}
// SAFETY: as above.
unsafe impl Sync for Threads {}

/// An object on cache lines of its own, whatever the allocator does.
#[repr(align(128))]
struct Line {
    _entry: Entry,
}

// SAFETY: an entry is not bound to a thread before the entry is retired.
unsafe impl Send for Line {}

/// An object for a thread to retire.
fn object() -> *mut Line {
    Box::into_raw(Box::new(Line { _entry: Entry::new() }))
}

unsafe fn free(entry: NonNull<Entry>) {
    // SAFETY: the entry is the only field of its object, which came from a box. The object is freed only
    // once.
    drop(unsafe { Box::from_raw(entry.as_ptr().cast::<Line>()) });
}

/// Retires objects.
fn retire(handle: &Handle<'_, System>, count: usize) {
    let guard = handle.pin();
    // SAFETY: no thread can find the object, and it is retired once.
    (0..count).for_each(|_| unsafe { guard.retire(object()) });
}

impl Binding for Threads {
    fn model() -> impl Model {
        let about = "threads that enter sections and retire objects of their own";
        independent("epoch", about, OPERATIONS)
    }

    fn set_up(_: &Setup<'_>) -> Self {
        let domain: &'static Domain<System> = Box::leak(Box::new(Domain::new(System::detect())));
        // A thread with a QSBR handle is always in a section. So these handles have their own
        // domain: grace periods of the first domain do not wait for them.
        let always: &'static Domain<System> = Box::leak(Box::new(Domain::new(System::detect())));
        let own = || Own {
            handle: domain.register(),
            qsbr: RefCell::new(QsbrHandle::new(always.register())),
            value: AtomicPtr::new(Box::leak(Box::new(0))),
        };
        let own: [Own; THREADS] = std::array::from_fn(|_| own());
        for own in &own {
            retire(&own.handle, 2 * BAG);
            own.handle.reclaim();
        }
        // Each handle remembers the record of its last section. The sections overlap, so the
        // handles have different records.
        let _sections = own.each_ref().map(|own| own.handle.section());
        Self { domain, own, shared: AtomicPtr::new(Box::leak(Box::new(1))) }
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        /// An action whose result the model ignores.
        fn does<'a, T>(mut call: impl FnMut() -> T + 'a) -> Option<Action<'a>> {
            Some(Box::new(move || {
                call();
                Returned::Nothing
            }))
        }
        let (domain, shared) = (self.domain, &self.shared);
        let Own { handle, qsbr, value } = &self.own[call.thread()];
        let own = AtomicPtr::new(object());
        match call.operation() {
            "pin" => does(|| handle.pin()),
            "pin_twice" => does(|| (handle.pin(), handle.pin())),
            "refresh" => does(|| handle.pin().refresh()),
            // SAFETY: the value is never freed.
            "load" => does(|| unsafe { handle.pin().load(shared).copied() }),
            "section" => does(|| handle.section()),
            "quiescent" => does(|| qsbr.borrow_mut().quiescent()),
            "offline" => does(|| qsbr.borrow_mut().offline(|| ())),
            // SAFETY: no thread can find the object, and the action runs once.
            "retire" => does(move || unsafe { handle.pin().retire(own.load(Relaxed)) }),
            "retire_entry" => does(move || {
                let entry = NonNull::new(own.load(Relaxed).cast::<Entry>()).unwrap();
                // SAFETY: no thread can find the object, and the action runs once.
                unsafe { handle.pin().retire_entry(entry, free) }
            }),
            "retire_full" => does(|| retire(handle, 2 * BAG)),
            "replace" => does(move || {
                let new = Some(Box::new(2));
                // SAFETY: the pointer came from a box, and only this thread uses it.
                unsafe { handle.pin().replace(value, new).copied() }
            }),
            "defer" => does(|| handle.pin().defer(|| ())),
            "reclaim" => {
                retire(handle, BAG / 2);
                does(|| handle.reclaim())
            }
            "synchronize" => does(|| handle.synchronize()),
            "cookie" => does(|| domain.cookie()),
            "poll" => {
                let cookie = domain.cookie();
                domain.wait(cookie);
                does(move || assert!(domain.poll(cookie)))
            }
            "barrier" => does(|| domain.barrier()),
            "register" => does(|| domain.register()),
            "garbage" => does(|| domain.garbage()),
            "stalls" => does(|| domain.stalls(Duration::from_secs(1)).count()),
            "set_scan_backoff" => does(|| domain.set_scan_backoff(16)),
            "heavy" => does(|| domain.platform().heavy()),
            "light" => does(|| {
                domain.platform().light();
                domain.platform().now()
            }),
            _ => None,
        }
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Threads>()
}
