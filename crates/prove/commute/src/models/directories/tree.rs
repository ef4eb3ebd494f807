//! The state of the directories.
//!
//! Assumptions restrict the initial state to reachable states. Only an existing directory has entries. The
//! counts of a directory are at least the numbers of its known files and sub-directories. A directory has
//! only one name, and is not its own ancestor.

use crate::{Execution, Map, Natural, Part, State, Stop, Term, Truth, sort, state};

sort!(Directory, EntryName, File);

/// A name in a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    pub(super) dir: Term<Directory>,
    pub(super) name: Term<EntryName>,
}

impl State for Path {
    fn unknown(_: &mut Execution, _: &str) -> Self {
        unreachable!("not a part of the state")
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        Ok(self.dir.same(&other.dir, execution)? && self.name.same(&other.name, execution)?)
    }

    fn show(&self, execution: &Execution) -> String {
        format!("{}/{}", self.dir.show(execution), self.name.show(execution))
    }

    fn part(&self, execution: &mut Execution) -> Part {
        Part::Fields(vec![("dir", self.dir.part(execution)), ("name", self.name.part(execution))])
    }
}

/// What a name refers to: a directory or a file.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) is_dir: Truth,
    pub(super) dir: Term<Directory>,
    pub(super) file: Term<File>,
}

impl State for Node {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self {
            is_dir: Truth::unknown(execution, &format!("{label} is a directory")),
            dir: Term::unknown(execution, &format!("{label}.dir")),
            file: Term::unknown(execution, &format!("{label}.file")),
        }
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        if !self.is_dir.same_in_words(&other.is_dir, ["a directory", "a file"], execution)? {
            return Ok(false);
        }
        match self.is_dir.ask(execution)? {
            true => self.dir.same(&other.dir, execution),
            false => self.file.same(&other.file, execution),
        }
    }

    fn show(&self, execution: &Execution) -> String {
        self.dir.show(execution)
    }

    fn part(&self, execution: &mut Execution) -> Part {
        Part::Fields(match self.is_dir.known(execution) {
            None => Vec::new(),
            Some(true) => vec![("dir", self.dir.part(execution))],
            Some(false) => vec![("file", self.file.part(execution))],
        })
    }
}

state! {
    /// The counts of a directory that was not removed.
    pub(super) struct Counts {
        pub(super) files: Natural,
        pub(super) subdirs: Natural,
        /// The depth of the directory, which is greater than the depth of its parent, so that no
        /// directory is its own ancestor.
        pub(super) depth: Natural,
    }
}

state! {
    /// All directories.
    pub struct Tree {
        pub(super) entries: Map<Path, Node>,
        pub(super) dirs: Map<Term<Directory>, Counts>,
    }
}

/// The result of looking up a path.
pub(super) enum Found {
    Dir(Term<Directory>),
    File(Term<File>),
}

impl Tree {
    /// What `path` refers to. The directory in `path` must exist.
    pub(super) fn look_up(
        &self,
        path: &Path,
        execution: &mut Execution,
    ) -> Result<Option<Found>, Stop> {
        let Some((node, initial)) = self.entries.find(path, execution)? else { return Ok(None) };
        let is_dir = node.is_dir.ask(execution)?;
        if initial {
            let parent = self.first(&path.dir, execution)?;
            let count = if is_dir { parent.subdirs } else { parent.files };
            count.assume_counts(path, execution)?;
            if is_dir {
                self.is_only_name(path, &node.dir, execution)?;
                self.dirs.assume_presence(&node.dir, true, execution)?;
                let child = self.first(&node.dir, execution)?;
                execution.assume_at_most(parent.depth.0 + 1, child.depth.0)?;
            }
        }
        Ok(Some(if is_dir { Found::Dir(node.dir) } else { Found::File(node.file) }))
    }

    /// The counts of a directory in the initial state. Assumes that the directory exists in that
    /// state.
    fn first(&self, dir: &Term<Directory>, execution: &mut Execution) -> Result<Counts, Stop> {
        self.dirs.assume_presence(dir, true, execution)?;
        for (other, counts) in self.dirs.known(execution) {
            if other.same(dir, execution)? {
                return Ok(counts.expect("it is there"));
            }
        }
        unreachable!("it is known")
    }

    /// Assumes that no entry except the one at `path` refers to `dir`.
    fn is_only_name(
        &self,
        path: &Path,
        dir: &Term<Directory>,
        execution: &mut Execution,
    ) -> Result<(), Stop> {
        for (other, node) in self.entries.known(execution) {
            let Some(node) = node else { continue };
            if !other.same(path, execution)? && node.is_dir.ask(execution)? {
                node.dir.assume_different(*dir, execution)?;
            }
        }
        Ok(())
    }

    /// Changes the numbers of files and sub-directories of a directory.
    pub(super) fn count(
        &mut self,
        dir: Term<Directory>,
        [files, subdirs]: [i64; 2],
        execution: &mut Execution,
    ) -> Result<(), Stop> {
        let mut counts = self.dirs.get(&dir, execution)?.expect("a directory that is there");
        counts.files.0 = counts.files.0 + files;
        counts.subdirs.0 = counts.subdirs.0 + subdirs;
        self.dirs.insert(dir, counts);
        Ok(())
    }

    pub(super) fn is_empty(
        &self,
        dir: &Term<Directory>,
        execution: &mut Execution,
    ) -> Result<bool, Stop> {
        let counts = self.dirs.get(dir, execution)?.expect("a directory that is there");
        Ok(execution.at_most(counts.files.0, 0)? && execution.at_most(counts.subdirs.0, 0)?)
    }

    /// Removes a directory and its name if the directory is empty, and returns whether it was empty.
    pub(super) fn remove_dir(
        &mut self,
        path: Path,
        dir: Term<Directory>,
        execution: &mut Execution,
    ) -> Result<bool, Stop> {
        if !self.is_empty(&dir, execution)? {
            return Ok(false);
        }
        self.dirs.remove(dir);
        self.entries.remove(path);
        self.count(path.dir, [0, -1], execution)?;
        Ok(true)
    }
}
