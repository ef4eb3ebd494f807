//! Calls on files and on the directory.

use crate::models::descriptors::Descriptors;
use crate::models::posix::state::{Fd, FileName, Inode, PROCESSES, Posix};
use crate::{Call, Execution, Int, Outcome, State, Stop, Term, Value};

/// Sets one of a file's timestamps. Assumes that the new time is not earlier than the old one.
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

    /// Changes the number of links of a file by `by`, and changes the file's ctime.
    fn relink(&mut self, inode: Term<Inode>, by: i64, call: &mut Call<'_>) -> Result<(), Stop> {
        let time = call.open_int("time");
        let mut file = self.inodes.get(&inode, call.execution)?;
        file.nlink.0 = file.nlink.0 + by;
        touch(&mut file.ctime, time, call.execution)?;
        self.inodes.insert(inode, file);
        Ok(())
    }

    /// What `stat` returns for a file.
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

/// Opens a file. `choose` selects the descriptor.
pub(super) fn open_as(
    state: &mut Posix,
    call: &mut Call<'_>,
    choose: impl FnOnce(&Descriptors<Fd>, &mut Call<'_>) -> Result<Int, Stop>,
) -> Result<Outcome, Stop> {
    let process = call.process(PROCESSES)?;
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
