//! Two operations of which one comes in while the other one is at a certain point, each on a thread of its own:
//! only one of them runs at a time, and the other one goes on where it has to wait.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use knee_sync::Platform;
use knee_vm::hosted::Architecture;
use std::panic::resume_unwind;
use std::sync::atomic::{Ordering::SeqCst, fence};

use crate::machine::{Stepped, Waits};

/// Who goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Turn {
    /// There is nobody else.
    Alone,
    /// Who began, before so many points have passed.
    Before(u64),
    /// The same, after the other one has come in.
    First,
    Second,
}

#[derive(Debug)]
struct State {
    turn: Turn,
    /// How often turns were passed on since somebody got any further.
    passes: u32,
    /// Those that are over.
    over: u32,
}

/// Who goes on, and who waits.
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

/// Both wait for each other if they get no further after so many turns.
const MOST_PASSES: u32 = 1000;

/// What one of the two has, who is over when it goes.
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

/// One of two, of which one runs.
struct Sent<T>(T);

// SAFETY: threads that have parts of one machine run in turns, and who passes his on has a lock then.
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

    /// Somebody is at a point where another may come in.
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

    /// Somebody waits: the other one goes on, or the operation is abandoned.
    pub(crate) fn wait(&self) {
        let mut state = self.state();
        if matches!(state.turn, Turn::Alone | Turn::Before(_)) {
            resume_unwind(Box::new(Waits));
        }
        state.passes += 1;
        assert!(state.over == 0 && state.passes < MOST_PASSES, "nobody goes on");
        self.pass_on(state);
    }

    /// The other one may go on, if he has come in and waits.
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

/// Does `work` for each point of an operation at which others may come in: it calls what it is given with that
/// operation and with what the others do.
pub(crate) fn at_each_point<A: Architecture>(
    mut work: impl FnMut(&dyn Fn(&Stepped<A>, &mut dyn FnMut(), &mut dyn FnMut())),
) {
    let reached = std::cell::Cell::new(true);
    let mut point = 0;
    while reached.get() {
        work(&|machine, operation, others| reached.set(both(machine, point, operation, others)));
        point += 1;
    }
    assert!(point > 5, "there are points in any operation");
}

/// Runs both. Whether the operation has as many points.
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

/// The platform of threads that run in turns.
pub(crate) struct InTurns(pub(crate) std::sync::Arc<Turns>);

// SAFETY: it is symmetric, and its fence is a full one.
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
