//! Files and the directory that names them.

use super::{Datum, FileName, Inode, Posix};
use crate::models::descriptors::Descriptors;
use crate::models::posix::fd::Fd;
use crate::{
    Call, Execution, Int, Natural, Outcome, Part, State, Stop, Term, TotalMap, Value, state,
};

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

/// What is in a file, in pages.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) len: Natural,
    pub(super) pages: TotalMap<Int, Term<Datum>>,
}

impl State for Data {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        // What is in a file is the file's.
        let label = label.trim_end_matches(".data");
        Self {
            len: Natural::unknown(execution, &format!("{label}.len")),
            pages: TotalMap::unknown(execution, label),
        }
    }

    /// Pages beyond the end cannot be seen, now or later.
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
    /// The page at `off`; `None` at the end of the file.
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

    /// Writes the page at `off`, which is in the file or right behind it.
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

/// Sets a time to one that is not before it.
pub(super) fn touch(field: &mut Int, time: Int, execution: &mut Execution) -> Result<(), Stop> {
    execution.assume_at_most(*field, time)?;
    *field = time;
    Ok(())
}

impl Posix {
    /// The file called `name`.
    fn lookup(
        &self,
        name: &Term<FileName>,
        execution: &mut Execution,
    ) -> Result<Option<Term<Inode>>, Stop> {
        let Some((inode, initial)) = self.dir.find(name, execution)? else { return Ok(None) };
        if initial {
            let links = self.inodes.initial(&inode, execution)?.nlink;
            links.assume_counts(name, execution)?;
        }
        Ok(Some(inode))
    }

    /// Changes the number of links of a file, and its ctime.
    fn relink(&mut self, inode: Term<Inode>, by: i64, call: &mut Call<'_>) -> Result<(), Stop> {
        let time = call.open_int("time");
        let mut file = self.inodes.get(&inode, call.execution)?;
        file.nlink.0 = file.nlink.0 + by;
        touch(&mut file.ctime, time, call.execution)?;
        self.inodes.insert(inode, file);
        Ok(())
    }

    /// What stat tells of a file.
    pub(super) fn status(
        &self,
        inode: Term<Inode>,
        execution: &mut Execution,
    ) -> Result<Outcome, Stop> {
        let file = self.inodes.get(&inode, execution)?;
        Ok(Outcome::nothing()
            .and("ino", inode)
            .and("size", file.data.len.0)
            .and("nlink", file.nlink.0)
            .and("atime", Value::Time(file.atime))
            .and("mtime", Value::Time(file.mtime))
            .and("ctime", Value::Time(file.ctime)))
    }
}

pub(super) fn open(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let choose = |fds: &Descriptors<Fd>, call: &mut Call<'_>| match call.flag("anyfd")? {
        true => fds.any(0, call),
        false => fds.lowest(call.execution),
    };
    open_as(state, call, choose)
}

/// Opens a file as the descriptor that is chosen.
pub(super) fn open_as(
    state: &mut Posix,
    call: &mut Call<'_>,
    choose: impl FnOnce(&Descriptors<Fd>, &mut Call<'_>) -> Result<Int, Stop>,
) -> Result<Outcome, Stop> {
    let process = call.process()?;
    let name = call.term("name");
    let creat = call.flag("creat")?;
    let inode = match state.lookup(&name, call.execution)? {
        None if !creat => return Ok(Outcome::of("ENOENT")),
        None => {
            let time = call.open_int("time");
            let inode = call.fresh("inode")?;
            let mut file = state.inodes.get(&inode, call.execution)?;
            file.data.len.0 = 0.into();
            file.nlink.0 = 1.into();
            [file.atime, file.mtime, file.ctime] = [time; 3];
            state.inodes.insert(inode, file);
            state.dir.insert(name, inode);
            inode
        }
        Some(_) if creat && call.flag("excl")? => return Ok(Outcome::of("EEXIST")),
        Some(inode) => {
            if call.flag("trunc")? {
                let time = call.open_int("time");
                let mut file = state.inodes.get(&inode, call.execution)?;
                file.data.len.0 = 0.into();
                touch(&mut file.mtime, time, call.execution)?;
                touch(&mut file.ctime, time, call.execution)?;
                state.inodes.insert(inode, file);
            }
            inode
        }
    };
    let fds = &mut state.process(process).fds;
    let fd = choose(fds, call)?;
    fds.insert(fd, Fd::file(inode, call.execution));
    Ok(Outcome::of(fd))
}

pub(super) fn link(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (old, new) = (call.term("old"), call.term("new"));
    let Some(inode) = state.lookup(&old, call.execution)? else { return Ok(Outcome::of("ENOENT")) };
    if state.lookup(&new, call.execution)?.is_some() {
        return Ok(Outcome::of("EEXIST"));
    }
    state.dir.insert(new, inode);
    state.relink(inode, 1, call)?;
    Ok(Outcome::of("0"))
}

pub(super) fn unlink(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let name = call.term("name");
    let Some(inode) = state.lookup(&name, call.execution)? else {
        return Ok(Outcome::of("ENOENT"));
    };
    state.dir.remove(name);
    state.relink(inode, -1, call)?;
    Ok(Outcome::of("0"))
}

pub(super) fn rename(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (old, new) = (call.term("old"), call.term("new"));
    let Some(inode) = state.lookup(&old, call.execution)? else { return Ok(Outcome::of("ENOENT")) };
    if let Some(replaced) = state.lookup(&new, call.execution)? {
        if replaced.same(&inode, call.execution)? {
            return Ok(Outcome::of("0"));
        }
        state.relink(replaced, -1, call)?;
    }
    state.dir.remove(old);
    state.dir.insert(new, inode);
    state.relink(inode, 0, call)?;
    Ok(Outcome::of("0"))
}

pub(super) fn stat(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let name = call.term("name");
    match state.lookup(&name, call.execution)? {
        None => Ok(Outcome::of("ENOENT")),
        Some(inode) => state.status(inode, call.execution),
    }
}
