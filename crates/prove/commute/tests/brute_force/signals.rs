//! Two standard signals, and two queues of at most two values.

use knee_commute::models::signals;

use super::{Args, Concrete, arg, check, choices};

const NAMES: [&str; 4] = ["SIGINT", "SIGTERM", "SIGRTMIN", "SIGRTMAX"];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Standard {
    blocked: bool,
    pending: bool,
    handled: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Signals {
    standard: [Standard; 2],
    queues: [Vec<i64>; 2],
}

impl Signals {
    /// Takes the signal with the number `nr` if it is pending, and returns what the caller sees.
    fn take(&mut self, nr: usize) -> Option<String> {
        if let Some(standard) = self.standard.get_mut(nr) {
            return std::mem::take(&mut standard.pending).then(|| NAMES[nr].to_owned());
        }
        let queue = &mut self.queues[nr - 2];
        (!queue.is_empty()).then(|| format!("{} {}", NAMES[nr], queue.remove(0)))
    }
}

impl Concrete for Signals {
    fn all() -> Vec<Self> {
        let standard: Vec<Standard> = [(false, false), (true, false), (true, true)]
            .map(|(blocked, pending)| Standard { blocked, pending, handled: 0 })
            .to_vec();
        // If two values are pending, all that matters is whether they are equal.
        let queues = [vec![], vec![0], vec![0, 0], vec![0, 1]];
        let mut all = Vec::new();
        for int in &standard {
            for term in &standard {
                for first in &queues {
                    for last in &queues {
                        let standard = [int.clone(), term.clone()];
                        all.push(Self { standard, queues: [first.clone(), last.clone()] });
                    }
                }
            }
        }
        all
    }

    fn arguments(operation: &str) -> Vec<Args> {
        choices(match operation {
            "kill" | "block" | "unblock" => &[("signal is SIGINT", 2)],
            "sigqueue" => &[("signal is SIGRTMIN", 2), ("value", 2)],
            "sigwait" => {
                let all = &[
                    ("signal is standard", 2),
                    ("signal is SIGINT", 2),
                    ("signal is SIGRTMIN", 2),
                ];
                return choices(all).into_iter().filter(one_signal).collect();
            }
            _ => &[],
        })
    }

    fn call(&self, operation: &str, args: &Args) -> Vec<(Self, String)> {
        let mut left = self.clone();
        let is = |name: &str| args.contains(&(name, 1));
        let [standard, real_time] = [!is("signal is SIGINT"), !is("signal is SIGRTMIN")];
        let [standard, real_time] = [standard, real_time].map(usize::from);
        let seen = match operation {
            "sigqueue" => {
                left.queues[real_time].push(arg(args, "value"));
                String::new()
            }
            "sigpending" => {
                let bits = self.standard.each_ref().map(|signal| signal.pending);
                format!("{bits:?} {:?}", self.queues.each_ref().map(|queue| !queue.is_empty()))
            }
            "sigwait" => {
                let nr = if is("signal is standard") { standard } else { 2 + real_time };
                left.take(nr).unwrap_or("EAGAIN".to_owned())
            }
            "sigwait_any" => (0..4).find_map(|nr| left.take(nr)).unwrap_or("EAGAIN".to_owned()),
            _ => {
                let signal = &mut left.standard[standard];
                match operation {
                    "kill" if signal.blocked => signal.pending = true,
                    "kill" => signal.handled += 1,
                    "block" => signal.blocked = true,
                    "unblock" => {
                        signal.handled += u8::from(signal.pending);
                        (signal.blocked, signal.pending) = (false, false);
                    }
                    other => panic!("{other}"),
                }
                String::new()
            }
        };
        vec![(left, seen)]
    }

    fn number(&self, label: &str, _: &dyn Fn(&str) -> i64) -> i64 {
        let queue = &self.queues[usize::from(label.starts_with("rtmax"))];
        if label.ends_with(".length") {
            return queue.len() as i64;
        }
        let nr: usize = label.split(['(', ')']).nth(1).unwrap().parse().unwrap();
        queue[nr]
    }

    fn flag(&self, label: &str, _: &dyn Fn(&str) -> i64) -> bool {
        let signal = &self.standard[usize::from(label.starts_with("sigterm"))];
        if label.ends_with("blocked") { signal.blocked } else { signal.pending }
    }
}

/// A call on a standard signal ignores the flag `signal is SIGRTMIN`, and a call on a real-time signal
/// ignores the flag `signal is SIGINT`. Returns whether the ignored flag is false. Arguments in which that
/// flag is true would repeat other arguments.
fn one_signal(args: &Args) -> bool {
    let is = |name: &str| args.contains(&(name, 1));
    !is(if is("signal is standard") { "signal is SIGRTMIN" } else { "signal is SIGINT" })
}

#[test]
fn signals_agree_with_brute_force() {
    assert_eq!(check::<_, Signals>(&signals::signals(), 2), 0);
}
