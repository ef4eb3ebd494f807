//! `crossbeam_queue::SegQueue`, an unbounded queue without locks, and a model of such a queue.

use std::process::ExitCode;

use crossbeam_queue::SegQueue;
use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Interface, Model, Operation, Outcome, Queue, Term, sort, state};

sort!(Message);

state! {
    /// The waiting messages: first in, first out.
    struct Line {
        waiting: Queue<Term<Message>>,
    }
}

/// A producer and a consumer commute unless the queue is empty. Two producers commute only if their
/// messages are equal. Two consumers commute only if the first two messages are equal or the queue
/// is empty.
fn endless_queue() -> Interface<Line> {
    Interface {
        name: "endless_queue",
        about: "an unbounded queue: producers and consumers commute unless the queue is empty",
        operations: vec![
            Operation {
                name: "push",
                about: "(message)",
                apply: |state, call| {
                    state.waiting.push(call.term("message"));
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "pop",
                about: "(): the first message",
                apply: |state, call| {
                    let front = state.waiting.pop(call.execution)?;
                    Ok(front.map_or(Outcome::of("empty"), Outcome::of))
                },
            },
        ],
        ..Interface::default()
    }
}

struct Segments(SegQueue<u64>);

impl Binding for Segments {
    fn model() -> impl Model {
        endless_queue()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        let queue = SegQueue::new();
        setup.sequence("waiting").into_iter().for_each(|message| queue.push(message));
        Self(queue)
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let message = call.name("message");
        Some(match call.operation() {
            "push" => Box::new(move || {
                self.0.push(message);
                Returned::Nothing
            }),
            "pop" => Box::new(|| Returned::name_or(self.0.pop(), "empty")),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Segments>()
}
