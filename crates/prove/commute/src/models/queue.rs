//! A bounded queue: producers and consumers commute unless the queue is full or empty.

use crate::{Interface, Operation, Outcome, Queue, Term, sort, state};

sort!(Message);

/// The capacity of the queue.
const ROOM: i64 = 2;

state! {
    /// A first-in, first-out queue.
    pub struct Mailbox {
        mail: Queue<Term<Message>>,
    }
}

/// A producer and a consumer commute while the queue is neither empty nor full. Two producers
/// commute only if the queue is full, or if it has room for both messages and the messages are
/// equal.
pub fn queue() -> Interface<Mailbox> {
    Interface {
        name: "queue",
        about: "a queue with room for two: producers and consumers commute unless it is full or empty",
        invariant: |state, execution| execution.assume_at_most(state.mail.length(), ROOM),
        operations: vec![
            Operation {
                name: "push",
                about: "(message): appends it unless the queue is full",
                apply: |state, call| {
                    if call.execution.at_most(ROOM, state.mail.length())? {
                        return Ok(Outcome::of("full"));
                    }
                    state.mail.push(call.term("message"));
                    Ok(Outcome::of("done"))
                },
            },
            Operation {
                name: "pop",
                about: "(): removes and returns the first message",
                apply: |state, call| {
                    let front = state.mail.pop(call.execution)?;
                    Ok(front.map_or(Outcome::of("empty"), Outcome::of))
                },
            },
        ],
        ..Interface::default()
    }
}
