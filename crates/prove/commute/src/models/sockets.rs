//! Datagram sockets: some keep the order of datagrams, and some do not.
//!
//! What keeps senders on one socket from scaling is the promised order, not the shared socket. While there is
//! room, two calls of `send` on one socket commute only if they send equal datagrams, because a `recv` can
//! tell which datagram was sent first. Two calls of `send_any` commute while there is room for both
//! datagrams, and two calls of `recv_any` commute while there is a datagram for each. A `send_any` and a
//! `recv_any` commute while the socket is neither full nor empty. If the interface promises no order, an
//! implementation can have a queue for each core. (Clements et al., "The scalable commutativity rule", SOSP
//! 2013, section 4.)
//!
//! Calls do not block: a call that sends to a full socket or receives from an empty socket returns
//! EAGAIN. No datagram is lost or delivered twice.

use crate::{Bag, Call, Interface, Operation, Outcome, Queue, Stop, Term, TotalMap};
use crate::{sort, state};

sort!(Socket, UnorderedSocket, Datagram);

/// The capacity of a socket, in datagrams.
const ROOM: i64 = 2;

state! {
    /// All sockets. A socket never changes its kind.
    pub struct Sockets {
        ordered: TotalMap<Term<Socket>, Queue<Term<Datagram>>>,
        unordered: TotalMap<Term<UnorderedSocket>, Bag<Term<Datagram>>>,
    }
}

type Ordered = (Term<Socket>, Queue<Term<Datagram>>);
type Unordered = (Term<UnorderedSocket>, Bag<Term<Datagram>>);

/// The socket that the argument names, and its queue. Assumes that the queue does not exceed the
/// capacity.
fn ordered(state: &Sockets, call: &mut Call<'_>) -> Result<Ordered, Stop> {
    let socket = call.term("socket");
    let queue = state.ordered.get(&socket, call.execution)?;
    call.execution.assume_at_most(queue.length(), ROOM)?;
    Ok((socket, queue))
}

/// The same as [`ordered`], for a socket that does not keep the order of datagrams.
fn unordered(state: &Sockets, call: &mut Call<'_>) -> Result<Unordered, Stop> {
    let socket = call.term("socket");
    let bag = state.unordered.get(&socket, call.execution)?;
    call.execution.assume_at_most(bag.length(), ROOM)?;
    Ok((socket, bag))
}

/// Sockets that keep the order of datagrams, and sockets that do not.
pub fn sockets() -> Interface<Sockets> {
    Interface {
        name: "sockets",
        about: "datagram sockets: without ordering, senders and receivers commute",
        operations: vec![
            Operation {
                name: "send",
                about: "(socket, datagram): appends to the queue unless it is full",
                apply: |state, call| {
                    let (socket, mut queue) = ordered(state, call)?;
                    if call.execution.at_most(ROOM, queue.length())? {
                        return Ok(Outcome::of("EAGAIN"));
                    }
                    queue.push(call.term("datagram"));
                    state.ordered.insert(socket, queue);
                    Ok(Outcome::of("0"))
                },
            },
            Operation {
                name: "recv",
                about: "(socket): takes the oldest datagram",
                apply: |state, call| {
                    let (socket, mut queue) = ordered(state, call)?;
                    let front = queue.pop(call.execution)?;
                    state.ordered.insert(socket, queue);
                    Ok(front.map_or(Outcome::of("EAGAIN"), Outcome::of))
                },
            },
            Operation {
                name: "send_any",
                about: "(socket, datagram): adds to the buffer unless it is full",
                apply: |state, call| {
                    let (socket, mut bag) = unordered(state, call)?;
                    if call.execution.at_most(ROOM, bag.length())? {
                        return Ok(Outcome::of("EAGAIN"));
                    }
                    bag.add(call.term("datagram"));
                    state.unordered.insert(socket, bag);
                    Ok(Outcome::of("0"))
                },
            },
            Operation {
                name: "recv_any",
                about: "(socket): takes any of the buffered datagrams",
                apply: |state, call| {
                    let (socket, mut bag) = unordered(state, call)?;
                    let taken = bag.take_any(call)?;
                    state.unordered.insert(socket, bag);
                    Ok(taken.map_or(Outcome::of("EAGAIN"), Outcome::of))
                },
            },
        ],
        ..Interface::default()
    }
}
