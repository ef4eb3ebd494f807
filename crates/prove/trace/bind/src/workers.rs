//! Threads that make calls. The first thread makes the first call of every test, and the second
//! thread makes the second call. So each thread makes many calls, as in most programs.
//!
//! The threads receive calls and send replies while no window is open. The main thread allocates
//! the data of a test, and no other thread frees this data. Otherwise the allocator would move
//! memory between the caches of two threads.

use std::any::Any;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use knee_commute::Test;
use knee_marks::Mark;

use crate::calibration::{self, Kind};
use crate::{Action, Binding, Call, Returned, cpu};

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The call returned.
    Returned(Returned),
    /// The call panicked.
    Panicked(String),
    /// The call was not made: the binding does not have the operation, or cannot read its
    /// arguments.
    NotPrepared(String),
}

impl Display for Reply {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned(returned) => returned.fmt(f),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::NotPrepared(why) => f.write_str(why),
        }
    }
}

/// A call to make.
struct Job<B> {
    binding: Arc<B>,
    test: Arc<Test>,
    nr: usize,
}

enum Turn<B> {
    Idle,
    /// The thread has started. The value is an address in the thread's stack, or the error with which the
    /// thread failed to move to its CPU.
    Ready(io::Result<u64>),
    Try(Kind),
    Make(Job<B>),
    Made(Reply),
}

struct Slot<B> {
    turn: Mutex<Turn<B>>,
    changed: Condvar,
}

impl<B> Slot<B> {
    /// Waits until `take` accepts the slot's content, and returns the result of `take`. The slot is
    /// idle afterwards.
    fn exchange<T>(&self, take: impl Fn(Turn<B>) -> Result<T, Turn<B>>) -> T {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match take(std::mem::replace(&mut *turn, Turn::Idle)) {
                Ok(taken) => return taken,
                Err(other) => *turn = other,
            }
            turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put(&self, turn: Turn<B>) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
        self.changed.notify_one();
    }
}

/// The threads, which end with the process.
pub(crate) struct Workers<B>(Vec<Worker<B>>);

struct Worker<B> {
    slot: Arc<Slot<B>>,
    stack: u64,
}

impl<B> Worker<B> {
    fn request(&self, turn: Turn<B>) -> Reply {
        self.slot.put(turn);
        self.slot.exchange(|turn| match turn {
            Turn::Made(reply) => Ok(reply),
            other => Err(other),
        })
    }
}

impl<B: Binding> Workers<B> {
    /// Starts `calls` threads one after the other, so that what a thread allocates at its start has the same
    /// addresses in every process.
    pub(crate) fn start(calls: usize) -> io::Result<Self> {
        let start = |nr| {
            let slot = Arc::new(Slot { turn: Mutex::new(Turn::Idle), changed: Condvar::new() });
            let own = Arc::clone(&slot);
            thread::Builder::new().spawn(move || work(nr, &own))?;
            let ready = slot.exchange(|turn| match turn {
                Turn::Ready(stack) => Ok(stack),
                other => Err(other),
            });
            Ok(Worker { slot, stack: ready? })
        };
        (0..calls).map(start).collect::<io::Result<_>>().map(Self)
    }

    /// Returns an address in the stack of each thread.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|worker| worker.stack)
    }

    /// Makes call `nr` of a test on its thread, and waits for the reply.
    pub(crate) fn make(&self, binding: &Arc<B>, test: &Arc<Test>, nr: usize) -> Reply {
        let job = Job { binding: Arc::clone(binding), test: Arc::clone(test), nr };
        self.0[nr].request(Turn::Make(job))
    }

    /// Makes thread `nr` do its part of a trial, and waits until the thread has finished.
    pub(crate) fn try_out(&self, kind: Kind, nr: usize) {
        // A trial cannot fail, so the reply contains nothing.
        let _ = self.0[nr].request(Turn::Try(kind));
    }
}

fn work<B: Binding>(nr: usize, slot: &Slot<B>) {
    let here = 0_u8;
    let stack = (&raw const here).expose_provenance() as u64;
    slot.put(Turn::Ready(cpu::go_to(nr).map(|()| stack)));
    loop {
        let job = slot.exchange(|turn| match turn {
            Turn::Make(job) => Ok(Ok(job)),
            Turn::Try(kind) => Ok(Err(kind)),
            other => Err(other),
        });
        let job = match job {
            Ok(job) => job,
            Err(kind) => {
                calibration::window(kind, nr);
                slot.put(Turn::Made(Reply::Returned(Returned::Nothing)));
                continue;
            }
        };
        let reply = make(&*job.binding, &job.test, job.nr);
        // This frees nothing, because the main thread keeps references: see the head of this file.
        drop(job);
        slot.put(Turn::Made(reply));
    }
}

fn make<B: Binding>(binding: &B, test: &Test, nr: usize) -> Reply {
    let call = Call(&test.calls[nr]);
    let prepared = catch_unwind(AssertUnwindSafe(|| binding.prepare(&call)));
    let mut action = match prepared {
        Ok(Some(action)) => action,
        Ok(None) => {
            let why = format!("the binding has no operation {}", call.operation());
            return Reply::NotPrepared(why);
        }
        Err(panic) => return Reply::NotPrepared(message(&*panic)),
    };
    let side = nr as u8;
    match catch_unwind(AssertUnwindSafe(|| window(side, &mut action))) {
        Ok(returned) => Reply::Returned(returned),
        Err(panic) => {
            Mark::Close(side).emit();
            Reply::Panicked(message(&*panic))
        }
    }
}

/// Opens the side's window, makes the call, and closes the window. This function is not inlined, so that each
/// mark occurs only once in the code.
#[inline(never)]
fn window(side: u8, action: &mut Action<'_>) -> Returned {
    Mark::Open(side).emit();
    let returned = action();
    Mark::Close(side).emit();
    returned
}

/// Returns the message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "the binding panicked without a message".to_owned())
}
