//! `crossbeam_queue::ArrayQueue`, a bounded queue without locks, bound to knee's model `queue`.

use std::process::ExitCode;

use crossbeam_queue::ArrayQueue;
use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Model, models::queue::queue};

/// The capacity of the queue, as in the model.
const ROOM: usize = 2;

struct Mailbox(ArrayQueue<u64>);

impl Binding for Mailbox {
    fn model() -> impl Model {
        queue()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        let queue = ArrayQueue::new(ROOM);
        for message in setup.sequence("mail") {
            queue.push(message).expect("the model has at most `ROOM` messages");
        }
        Self(queue)
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let message = call.name("message");
        Some(match call.operation() {
            "push" => Box::new(move || {
                Returned::Word(if self.0.push(message).is_ok() { "done" } else { "full" })
            }),
            "pop" => Box::new(|| Returned::name_or(self.0.pop(), "empty")),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Mailbox>()
}
