//! Runs two operations on two threads, one thread at a time. The second operation begins when the first
//! reaches a given point. While one operation waits, the other runs.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use knee_sync::Platform;
use knee_vm::hosted::Architecture;
use std::panic::resume_unwind;
use std::sync::atomic::{Ordering::SeqCst, fence};

use crate::machine::{Stepped, Waits};

/// The operation whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Turn {
    /// There is only one operation.
    Alone,
    /// The first operation, before the second has begun. The first operation passes this many more points. At
    /// the next point, the second operation begins.
    Before(u64),
    /// The first operation, after the second has begun.
    First,
    Second,
}

#[derive(Debug)]
struct State {
    turn: Turn,
    /// Number of turns since an operation last made progress.
    passes: u32,
    /// Number of operations that have ended.
    over: u32,
}

/// Lets two threads take turns.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

impl Default for Turns {
    fn default() -> Turns {
        let state = State { turn: Turn::Alone, passes: 0, over: 0 };
        Turns { state: Mutex::new(state), changed: Condvar::new() }
    }
}

/// After this many turns without progress, the operations count as deadlocked.
const MOST_PASSES: u32 = 1000;

/// A guard that each of the two threads holds. Dropping a guard marks the end of its thread's operation.
struct Part<'a> {
    turns: &'a Turns,
    other: Turn,
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.over += 1;
        state.turn = self.other;
        self.turns.changed.notify_all();
    }
}

/// A closure that runs on the second thread.
struct Sent<T>(T);

// SAFETY: the two threads that share a machine take turns, and pass the turn under a lock.
unsafe impl<T> Send for Sent<T> {}

impl<T: FnOnce()> Sent<T> {
    fn call(self) {
        (self.0)();
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wait_for(&self, turn: Turn) {
        let state = self.state();
        drop(self.changed.wait_while(state, |state| state.turn != turn));
    }

    /// Marks a point of the running operation at which the other operation may begin.
    pub(crate) fn point(&self) {
        let mut state = self.state();
        state.passes = 0;
        match state.turn {
            Turn::Before(0) => {
                state.turn = Turn::Second;
                self.changed.notify_all();
                drop(state);
                self.wait_for(Turn::First);
            }
            Turn::Before(points) => state.turn = Turn::Before(points - 1),
            _ => (),
        }
    }

    /// Called when the running operation must wait. If the other operation has begun, it runs next. Otherwise
    /// the running operation is abandoned.
    pub(crate) fn wait(&self) {
        let mut state = self.state();
        if matches!(state.turn, Turn::Alone | Turn::Before(_)) {
            resume_unwind(Box::new(Waits));
        }
        state.passes += 1;
        assert!(state.over == 0 && state.passes < MOST_PASSES, "the operation waits forever");
        self.pass_on(state);
    }

    /// Lets the other operation run if it has begun.
    pub(crate) fn pass(&self) {
        let state = self.state();
        if matches!(state.turn, Turn::First | Turn::Second) && state.over == 0 {
            self.pass_on(state);
        }
    }

    fn pass_on(&self, mut state: MutexGuard<'_, State>) {
        let own = state.turn;
        state.turn = if own == Turn::First { Turn::Second } else { Turn::First };
        self.changed.notify_all();
        drop(state);
        self.wait_for(own);
    }
}

/// Calls `work` once for each point of an operation at which another operation may begin. `work` calls its
/// argument with a machine and the two operations.
pub(crate) fn at_each_point<A: Architecture>(
    mut work: impl FnMut(&dyn Fn(&Stepped<A>, &mut dyn FnMut(), &mut dyn FnMut())),
) {
    let reached = std::cell::Cell::new(true);
    let mut point = 0;
    while reached.get() {
        work(&|machine, operation, others| reached.set(both(machine, point, operation, others)));
        point += 1;
    }
    assert!(point > 5, "the operation has only {point} points");
}

/// Runs both operations. Returns whether the first operation has reached this point.
fn both<A: Architecture>(
    machine: &Stepped<A>,
    point: u64,
    operation: &mut dyn FnMut(),
    others: &mut dyn FnMut(),
) -> bool {
    let turns = machine.turns();
    *turns.state() = State { turn: Turn::Before(point), passes: 0, over: 0 };
    let others = Sent(|| {
        turns.wait_for(Turn::Second);
        let _part = Part { turns, other: Turn::First };
        others();
    });
    let reached = thread::scope(|scope| {
        let second = scope.spawn(move || others.call());
        let reached = {
            let _part = Part { turns, other: Turn::Second };
            operation();
            !matches!(turns.state().turn, Turn::Before(_))
        };
        second.join().unwrap_or_else(|payload| resume_unwind(payload));
        reached
    });
    turns.state().turn = Turn::Alone;
    reached
}

/// The platform whose threads take turns.
pub(crate) struct InTurns(pub(crate) std::sync::Arc<Turns>);

// SAFETY: the platform is symmetric, and `heavy` executes a full fence.
unsafe impl Platform for InTurns {
    fn is_symmetric(&self) -> bool {
        true
    }

    fn heavy(&self) {
        fence(SeqCst);
    }

    fn relax(&self, _: u32) {
        self.0.wait();
    }

    fn now(&self) -> u64 {
        0
    }

    fn thread(&self) -> u64 {
        0
    }
}
