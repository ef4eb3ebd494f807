//! Sockets with room for two datagrams each; a datagram has one of two values.

use knee_commute::models::sockets;

use super::{Args, Concrete, arg, check, choices, sequences};

/// Two ordered sockets, whose oldest datagram is first, and two unordered sockets, whose datagrams are
/// sorted. The two sockets of a kind are symmetric, so the tests start from only a few states of the second
/// socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sockets {
    ordered: [Vec<i64>; 2],
    unordered: [Vec<i64>; 2],
}

const ROOM: usize = 2;

impl Concrete for Sockets {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for queue in sequences(ROOM) {
            for bag in sequences(ROOM).into_iter().filter(|bag| bag.is_sorted()) {
                for other in [vec![], vec![0, 1]] {
                    all.push(Self {
                        ordered: [queue.clone(), other.clone()],
                        unordered: [bag.clone(), other],
                    });
                }
            }
        }
        all
    }

    fn arguments(operation: &str) -> Vec<Args> {
        choices(match operation {
            "send" | "send_any" => &[("socket", 2), ("datagram", 2)],
            _ => &[("socket", 2)],
        })
    }

    fn call(&self, operation: &str, args: &Args) -> Vec<(Self, String)> {
        let mut left = self.clone();
        let nr = arg(args, "socket") as usize;
        let again = || (self.clone(), "EAGAIN".to_owned());
        match operation {
            "send" | "send_any" => {
                let keeps = operation == "send";
                let socket = if keeps { &mut left.ordered } else { &mut left.unordered };
                if socket[nr].len() == ROOM {
                    return vec![again()];
                }
                socket[nr].push(arg(args, "datagram"));
                left.unordered[nr].sort_unstable();
                vec![(left, "0".to_owned())]
            }
            "recv" if self.ordered[nr].is_empty() => vec![again()],
            "recv" => {
                let front = left.ordered[nr].remove(0);
                vec![(left, front.to_string())]
            }
            "recv_any" if self.unordered[nr].is_empty() => vec![again()],
            "recv_any" => {
                let take = |which: usize| {
                    let mut left = self.clone();
                    let taken = left.unordered[nr].remove(which);
                    (left, taken.to_string())
                };
                (0..self.unordered[nr].len()).map(take).collect()
            }
            other => panic!("{other}"),
        }
    }

    fn number(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> i64 {
        // Labels: `ordered[a.socket].length`, `unordered[b.socket](1)`
        let (kind, rest) = label.split_once('[').unwrap();
        let (socket, what) = rest.split_once(']').unwrap();
        let sockets = if kind == "ordered" { &self.ordered } else { &self.unordered };
        let datagrams = &sockets[arg(socket) as usize];
        if what == ".length" {
            return datagrams.len() as i64;
        }
        let nr: usize = what.trim_matches(['(', ')']).parse().unwrap();
        datagrams[nr]
    }

    fn flag(&self, label: &str, _: &dyn Fn(&str) -> i64) -> bool {
        panic!("{label}")
    }
}

#[test]
fn sockets_agree_with_brute_force() {
    assert_eq!(check::<_, Sockets>(&sockets::sockets(), 2), 0);
}

#[test]
fn three_calls_on_sockets_agree_with_brute_force() {
    check::<_, Sockets>(&sockets::sockets(), 3);
}
