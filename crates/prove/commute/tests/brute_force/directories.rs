//! A directory with two names, one of which may refer to a second directory with two names.

use std::collections::BTreeMap;

use knee_commute::models::directories;

use super::{Args, Concrete, arg, check, choices};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Dir(i64),
    File(i64),
}

/// The entries of a directory, by name.
type Entries = BTreeMap<i64, Node>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Tree(BTreeMap<i64, Entries>);

/// The directories that arguments can refer to.
const OUTER: i64 = 0;
const INNER: i64 = 1;
const EMPTY: [i64; 2] = [2, 3];
/// A directory that is not empty.
const FULL: i64 = 4;
/// The new files or directories to choose from: as many as there are calls.
const NEW: [i64; 2] = [100, 101];

impl Tree {
    fn new(outer: [Option<Node>; 2], inner: Option<[Option<Node>; 2]>) -> Self {
        let entries = |nodes: [Option<Node>; 2]| {
            (0..).zip(nodes).filter_map(|(name, node)| Some((name, node?))).collect::<Entries>()
        };
        let mut dirs = BTreeMap::from([
            (OUTER, entries(outer)),
            (EMPTY[0], Entries::new()),
            (EMPTY[1], Entries::new()),
            (FULL, Entries::from([(9, Node::File(9))])),
        ]);
        dirs.extend(inner.map(|inner| (INNER, entries(inner))));
        Self(dirs)
    }

    fn node(&self, path: &str, arg: &dyn Fn(&str) -> i64) -> Option<Node> {
        let (dir, name) = path.rsplit_once('/').unwrap();
        self.0.get(&self.number(dir, arg))?.get(&arg(name)).copied()
    }

    fn subdirs(&self, dir: i64) -> usize {
        let is_dir = |node: &&Node| matches!(node, Node::Dir(_));
        self.0[&dir].values().filter(is_dir).count()
    }

    /// Every state that results from creating a file or directory at this path.
    fn with_new(&self, dir: i64, name: i64, node: fn(i64) -> Node) -> Vec<(Self, String)> {
        let used =
            |new: i64| self.0.values().any(|entries| entries.values().any(|n| *n == node(new)));
        let with = |new: i64| {
            let mut left = self.clone();
            left.0.get_mut(&dir).unwrap().insert(name, node(new));
            if matches!(node(new), Node::Dir(_)) {
                left.0.insert(new, Entries::new());
            }
            (left, "0".to_owned())
        };
        NEW.into_iter().filter(|new| !used(*new)).map(with).collect()
    }

    /// Removes what a replaced or removed name referred to. Returns `None` if the name referred to a
    /// directory that is not empty.
    fn drop_node(&mut self, node: Node) -> Option<()> {
        if let Node::Dir(dir) = node {
            if !self.0[&dir].is_empty() {
                return None;
            }
            self.0.remove(&dir);
        }
        Some(())
    }

    fn rename(&mut self, from: [i64; 2], to: [i64; 2]) -> &'static str {
        if !self.0.contains_key(&from[0]) || !self.0.contains_key(&to[0]) {
            return "ENOENT";
        }
        let Some(&node) = self.0[&from[0]].get(&from[1]) else { return "ENOENT" };
        if matches!(node, Node::Dir(_)) && from[0] != to[0] {
            return "EXDEV";
        }
        match (node, self.0[&to[0]].get(&to[1]).copied()) {
            (_, Some(replaced)) if replaced == node => return "0",
            (Node::File(_), Some(Node::Dir(_))) => return "EISDIR",
            (Node::Dir(_), Some(Node::File(_))) => return "ENOTDIR",
            (_, Some(replaced)) if self.drop_node(replaced).is_none() => return "ENOTEMPTY",
            _ => {}
        }
        self.0.get_mut(&from[0]).unwrap().remove(&from[1]);
        self.0.get_mut(&to[0]).unwrap().insert(to[1], node);
        "0"
    }
}

