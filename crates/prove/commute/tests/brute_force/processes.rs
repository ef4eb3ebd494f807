//! Two processes with at most three initial descriptors each. The descriptors refer to two open file
//! descriptions.

use std::collections::BTreeMap;

use knee_commute::models::processes;

use super::{Args, Concrete, arg, check, choices};

/// For each open descriptor: its open file description, and whether the descriptor is close-on-exec.
type Fds = BTreeMap<i64, (i64, bool)>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Processes {
    fds: [Fds; 2],
    /// Offsets, by open file description.
    offsets: BTreeMap<i64, i64>,
    /// The descriptors of each child, by pid.
    children: BTreeMap<i64, Fds>,
}

/// The pids and open file descriptions to choose from if the interface does not determine them: as many as
/// there are calls.
const NEW: [i64; 2] = [100, 101];
/// The descriptors to choose from if any unused descriptor may be returned: those that arguments can name,
/// and two more.
const FDS: std::ops::Range<i64> = 0..5;
/// A descriptor that is never open.
const NONE: i64 = 7;

fn unused<V>(among: impl IntoIterator<Item = i64>, used: &BTreeMap<i64, V>) -> Vec<i64> {
    among.into_iter().filter(|n| !used.contains_key(n)).collect()
}

impl Processes {
    /// Every state that results from adding `child`.
    fn with_child(&self, child: Fds) -> Vec<(Self, String)> {
        let with = |pid: i64| {
            let mut left = self.clone();
            left.children.insert(pid, child.clone());
            (left, pid.to_string())
        };
        unused(NEW, &self.children).into_iter().map(with).collect()
    }

    /// Every state that results from opening one more descriptor in `process`. The new descriptor refers to
    /// `to`.
    fn with_fd(&self, process: usize, any: bool, to: (i64, bool)) -> Vec<(Self, String)> {
        let free = unused(FDS, &self.fds[process]);
        let with = |&fd: &i64| {
            let mut left = self.clone();
            left.fds[process].insert(fd, to);
            (left, fd.to_string())
        };
        free.iter().take(if any { free.len() } else { 1 }).map(with).collect()
    }

    fn slot(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> Option<(i64, bool)> {
        // A label: `proc0.fds[a.fd]`
        let key = label.strip_suffix(']').unwrap().split_once(".fds[").unwrap().1;
        self.fds[process_of(label)].get(&self.number(key, arg)).copied()
    }
}

/// The number of the process that a label names.
fn process_of(label: &str) -> usize {
    usize::from(label.starts_with("proc1"))
}

impl Concrete for Processes {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for n in 0..18 {
            for cloexec in [0, 1, NONE] {
                // For each descriptor: its open file description, or `None` if the descriptor is not open.
                let open = [n % 3, n / 3 % 3, n / 9 * 2].map(|nr| [None, Some(0), Some(1)][nr]);
                let slot = |(fd, open): (i64, Option<i64>)| Some((fd, (open?, fd == cloexec)));
                let fds = (0..).zip(open).filter_map(slot);
                all.push(Self {
                    fds: [fds.collect(), Fds::from([(0, (0, true))])],
                    offsets: BTreeMap::from([(0, 0), (1, 0)]),
                    children: BTreeMap::new(),
                });
            }
        }
        all
    }

    fn arguments(operation: &str) -> Vec<Args> {
        let own: &[(&'static str, i64)] = match operation {
            "open" | "open_anyfd" => &[("cloexec", 2)],
            "fork" | "exec" => &[],
            "dup2" => &[("fd", 3), ("new", 3)],
            "lseek" => &[("fd", 3), ("off", 2)],
            _ => &[("fd", 3)],
        };
        choices(&[own, &[("process", 2)]].concat())
    }

    fn call(&self, operation: &str, args: &Args) -> Vec<(Self, String)> {
        let process = super::process(args) as usize;
        let any = operation.ends_with("_anyfd");
        let mut left = self.clone();
        match operation {
            "open" | "open_anyfd" => {
                let cloexec = arg(args, "cloexec") == 1;
                let opened = |description: i64| {
                    let mut left = self.clone();
                    left.offsets.insert(description, 0);
                    left.with_fd(process, any, (description, cloexec))
                };
                return unused(NEW, &self.offsets).into_iter().flat_map(opened).collect();
            }
            "fork" => return self.with_child(self.fds[process].clone()),
            "exec" => {
                left.fds[process].retain(|_, (_, cloexec)| !*cloexec);
                return vec![(left, String::new())];
            }
            _ => {}
        }
        let fd = arg(args, "fd");
        let Some(&(description, _)) = self.fds[process].get(&fd) else {
            return vec![(left, "EBADF".to_owned())];
        };
        let seen = match operation {
            "close" => {
                left.fds[process].remove(&fd);
                0
            }
            "dup" | "dup_anyfd" => return self.with_fd(process, any, (description, false)),
            "dup2" => {
                let new = arg(args, "new");
                if new != fd {
                    left.fds[process].insert(new, (description, false));
                }
                new
            }
            "lseek" => {
                left.offsets.insert(description, arg(args, "off"));
                0
            }
            "posix_spawn" => return self.with_child(Fds::from([(0, (description, false))])),
            other => panic!("{other}"),
        };
        vec![(left, seen.to_string())]
    }

    fn number(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> i64 {
        if let Some((rank, process)) = label.split_once("lowest unused fd of ") {
            let ranks = ["", "2nd ", "3rd ", "4th ", "5th "];
            let nr = ranks.iter().position(|other| *other == rank).unwrap();
            return unused(0..9, &self.fds[process_of(process)])[nr];
        }
        if !label.starts_with("proc") && !label.starts_with("descriptions") {
            return arg(label);
        }
        if let Some(inner) = label.strip_prefix("descriptions[") {
            let description = self.number(inner.strip_suffix("].off").unwrap(), arg);
            return self.offsets.get(&description).copied().unwrap_or(-1);
        }
        if label.ends_with(".cloexec") {
            let fds = &self.fds[process_of(label)];
            return fds.iter().find(|(_, (_, cloexec))| *cloexec).map_or(NONE, |(fd, _)| *fd);
        }
        let slot = self.slot(label.strip_suffix(".description").unwrap(), arg);
        slot.map_or(-1, |(description, _)| description)
    }

    fn flag(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> bool {
        let key = label.split_once(".fds has ").unwrap().1;
        self.fds[process_of(label)].contains_key(&self.number(key, arg))
    }
}

#[test]
fn processes_agree_with_brute_force() {
    check::<_, Processes>(&processes::processes(), 2);
}
