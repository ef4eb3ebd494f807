//! A set of numbers as a lock-free list, with hazard pointers: Harris's list (DISC 2001) with Michael's
//! changes (SPAA 2002).
//!
//! A node is removed in two steps. The first step marks `next`, the node's own link. From then on the set
//! does not contain the node's number, and no thread changes that link. The second step unlinks the node. Any
//! thread that finds a marked link may do the second step, and the thread that succeeds retires the node.
//!
//! A thread never follows a marked link, because the next node may have been retired. Instead, the thread
//! unlinks the node that the marked link belongs to, or starts again at the head.

use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::thread;

use knee_models::random::Random;
use knee_sync::hazard::{self, Guard};

/// The bit of a link that marks its node as removed. Nodes are aligned, so this bit of their addresses is 0.
const MARK: usize = 1;
const THREADS: u64 = 4;
const NUMBERS: u64 = 16;
const ROUNDS: u64 = if cfg!(miri) { 50 } else { 100_000 };

/// A sorted list of nodes, each with a different number.
#[derive(Default)]
struct Set {
    head: AtomicPtr<Node>,
}

struct Node {
    number: u64,
    next: AtomicPtr<Node>,
}

/// The position of a number in the list, or the position at which it would be inserted.
struct Position {
    /// The last node with a smaller number. `None` if there is no such node; the link is then `head`.
    previous: Option<Guard<'static, Node>>,
    /// The first node with an equal or larger number. `None` at the end of the list.
    current: Option<Guard<'static, Node>>,
}

impl Set {
    fn contains(&self, number: u64) -> bool {
        self.find(number).has(number)
    }

    /// Inserts a number. Returns false if the number was already in the set.
    fn insert(&self, number: u64) -> bool {
        let node = Node::boxed(number);
        loop {
            let position = self.find(number);
            if position.has(number) {
                // SAFETY: no other thread has the node.
                drop(unsafe { Box::from_raw(node) });
                return false;
            }
            let next = position.current();
            // SAFETY: no other thread has the node.
            unsafe { &*node }.next.store(next, Relaxed);
            // Release: a thread that finds the node sees the node's number. The exchange succeeds only if the
            // next node is still linked. That node is protected, so its address has not been reused for
            // another node.
            if position.link(self).compare_exchange(next, node, Release, Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Removes a number. Returns false if the number was not in the set.
    fn remove(&self, number: u64) -> bool {
        loop {
            let position = self.find(number);
            let Some(node) = position.current.as_ref().filter(|node| node.number == number) else {
                return false;
            };
            let next = node.next.load(Acquire);
            let marked = next.map_addr(|address| address | MARK);
            if is_marked(next)
                || node.next.compare_exchange(next, marked, Release, Relaxed).is_err()
            {
                continue;
            }
            if !position.unlink(self, next) {
                // Another thread has changed the list here. `find` unlinks the node, unless that thread has
                // already unlinked it.
                self.find(number);
            }
            return true;
        }
    }

    /// Finds the position of a number, and unlinks the removed nodes before it.
    fn find(&self, number: u64) -> Position {
        let mut position = Position { previous: None, current: None };
        loop {
            // SAFETY: a node is retired after the only unmarked link to it was changed, and no link to it is
            // stored after that (see `unlink`). `unmarked` returns null for a marked link.
            let (link, current) = unsafe { hazard::protect_with(position.link(self), unmarked) };
            if is_marked(link) {
                // The previous node has been removed.
                position.previous = None;
                continue;
            }
            position.current = current;
            let Some(node) = &position.current else { return position };
            let next = node.next.load(Acquire);
            if !is_marked(next) {
                if node.number >= number {
                    return position;
                }
                position.previous = position.current.take();
            } else if !position.unlink(self, next) {
                position.previous = None;
            }
        }
    }
}

impl Position {
    fn has(&self, number: u64) -> bool {
        self.current.as_ref().is_some_and(|node| node.number == number)
    }

    fn current(&self) -> *mut Node {
        self.current.as_ref().map_or(ptr::null_mut(), |node| node.as_ptr())
    }

    /// The link that leads to the current node.
    fn link<'a>(&'a self, set: &'a Set) -> &'a AtomicPtr<Node> {
        self.previous.as_ref().map_or(&set.head, |node| &node.next)
    }

    /// Unlinks the current node, whose link has been marked, and retires it. Returns false if another thread
    /// has changed the link to the node.
    fn unlink(&self, set: &Set, next: *mut Node) -> bool {
        let next = next.map_addr(|address| address & !MARK);
        // If the exchange succeeds, the next node has not been retired. Before this exchange, the marked link
        // of the current node was the only link to the next node, and a thread unlinks a node only by
        // changing an unmarked link. Release: a thread that finds the next node by this link sees that node's
        // number.
        let result = self.link(set).compare_exchange(self.current(), next, Release, Relaxed);
        if result.is_ok() {
            // SAFETY: the node came from a box. Its marked link never changes again, and only one exchange
            // can unlink the node, so it is retired once.
            unsafe { hazard::retire(self.current()) };
        }
        result.is_ok()
    }
}

fn is_marked(link: *mut Node) -> bool {
    link.addr() & MARK != 0
}

fn unmarked(link: *mut Node) -> *mut Node {
    if is_marked(link) { ptr::null_mut() } else { link }
}

impl Drop for Set {
    fn drop(&mut self) {
        let mut link = *self.head.get_mut();
        while !link.is_null() {
            // SAFETY: no other thread has the set, and a linked node has not been retired. The node came from
            // a box.
            let mut node = unsafe { Box::from_raw(link) };
            link = node.next.get_mut().map_addr(|address| address & !MARK);
        }
    }
}

/// The number of nodes that have not been freed.
static NODES: AtomicUsize = AtomicUsize::new(0);

impl Node {
    fn boxed(number: u64) -> *mut Node {
        NODES.fetch_add(1, Relaxed);
        Box::into_raw(Box::new(Node { number, next: AtomicPtr::default() }))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        NODES.fetch_sub(1, Relaxed);
    }
}

/// Inserts and removes random numbers, and returns, for each number, the number of successful insertions
/// minus the number of successful removals.
fn change(set: &Set, seed: u64) -> Vec<i64> {
    let mut random = Random::new(seed);
    let mut balance = vec![0; NUMBERS as usize];
    for _ in 0..ROUNDS {
        let number = random.below(NUMBERS);
        let change = &mut balance[number as usize];
        match random.below(3) {
            0 => *change += i64::from(set.insert(number)),
            1 => *change -= i64::from(set.remove(number)),
            _ => drop(set.contains(number)),
        }
    }
    balance
}

fn main() {
    let set = Set::default();
    let balances: Vec<Vec<i64>> = thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|seed| {
                scope.spawn({
                    let set = &set;
                    move || change(set, seed)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
    });
    let mut length = 0;
    for number in 0..NUMBERS {
        let balance: i64 = balances.iter().map(|balance| balance[number as usize]).sum();
        assert_eq!(balance, i64::from(set.contains(number)), "number {number}");
        length += balance as usize;
    }
    // No guard is left, so all removed nodes are freed.
    hazard::barrier();
    assert_eq!(NODES.load(Relaxed), length);
    drop(set);
    assert_eq!(NODES.load(Relaxed), 0);
    println!(
        "{THREADS} threads, {ROUNDS} rounds each: {length} of {NUMBERS} numbers are in the set"
    );
}

#[test]
fn a_list_keeps_its_numbers_and_frees_its_nodes() {
    main();
}