impl Concrete for Tree {
    fn all() -> Vec<Self> {
        use Node::{Dir, File};
        let inner = [
            [None, None],
            [Some(File(0)), None],
            [None, Some(Dir(EMPTY[1]))],
            [Some(File(1)), Some(Dir(EMPTY[1]))],
        ];
        let mut all = Vec::new();
        for first in [None, Some(File(0)), Some(Dir(EMPTY[0])), Some(Dir(INNER))] {
            for second in [None, Some(File(0)), Some(File(1)), Some(Dir(FULL)), Some(Dir(INNER))] {
                let inside = [first, second].iter().filter(|n| **n == Some(Dir(INNER))).count();
                if inside < 2 {
                    all.extend(inner.map(|inner| Self::new([first, second], Some(inner))));
                }
                if inside == 0 {
                    all.push(Self::new([first, second], None));
                }
            }
        }
        all
    }

    fn arguments(operation: &str) -> Vec<Args> {
        choices(match operation {
            "rename" => &[("dir", 2), ("name", 2), ("new_dir", 2), ("new_name", 2)],
            "fstat" | "fstatx" | "list_empty" => &[("dir", 2)],
            _ => &[("dir", 2), ("name", 2)],
        })
    }

    fn call(&self, operation: &str, args: &Args) -> Vec<(Self, String)> {
        let mut left = self.clone();
        let dir = arg(args, "dir");
        if operation == "rename" {
            let to = [arg(args, "new_dir"), arg(args, "new_name")];
            let seen = left.rename([dir, arg(args, "name")], to);
            return vec![(left, seen.to_owned())];
        }
        if operation == "fstatx" {
            return vec![(left, dir.to_string())];
        }
        let Some(entries) = self.0.get(&dir) else { return vec![(left, "ENOENT".to_owned())] };
        let whole = match operation {
            "fstat" => Some(format!("{dir} {}", self.subdirs(dir) + 2)),
            "list_empty" => Some(entries.is_empty().to_string()),
            _ => None,
        };
        if let Some(seen) = whole {
            return vec![(left, seen)];
        }
        let name = arg(args, "name");
        let node = entries.get(&name).copied();
        let seen = match (operation, node) {
            ("stat", Some(node)) => format!("{node:?}"),
            ("mkdir" | "create", Some(_)) => "EEXIST".to_owned(),
            ("mkdir", None) => return self.with_new(dir, name, Node::Dir),
            ("create", None) => return self.with_new(dir, name, Node::File),
            (_, None) => "ENOENT".to_owned(),
            ("rmdir", Some(Node::File(_))) => "ENOTDIR".to_owned(),
            ("unlink", Some(Node::Dir(_))) => "EISDIR".to_owned(),
            ("rmdir" | "unlink", Some(node)) => match left.drop_node(node) {
                None => "ENOTEMPTY".to_owned(),
                Some(()) => {
                    left.0.get_mut(&dir).unwrap().remove(&name);
                    "0".to_owned()
                }
            },
            (other, _) => panic!("{other}"),
        };
        vec![(left, seen)]
    }

    fn number(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> i64 {
        if let Some(path) = label.strip_prefix("entries[") {
            let (path, kind) = path.rsplit_once("].").unwrap();
            return match (kind, self.node(path, arg)) {
                ("dir", Some(Node::Dir(dir))) => dir,
                ("file", Some(Node::File(file))) => file,
                _ => -1,
            };
        }
        let Some(dir) = label.strip_prefix("dirs[") else { return arg(label) };
        let (dir, count) = dir.rsplit_once("].").unwrap();
        let dir = self.number(dir, arg);
        let Some(entries) = self.0.get(&dir) else { return -1 };
        let subdirs = self.subdirs(dir);
        match count {
            "files" => (entries.len() - subdirs) as i64,
            "subdirs" => subdirs as i64,
            other => panic!("{other}"),
        }
    }

    fn flag(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> bool {
        if let Some(dir) = label.strip_prefix("dirs has ") {
            return self.0.contains_key(&self.number(dir, arg));
        }
        if let Some(path) = label.strip_prefix("entries has ") {
            return self.node(path, arg).is_some();
        }
        let path = label.strip_prefix("entries[").unwrap();
        let node = self.node(path.strip_suffix("] is a directory").unwrap(), arg);
        matches!(node, Some(Node::Dir(_)))
    }
}

#[test]
fn directories_agree_with_brute_force() {
    check::<_, Tree>(&directories::directories(), 2);
}
