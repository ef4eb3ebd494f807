//! The state: processes with descriptors and memory, one directory, files that consist of pages, and pipes.

use crate::models::descriptors::Descriptors;
use crate::{
    Execution, Int, Map, Natural, Part, Queue, State, Stop, Term, TotalMap, Truth, sort, state,
};

sort!(FileName, Inode, Datum, Va, Pipe);

state! {
    /// The state of the whole system.
    pub struct Posix {
        pub(super) proc0: Process,
        pub(super) proc1: Process,
        pub(super) proc2: Process,
        // The directory must be compared before the inodes, because the comparison of directories
        // chooses which fresh inodes are equal.
        pub(super) dir: Map<Term<FileName>, Term<Inode>>,
        pub(super) pipes: TotalMap<Term<Pipe>, PipeState>,
        pub(super) inodes: TotalMap<Term<Inode>, InodeState>,
    }
}

state! {
    /// A process.
    pub struct Process {
        pub(super) fds: Descriptors<Fd>,
        pub(super) memory: Map<Term<Va>, Area>,
        /// The mapped pages whose unmapping a call has delayed. Each of these pages stays mapped until a
        /// later call unmaps or replaces it.
        pub(super) leaving: Map<Term<Va>, ()>,
    }
}

/// The number of processes.
pub(super) const PROCESSES: u8 = 3;

impl Posix {
    /// The process with number `nr`, which is less than [`PROCESSES`].
    pub(super) fn process(&mut self, nr: u8) -> &mut Process {
        match nr {
            0 => &mut self.proc0,
            1 => &mut self.proc1,
            _ => &mut self.proc2,
        }
    }
}

state! {
    /// A file.
    pub(super) struct InodeState {
        pub(super) data: Data,
        pub(super) nlink: Natural,
        pub(super) atime: Int,
        pub(super) mtime: Int,
        pub(super) ctime: Int,
    }
}

/// The content of a file, in pages.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) len: Natural,
    pub(super) pages: TotalMap<Int, Term<Datum>>,
}

impl State for Data {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        // Remove the suffix `.data`, so that the labels of the length and of the pages begin with the label
        // of the file.
        let label = label.trim_end_matches(".data");
        Self {
            len: Natural::unknown(execution, &format!("{label}.len")),
            pages: TotalMap::unknown(execution, label),
        }
    }

    /// Ignores pages beyond the end of the file, because no call can ever see them.
    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        if !self.len.same(&other.len, execution)? {
            return Ok(false);
        }
        for page in self.pages.written().chain(other.pages.written()) {
            if execution.at_most(*page + 1, self.len.0)? {
                let (a, b) = (self.pages.get(page, execution)?, other.pages.get(page, execution)?);
                if !a.same(&b, execution)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn show(&self, execution: &Execution) -> String {
        self.len.show(execution)
    }

    fn part(&self, execution: &mut Execution) -> Part {
        Part::Fields(vec![("len", self.len.part(execution)), ("pages", self.pages.part(execution))])
    }
}

impl Data {
    /// The content of the page at `off`; `None` at or beyond the end of the file.
    pub(super) fn read(
        &self,
        off: Int,
        execution: &mut Execution,
    ) -> Result<Option<Term<Datum>>, Stop> {
        if execution.at_most(self.len.0, off)? {
            return Ok(None);
        }
        self.pages.get(&off, execution).map(Some)
    }

    /// Writes the page at `off`. Assumes that this page is in the file or directly after its end.
    pub(super) fn write(
        &mut self,
        off: Int,
        datum: Term<Datum>,
        execution: &mut Execution,
    ) -> Result<(), Stop> {
        execution.assume_at_most(off, self.len.0)?;
        if execution.at_most(self.len.0, off)? {
            self.len.0 = self.len.0 + 1;
        }
        self.pages.insert(off, datum);
        Ok(())
    }
}

state! {
    /// A pipe.
    pub(super) struct PipeState {
        pub(super) data: Queue<Term<Datum>>,
        pub(super) readers: Natural,
        pub(super) writers: Natural,
    }
}

/// What a descriptor refers to.
#[derive(Debug, Clone)]
pub(super) struct Fd {
    pub(super) is_pipe: Truth,
    pub(super) pipe: Term<Pipe>,
    pub(super) writer: Truth,
    pub(super) inode: Term<Inode>,
    pub(super) off: Natural,
}

impl State for Fd {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self {
            is_pipe: Truth::unknown(execution, &format!("{label} is a pipe")),
            pipe: Term::unknown(execution, &format!("{label}.pipe")),
            writer: Truth::unknown(execution, &format!("{label} is for writing")),
            inode: Term::unknown(execution, &format!("{label}.inode")),
            off: Natural::unknown(execution, &format!("{label}.off")),
        }
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        if !self.is_pipe.same_in_words(&other.is_pipe, ["a pipe", "a file"], execution)? {
            return Ok(false);
        }
        Ok(if self.is_pipe.ask(execution)? {
            self.pipe.same(&other.pipe, execution)? && self.writer.same(&other.writer, execution)?
        } else {
            self.inode.same(&other.inode, execution)? && self.off.same(&other.off, execution)?
        })
    }

    fn show(&self, execution: &Execution) -> String {
        self.inode.show(execution)
    }

    fn part(&self, execution: &mut Execution) -> Part {
        Part::Fields(match self.is_pipe.known(execution) {
            None => Vec::new(),
            Some(true) => vec![("pipe", self.pipe.part(execution))],
            Some(false) => vec![("inode", self.inode.part(execution))],
        })
    }
}

