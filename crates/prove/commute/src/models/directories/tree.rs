//! What directories are made of. What is unknown of them at first is kept to what can be: nothing is
//! in a directory that is not there, counts are no less than what is known to be counted, and a
//! directory has one name and is not in itself.

use super::{Directory, EntryName, File};
use crate::{Map, Natural, Part, State, Stop, Term, Truth, World, state};

/// A name in a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    pub(super) dir: Term<Directory>,
    pub(super) name: Term<EntryName>,
}

impl State for Path {
    fn unknown(_: &mut World, _: &str) -> Self {
        unreachable!("not a part of the state")
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        Ok(self.dir.same(&other.dir, world)? && self.name.same(&other.name, world)?)
    }

    fn show(&self, world: &World) -> String {
        format!("{}/{}", self.dir.show(world), self.name.show(world))
    }

    fn part(&self, world: &mut World) -> Part {
        Part::Fields(vec![("dir", self.dir.part(world)), ("name", self.name.part(world))])
    }
}

/// What a name refers to: one of the two.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) is_dir: Truth,
    pub(super) dir: Term<Directory>,
    pub(super) file: Term<File>,
}

impl State for Node {
    fn unknown(world: &mut World, label: &str) -> Self {
        Self {
            is_dir: Truth::unknown(world, &format!("{label} is a directory")),
            dir: Term::unknown(world, &format!("{label}.dir")),
            file: Term::unknown(world, &format!("{label}.file")),
        }
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        if !self.is_dir.same_in_words(&other.is_dir, ["a directory", "a file"], world)? {
            return Ok(false);
        }
        match self.is_dir.ask(world)? {
            true => self.dir.same(&other.dir, world),
            false => self.file.same(&other.file, world),
        }
    }

    fn show(&self, world: &World) -> String {
        self.dir.show(world)
    }

    fn part(&self, world: &mut World) -> Part {
        Part::Fields(match self.is_dir.known(world) {
            None => Vec::new(),
            Some(true) => vec![("dir", self.dir.part(world))],
            Some(false) => vec![("file", self.file.part(world))],
        })
    }
}

state! {
    /// A directory that has not been removed.
    pub(super) struct Counts {
        pub(super) files: Natural,
        pub(super) subdirs: Natural,
        /// How far from the root: greater than that of the directory that it is in. So none is in
        /// itself.
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

/// What a path leads to.
pub(super) enum Found {
    Dir(Term<Directory>),
    File(Term<File>),
}

impl Tree {
    /// What is at `path`, which is in a directory that is there.
    pub(super) fn look_up(&self, path: &Path, world: &mut World) -> Result<Option<Found>, Stop> {
        let Some((node, initial)) = self.entries.find(path, world)? else { return Ok(None) };
        let is_dir = node.is_dir.ask(world)?;
        if initial {
            let parent = self.first(&path.dir, world)?;
            let count = if is_dir { parent.subdirs } else { parent.files };
            world.witness(count.0, path)?;
            if is_dir {
                self.is_only_name(path, &node.dir, world)?;
                self.dirs.know(&node.dir, true, world)?;
                let child = self.first(&node.dir, world)?;
                world.assume_at_most(parent.depth.0 + 1, child.depth.0)?;
            }
        }
        Ok(Some(if is_dir { Found::Dir(node.dir) } else { Found::File(node.file) }))
    }

    /// A directory as it was at first, when it was there.
    fn first(&self, dir: &Term<Directory>, world: &mut World) -> Result<Counts, Stop> {
        self.dirs.know(dir, true, world)?;
        for (other, counts) in self.dirs.known(world) {
            if other.same(dir, world)? {
                return Ok(counts.expect("it is there"));
            }
        }
        unreachable!("it is known")
    }

    /// A directory has one name, and is in one directory.
    fn is_only_name(
        &self,
        path: &Path,
        dir: &Term<Directory>,
        world: &mut World,
    ) -> Result<(), Stop> {
        for (other, node) in self.entries.known(world) {
            let Some(node) = node else { continue };
            if !other.same(path, world)? && node.is_dir.ask(world)? {
                node.dir.assume_different(*dir, world)?;
            }
        }
        Ok(())
    }

    /// Changes how many files and sub-directories a directory has.
    pub(super) fn count(
        &mut self,
        dir: Term<Directory>,
        [files, subdirs]: [i64; 2],
        world: &mut World,
    ) -> Result<(), Stop> {
        let mut counts = self.dirs.get(&dir, world)?.expect("a directory that is there");
        counts.files.0 = counts.files.0 + files;
        counts.subdirs.0 = counts.subdirs.0 + subdirs;
        self.dirs.insert(dir, counts);
        Ok(())
    }

    pub(super) fn is_empty(&self, dir: &Term<Directory>, world: &mut World) -> Result<bool, Stop> {
        let counts = self.dirs.get(dir, world)?.expect("a directory that is there");
        Ok(world.at_most(counts.files.0, 0)? && world.at_most(counts.subdirs.0, 0)?)
    }

    /// Removes a directory if it is empty, and its name from where it is.
    pub(super) fn remove_dir(
        &mut self,
        path: Path,
        dir: Term<Directory>,
        world: &mut World,
    ) -> Result<bool, Stop> {
        if !self.is_empty(&dir, world)? {
            return Ok(false);
        }
        self.dirs.remove(dir);
        self.entries.remove(path);
        self.count(path.dir, [0, -1], world)?;
        Ok(true)
    }
}
