//! Datagram sockets, with and without an order.
//!
//! What is surprising: it is not sharing a socket that keeps senders from scaling, but the promise
//! of an order that few of them want. Two `send` on one socket never commute while there is room,
//! unless they send the same, because some `recv` can tell which was first. Two `send_any` always
//! commute while there is room for both, two `recv_any` while there is something for both, and a
//! sender and a receiver while the socket is neither full nor empty. Then each core may have a
//! queue of its own. (Clements et al., "The scalable commutativity rule", SOSP 2013, section 4.)
//!
//! Calls do not block: a full or an empty socket is told. Nothing is lost or sent twice.

use crate::{Bag, Call, Interface, Operation, Outcome, Queue, Stop, Term, TotalMap};
use crate::{sort, state};

sort!(Socket, UnorderedSocket, Datagram);

/// How many datagrams a socket has room for.
const ROOM: i64 = 2;

state! {
    /// The sockets of each kind, which is chosen when a socket is made.
    pub struct Sockets {
        ordered: TotalMap<Term<Socket>, Queue<Term<Datagram>>>,
        unordered: TotalMap<Term<UnorderedSocket>, Bag<Term<Datagram>>>,
    }
}

type Ordered = (Term<Socket>, Queue<Term<Datagram>>);
type Unordered = (Term<UnorderedSocket>, Bag<Term<Datagram>>);

/// The socket of the argument, which never has more than there is room for.
fn ordered(state: &Sockets, call: &mut Call<'_>) -> Result<Ordered, Stop> {
    let socket = call.term("socket");
    let queue = state.ordered.get(&socket, call.execution)?;
    call.execution.assume_at_most(queue.length(), ROOM)?;
    Ok((socket, queue))
}

/// The same, without an order.
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
                about: "(socket, datagram): appended to the queue, unless it is full",
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
                about: "(socket): the oldest datagram",
                apply: |state, call| {
                    let (socket, mut queue) = ordered(state, call)?;
                    let front = queue.pop(call.execution)?;
                    state.ordered.insert(socket, queue);
                    Ok(front.map_or(Outcome::of("EAGAIN"), Outcome::of))
                },
            },
            Operation {
                name: "send_any",
                about: "(socket, datagram): added to the buffer, unless it is full",
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
                about: "(socket): any of the buffered datagrams",
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
