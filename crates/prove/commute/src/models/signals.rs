//! Signals to one process: standard ones, which are a bit each, and real-time ones, which queue.
//!
//! What is surprising: that standard signals get lost, the old complaint about them, is what lets
//! two `kill` commute whatever is pending: a bit that is set twice is set. A `sigqueue` loses
//! nothing and tells the order, and so two of them for one signal never commute, unless they carry
//! the same value. But a bit that can be lost makes `unblock` worse: it commutes with a `kill` of
//! the same signal only if that was not pending; if it was, one order runs the handler once and
//! the other one twice. And `sigwait_any`, which wants the lowest signal there is, has to look at
//! all of them, where `sigwait` looks at its own.
//!
//! There are two signals of each kind. Handlers only count; real-time signals are always blocked,
//! and waited for. Calls do not block.

use crate::{
    Call, Execution, Interface, Natural, Operation, Outcome, Part, Queue, State, Stop, Term, Truth,
};
use crate::{sort, state};

sort!(Payload);

/// What a handler has to be told of a standard signal, and whether it is now.
#[derive(Debug, Clone)]
struct Standard {
    blocked: Truth,
    /// Means something only while it is blocked: else it has been handled at once.
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
    /// Takes it if it is pending.
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
    /// The signals of a process, the lowest first.
    pub struct Signals {
        sigint: Standard,
        sigterm: Standard,
        rtmin: Queue<Term<Payload>>,
        rtmax: Queue<Term<Payload>>,
    }
}

/// The standard signal of the argument, and what it is called.
fn standard<'s>(
    state: &'s mut Signals,
    call: &mut Call<'_>,
) -> Result<(&'static str, &'s mut Standard), Stop> {
    Ok(match call.flag("signal is SIGINT")? {
        true => ("SIGINT", &mut state.sigint),
        false => ("SIGTERM", &mut state.sigterm),
    })
}

/// The real-time signal of the argument, and what it is called.
fn real_time<'s>(
    state: &'s mut Signals,
    call: &mut Call<'_>,
) -> Result<(&'static str, &'s mut Queue<Term<Payload>>), Stop> {
    Ok(match call.flag("signal is SIGRTMIN")? {
        true => ("SIGRTMIN", &mut state.rtmin),
        false => ("SIGRTMAX", &mut state.rtmax),
    })
}

/// What one who waits is told of a real-time signal.
fn front(
    (name, queue): (&'static str, &mut Queue<Term<Payload>>),
    call: &mut Call<'_>,
) -> Result<Option<Outcome>, Stop> {
    let front = queue.pop(call.execution)?;
    Ok(front.map(|payload| Outcome::of(name).and("value", payload)))
}

/// What is sent to a process, and what becomes of it.
pub fn signals() -> Interface<Signals> {
    Interface {
        name: "signals",
        about: "signals to one process: standard signals commute, queued real-time signals do not",
        operations: vec![
            Operation {
                name: "kill",
                about: "(standard signal): pending if blocked, otherwise its handler runs",
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
                about: "(real-time signal, value): queued behind the pending ones",
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
                about: "(standard signal): SIG_UNBLOCK; the handler runs if it was pending",
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
                    let told = |is: bool| if is { "pending" } else { "not pending" };
                    let has = |queue: &Queue<_>, execution: &mut Execution| {
                        execution.at_most(1, queue.length()).map(told)
                    };
                    Ok(Outcome::nothing()
                        .and("SIGINT", told(state.sigint.is_pending(call.execution)?))
                        .and("SIGTERM", told(state.sigterm.is_pending(call.execution)?))
                        .and("SIGRTMIN", has(&state.rtmin, call.execution)?)
                        .and("SIGRTMAX", has(&state.rtmax, call.execution)?))
                },
            },
            Operation {
                name: "sigwait",
                about: "(signal): takes it if it is pending (sigtimedwait without a wait)",
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
                    if let Some(told) = front(("SIGRTMIN", &mut state.rtmin), call)? {
                        return Ok(told);
                    }
                    let last = front(("SIGRTMAX", &mut state.rtmax), call)?;
                    Ok(last.unwrap_or(Outcome::of("EAGAIN")))
                },
            },
        ],
        ..Interface::default()
    }
}
