//! Signals to one process: standard signals, which are one bit each, and real-time signals, which
//! queue.
//!
//! Two `kill` calls commute, whatever signals are pending, because standard signals can be lost: setting a
//! bit twice has the same effect as setting it once. `sigqueue` loses no signal and keeps the order, so two
//! `sigqueue` calls with one signal commute only if they carry the same value. Losing signals has a cost,
//! too: `unblock` does not commute with a `kill` of the same signal if that signal was already pending,
//! because the handler runs once in one order and twice in the other. `sigwait_any` takes the lowest pending
//! signal, so it depends on all signals, whereas `sigwait` depends on one signal.
//!
//! There are two signals of each kind. A handler only counts its calls. Real-time signals are always blocked,
//! and a process takes them with `sigwait` or `sigwait_any`, which fail with EAGAIN if no signal is pending.

use crate::{
    Call, Execution, Interface, Natural, Operation, Outcome, Part, Queue, State, Stop, Term, Truth,
};
use crate::{sort, state};

sort!(Payload);

/// The state of a standard signal.
#[derive(Debug, Clone)]
struct Standard {
    blocked: Truth,
    /// Whether the signal is pending. This flag matters only while the signal is blocked, because a
    /// signal that is not blocked is handled at once.
    pending: Truth,
    handled: Natural,
}

impl State for Standard {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self {
            blocked: Truth::unknown(execution, &format!("{label} is blocked")),
            pending: Truth::unknown(execution, &format!("{label} is pending")),
            handled: Natural::unknown(execution, &format!("{label}.handled")),
        }
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        let (blocked, pending) =
            (["it blocked", "it unblocked"], ["it pending", "nothing pending"]);
        Ok(self.blocked.same_in_words(&other.blocked, blocked, execution)?
            && (!self.blocked.ask(execution)?
                || self.pending.same_in_words(&other.pending, pending, execution)?)
            && self.handled.same(&other.handled, execution)?)
    }

    fn show(&self, execution: &Execution) -> String {
        self.pending.show(execution)
    }

    fn part(&self, execution: &mut Execution) -> Part {
        Part::Fields(vec![
            ("blocked", self.blocked.part(execution)),
            ("pending", self.pending.part(execution)),
            ("handled", self.handled.part(execution)),
        ])
    }
}

impl Standard {
    /// Takes the signal if it is pending, and returns whether it was pending.
    fn take(&mut self, execution: &mut Execution) -> Result<bool, Stop> {
        let taken = self.is_pending(execution)?;
        if taken {
            self.pending = Truth::Known(false);
        }
        Ok(taken)
    }

    fn is_pending(&self, execution: &mut Execution) -> Result<bool, Stop> {
        Ok(self.blocked.ask(execution)? && self.pending.ask(execution)?)
    }

    fn handle(&mut self) {
        self.handled.0 = self.handled.0 + 1;
    }
}

state! {
    /// The signals of a process, the lowest signal first.
    pub struct Signals {
        sigint: Standard,
        sigterm: Standard,
        rtmin: Queue<Term<Payload>>,
        rtmax: Queue<Term<Payload>>,
    }
}

/// Returns the standard signal that the argument selects, and the name of the signal.
fn standard<'s>(
    state: &'s mut Signals,
    call: &mut Call<'_>,
) -> Result<(&'static str, &'s mut Standard), Stop> {
    Ok(match call.flag("signal is SIGINT")? {
        true => ("SIGINT", &mut state.sigint),
        false => ("SIGTERM", &mut state.sigterm),
    })
}

/// Returns the real-time signal that the argument selects, and the name of the signal.
fn real_time<'s>(
    state: &'s mut Signals,
    call: &mut Call<'_>,
) -> Result<(&'static str, &'s mut Queue<Term<Payload>>), Stop> {
    Ok(match call.flag("signal is SIGRTMIN")? {
        true => ("SIGRTMIN", &mut state.rtmin),
        false => ("SIGRTMAX", &mut state.rtmax),
    })
}

/// Takes the first pending instance of a real-time signal, and returns it as the result of a wait.
fn front(
    (name, queue): (&'static str, &mut Queue<Term<Payload>>),
    call: &mut Call<'_>,
) -> Result<Option<Outcome>, Stop> {
    let front = queue.pop(call.execution)?;
    Ok(front.map(|payload| Outcome::of(name).and("value", payload)))
}

/// Sending, blocking and waiting for signals.
pub fn signals() -> Interface<Signals> {
    Interface {
        name: "signals",
        about: "signals to one process: standard signals commute, queued real-time signals do not",
        operations: vec![
            Operation {
                name: "kill",
                about: "(standard signal): makes it pending if it is blocked, otherwise runs its handler",
                apply: |state, call| {
                    let (_, signal) = standard(state, call)?;
                    if signal.blocked.ask(call.execution)? {
                        signal.pending = Truth::Known(true);
                    } else {
                        signal.handle();
                    }
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "sigqueue",
                about: "(real-time signal, value): queues it behind the pending signals",
                apply: |state, call| {
                    let (_, queue) = real_time(state, call)?;
                    queue.push(call.term("value"));
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "block",
                about: "(standard signal): SIG_BLOCK of sigprocmask",
                apply: |state, call| {
                    let (_, signal) = standard(state, call)?;
                    if !signal.blocked.ask(call.execution)? {
                        signal.blocked = Truth::Known(true);
                        signal.pending = Truth::Known(false);
                    }
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "unblock",
                about: "(standard signal): SIG_UNBLOCK; runs the handler if the signal was pending",
                apply: |state, call| {
                    let (_, signal) = standard(state, call)?;
                    if signal.take(call.execution)? {
                        signal.handle();
                    }
                    signal.blocked = Truth::Known(false);
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "sigpending",
                about: "(): for each signal, whether it is pending",
                apply: |state, call| {
                    let text = |is: bool| if is { "pending" } else { "not pending" };
                    let has = |queue: &Queue<_>, execution: &mut Execution| {
                        execution.at_most(1, queue.length()).map(text)
                    };
                    Ok(Outcome::nothing()
                        .and("SIGINT", text(state.sigint.is_pending(call.execution)?))
                        .and("SIGTERM", text(state.sigterm.is_pending(call.execution)?))
                        .and("SIGRTMIN", has(&state.rtmin, call.execution)?)
                        .and("SIGRTMAX", has(&state.rtmax, call.execution)?))
                },
            },
            Operation {
                name: "sigwait",
                about: "(signal): takes it if it is pending (sigtimedwait with a timeout of 0)",
                apply: |state, call| {
                    if call.flag("signal is standard")? {
                        let (name, signal) = standard(state, call)?;
                        let taken = signal.take(call.execution)?;
                        return Ok(Outcome::of(if taken { name } else { "EAGAIN" }));
                    }
                    let signal = real_time(state, call)?;
                    Ok(front(signal, call)?.unwrap_or(Outcome::of("EAGAIN")))
                },
            },
            Operation {
                name: "sigwait_any",
                about: "(): takes the lowest pending signal",
                apply: |state, call| {
                    if state.sigint.take(call.execution)? {
                        return Ok(Outcome::of("SIGINT"));
                    }
                    if state.sigterm.take(call.execution)? {
                        return Ok(Outcome::of("SIGTERM"));
                    }
                    if let Some(outcome) = front(("SIGRTMIN", &mut state.rtmin), call)? {
                        return Ok(outcome);
                    }
                    let last = front(("SIGRTMAX", &mut state.rtmax), call)?;
                    Ok(last.unwrap_or(Outcome::of("EAGAIN")))
                },
            },
        ],
        ..Interface::default()
    }
}