impl Fd {
    /// A descriptor of a file, at offset 0.
    pub(super) fn file(inode: Term<Inode>, execution: &mut Execution) -> Self {
        let off = Natural(0.into());
        Self { is_pipe: Truth::Known(false), inode, off, ..Self::unknown(execution, "no pipe") }
    }

    /// A descriptor of one end of a pipe.
    pub(super) fn pipe(pipe: Term<Pipe>, writer: bool, execution: &mut Execution) -> Self {
        let (is_pipe, writer) = (Truth::Known(true), Truth::Known(writer));
        Self { is_pipe, pipe, writer, ..Self::unknown(execution, "no file") }
    }
}

/// A mapped page.
#[derive(Debug, Clone)]
pub(super) struct Area {
    pub(super) anonymous: Truth,
    pub(super) writable: Truth,
    /// The content of the page, if it is anonymous memory.
    pub(super) datum: Term<Datum>,
    /// The file, if the page is part of a file. `off` is the number of the page in the file.
    pub(super) inode: Term<Inode>,
    pub(super) off: Natural,
}

impl State for Area {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self {
            anonymous: Truth::unknown(execution, &format!("{label} is anonymous")),
            writable: Truth::unknown(execution, &format!("{label} is writable")),
            datum: Term::unknown(execution, &format!("{label}.datum")),
            inode: Term::unknown(execution, &format!("{label}.inode")),
            off: Natural::unknown(execution, &format!("{label}.off")),
        }
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        let kinds = ["anonymous memory", "a page of a file"];
        let permissions = ["writable memory", "read-only memory"];
        if !self.anonymous.same_in_words(&other.anonymous, kinds, execution)?
            || !self.writable.same_in_words(&other.writable, permissions, execution)?
        {
            return Ok(false);
        }
        Ok(if self.anonymous.ask(execution)? {
            self.datum.same(&other.datum, execution)?
        } else {
            self.inode.same(&other.inode, execution)? && self.off.same(&other.off, execution)?
        })
    }

    fn show(&self, execution: &Execution) -> String {
        self.datum.show(execution)
    }

    fn part(&self, execution: &mut Execution) -> Part {
        Part::Fields(match self.anonymous.known(execution) {
            Some(false) => vec![("inode", self.inode.part(execution))],
            Some(true) => vec![("datum", self.datum.part(execution))],
            None => Vec::new(),
        })
    }
}
