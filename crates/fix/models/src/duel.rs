//! A reader and a writer that race in many rounds, and the errors that they detect.

use std::process::ExitCode;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

/// The number of objects in a [`Pool`]. The writer makes each object the current one in turn.
const OBJECTS: usize = 64;
/// The number of stores before each read. Today's store buffers have 56 to 72 entries, so these stores occupy
/// most of the buffer for a while.
const STORES: usize = 40;
/// The number of lines in a table that is too large for any cache.
const LINES: usize = 1 << 20;

/// Two threads that run until one of them detects an error or the time is up.
pub struct Duel {
    end: Instant,
    over: AtomicBool,
    bad: AtomicBool,
    rounds: AtomicU64,
}

#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

impl Duel {
    /// A duel that ends no later than this many seconds from now.
    pub fn of_seconds(seconds: f64) -> Duel {
        Duel {
            end: Instant::now() + Duration::from_secs_f64(seconds),
            over: AtomicBool::new(false),
            bad: AtomicBool::new(false),
            rounds: AtomicU64::new(0),
        }
    }

    /// Prints the number of rounds. Returns `FAILURE` if either thread has detected an error.
    pub fn outcome(&self, mode: &str) -> ExitCode {
        println!("{mode}: {} rounds", self.rounds.load(Relaxed));
        if self.bad.load(Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Runs both threads.
    pub fn fight(&self, reader: impl FnOnce() + Send, writer: impl FnOnce() + Send) {
        thread::scope(|scope| {
            scope.spawn(reader);
            scope.spawn(writer);
            while !self.is_over() && Instant::now() < self.end {
                thread::sleep(Duration::from_millis(10));
            }
            self.over.store(true, Relaxed);
        });
    }

    /// Returns whether a thread has detected an error or the time is up.
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// If `is_bad` is true, reports an error and ends the duel.
    pub fn object(&self, is_bad: bool) {
        if is_bad {
            self.bad.store(true, Relaxed);
            self.over.store(true, Relaxed);
        }
    }

    /// Calls `read` repeatedly, each time with many stores in the store buffer. The argument tells `read` how
    /// many times to check an object. This number varies, so that the writer sometimes overtakes `read`.
    pub fn read(&self, mut read: impl FnMut(u64)) {
        let cold: Vec<Line> = (0..LINES).map(|_| Line::default()).collect();
        let (mut rounds, mut at) = (0_u64, 1_usize);
        while !self.is_over() {
            for _ in 0..STORES {
                at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                cold[at >> 32 & (LINES - 1)].0.store(rounds, Relaxed);
            }
            // Keeps the compiler from removing the stores.
            std::hint::black_box(&cold);
            read(rounds % 16);
            rounds += 1;
            self.rounds.store(rounds, Release);
        }
    }

    /// Waits until the reader has completed `rounds` more rounds.
    pub fn wait_for_rounds(&self, rounds: u64) {
        let before = self.rounds.load(Relaxed);
        while self.rounds.load(Acquire) < before + rounds && !self.is_over() {
            std::hint::spin_loop();
        }
    }

    /// Calls `is_bad` repeatedly (`checks` times), and reports an error if one of these calls returns true.
    pub fn check(&self, checks: u64, is_bad: impl Fn() -> bool) {
        for _ in 0..checks {
            std::hint::spin_loop();
            self.object(is_bad());
        }
    }
}

/// An object of a [`Pool`]. Readers find it while it is the current object.
pub struct Object {
    /// Whether the object is freed. Readers must not find a freed object.
    pub freed: AtomicBool,
}

/// A set of objects, of which readers find only the current object.
pub struct Pool {
    objects: Vec<Object>,
    /// The object that readers find.
    pub current: AtomicPtr<Object>,
}

impl Pool {
    /// A pool with one current object. All other objects are free.
    #[allow(clippy::new_without_default, reason = "nothing needs a default")]
    pub fn new() -> Pool {
        let objects: Vec<_> =
            (0..OBJECTS).map(|_| Object { freed: AtomicBool::new(true) }).collect();
        let first = &objects[0];
        first.freed.store(false, Relaxed);
        Pool { current: AtomicPtr::new(std::ptr::from_ref(first).cast_mut()), objects }
    }

    /// Finds the current object.
    pub fn find(&self) -> &Object {
        // SAFETY: the pointer points to an object of the pool.
        unsafe { &*self.current.load(Acquire) }
    }

    /// Replaces the current object with each free object in turn, and passes each old object to `free`.
    pub fn replace(&self, duel: &Duel, mut free: impl FnMut(&Object)) {
        for object in self.objects.iter().cycle() {
            if duel.is_over() {
                return;
            }
            if object.freed.load(Relaxed) {
                object.freed.store(false, Relaxed);
                let old = self.current.swap(std::ptr::from_ref(object).cast_mut(), Release);
                // SAFETY: the pointer points to an object of the pool.
                free(unsafe { &*old });
            }
        }
    }
}
