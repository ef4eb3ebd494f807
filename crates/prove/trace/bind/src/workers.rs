//! Threads that make calls. The first thread makes the first call of every test, and the second
//! thread makes the second call. So each thread makes many calls, as in most programs.
//!
//! The threads receive calls and send replies while no window is open. The main thread allocates
//! the data of a test, and no other thread frees this data. Otherwise the allocator would move
//! memory between the caches of two threads.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use knee_commute::Test;
use knee_marks::Mark;

use crate::calibration::{self, Kind};
use crate::making::{in_window, prepare};
use crate::repeated::Repeated;
use crate::reply::Reply;
use crate::{Action, Binding, Returned, cpu};

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
    Iterate(Arc<Repeated<B>>, u32),
    /// Run and time iterations, for at most this many seconds and this many iterations.
    Time(Arc<Repeated<B>>, f64, u64),
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
        self.reply()
    }

    fn reply(&self) -> Reply {
        self.slot.exchange(|turn| match turn {
            Turn::Made(reply) => Ok(reply),
            other => Err(other),
        })
    }
}

impl<B: Binding> Workers<B> {
    /// Starts `calls` threads one after the other, so that the memory that a thread allocates at its start
    /// has the same addresses in every process.
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

    /// Makes thread `nr` run its iteration of a round, and waits for the reply.
    pub(crate) fn iterate(&self, of: &Arc<Repeated<B>>, nr: usize, round: u32) -> Reply {
        self.0[nr].request(Turn::Iterate(Arc::clone(of), round))
    }

    /// Makes all threads run iterations at the same time, each for `seconds` seconds but at most `most`
    /// iterations. Waits for the replies.
    pub(crate) fn time(&self, of: &Arc<Repeated<B>>, seconds: f64, most: u64) -> Vec<Reply> {
        let workers = &self.0[..of.repeat.threads.len()];
        let start = |worker: &Worker<B>| worker.slot.put(Turn::Time(Arc::clone(of), seconds, most));
        workers.iter().for_each(start);
        workers.iter().map(Worker::reply).collect()
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
        let turn = slot.exchange(|turn| match turn {
            Turn::Idle | Turn::Ready(_) | Turn::Made(_) => Err(turn),
            turn => Ok(turn),
        });
        // Dropping a job frees nothing, because the main thread keeps references: see the head of this file.
        let reply = match &turn {
            Turn::Make(job) => {
                make(&*job.binding, &job.test, job.nr).unwrap_or_else(|failed| failed)
            }
            Turn::Iterate(of, round) => of.iterate(nr, *round),
            Turn::Time(of, seconds, most) => of.time(nr, *seconds, *most),
            Turn::Try(kind) => {
                calibration::window(*kind, nr);
                Reply::Returned(Returned::Nothing)
            }
            Turn::Idle | Turn::Ready(_) | Turn::Made(_) => continue,
        };
        drop(turn);
        slot.put(Turn::Made(reply));
    }
}

fn make<B: Binding>(binding: &B, test: &Test, nr: usize) -> Result<Reply, Reply> {
    let mut action = prepare(binding, &test.calls[nr])?;
    let side = nr as u8;
    in_window(side, || window(side, &mut action)).map(Reply::Returned)
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
