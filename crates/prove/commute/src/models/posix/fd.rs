//! Calls that take or return descriptors.

use crate::models::descriptors::{DESCRIPTORS, Descriptors};
use crate::models::posix::file::touch;
use crate::models::posix::state::{Datum, Fd, Inode, PROCESSES, Pipe, Posix};
use crate::{Call, Execution, Int, Natural, Outcome, Queue, Stop, Term, state};

/// The possible values of an offset that is added to another integer. The model asks which of these values
/// the offset has, because an [`Int`] cannot be the sum of two variables.
const STEPS: std::ops::RangeInclusive<i64> = -1..=1;

state! {
    /// A descriptor that a pipe counts as a reader or a writer.
    struct Holder {
        process: Int,
        fd: Int,
    }
}

/// What a descriptor refers to.
pub(super) enum Target {
    File(Fd),
    Pipe { pipe: Term<Pipe>, writer: bool },
}

/// The calling process, the descriptor that the argument names, and what this descriptor refers to
/// (`None` if it is not open).
pub(super) fn target(
    state: &mut Posix,
    call: &mut Call<'_>,
) -> Result<(u8, Int, Option<Target>), Stop> {
    let process = call.process(PROCESSES)?;
    let fd = call.int("fd", 0..=DESCRIPTORS);
    let target = look_up(state, process, fd, call.execution)?;
    Ok((process, fd, target))
}

fn look_up(
    state: &mut Posix,
    process: u8,
    fd: Int,
    execution: &mut Execution,
) -> Result<Option<Target>, Stop> {
    let Some((open, initial)) = state.process(process).fds.find(fd, execution)? else {
        return Ok(None);
    };
    if !open.is_pipe.ask(execution)? {
        return Ok(Some(Target::File(open)));
    }
    let writer = open.writer.ask(execution)?;
    if initial {
        let first = state.pipes.initial(&open.pipe, execution)?;
        let ends = if writer { first.writers } else { first.readers };
        let process = i64::from(process).into();
        ends.assume_counts(&Holder { process, fd }, execution)?;
    }
    Ok(Some(Target::Pipe { pipe: open.pipe, writer }))
}

/// The file that `mmap` maps, or the error that `mmap` returns.
pub(super) fn file_of(
    state: &mut Posix,
    process: u8,
    fd: Int,
    call: &mut Call<'_>,
) -> Result<Result<Term<Inode>, &'static str>, Stop> {
    Ok(match look_up(state, process, fd, call.execution)? {
        None => Err("EBADF"),
        // Linux checks first that the descriptor is readable, then (for a writable mapping) that it is also
        // writable, and last that the file can be mapped at all.
        Some(Target::Pipe { writer: true, .. }) => Err("EACCES"),
        Some(Target::Pipe { writer: false, .. }) if call.flag("writable")? => Err("EACCES"),
        Some(Target::Pipe { .. }) => Err("ENODEV"),
        Some(Target::File(open)) => Ok(open.inode),
    })
}

pub(super) fn fd_argument(call: &mut Call<'_>) -> Int {
    call.int("fd", 0..=DESCRIPTORS)
}

pub(super) fn fstat(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    Ok(match target(state, call)?.2 {
        None => Outcome::of("EBADF"),
        Some(Target::Pipe { .. }) => Outcome::of("a pipe"),
        Some(Target::File(open)) => state.status(open.inode, call.execution)?,
    })
}

pub(super) fn lseek(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (process, fd, target) = target(state, call)?;
    let Some(target) = target else { return Ok(Outcome::of("EBADF")) };
    let whence = call.word("whence", &["SEEK_SET", "SEEK_CUR", "SEEK_END", "other"]);
    if whence.is("other", call.execution)? {
        return Ok(Outcome::of("EINVAL"));
    }
    let Target::File(mut open) = target else { return Ok(Outcome::of("ESPIPE")) };
    let off = call.int("off", -1..=DESCRIPTORS);
    let new = match whence.which(call.execution)? {
        "SEEK_SET" => off,
        "SEEK_CUR" => open.off.0 + call.execution.concrete(off, STEPS)?,
        _ => {
            let len = state.inodes.get(&open.inode, call.execution)?.data.len.0;
            len + call.execution.concrete(off, STEPS)?
        }
    };
    if call.execution.at_most(new, -1)? {
        return Ok(Outcome::of("EINVAL"));
    }
    open.off.0 = new;
    state.process(process).fds.insert(fd, open);
    Ok(Outcome::of(new))
}

pub(super) fn close(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (process, fd, target) = target(state, call)?;
    match target {
        None => return Ok(Outcome::of("EBADF")),
        Some(Target::File(_)) => {}
        Some(Target::Pipe { pipe, writer }) => {
            let mut ends = state.pipes.get(&pipe, call.execution)?;
            let count = if writer { &mut ends.writers } else { &mut ends.readers };
            count.0 = count.0 - 1;
            state.pipes.insert(pipe, ends);
        }
    }
    state.process(process).fds.remove(fd);
    Ok(Outcome::of("0"))
}

pub(super) fn pipe(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    pipe_as(state, call, |fds, _, call| fds.lowest(call.execution))
}

/// Makes a pipe. `choose` selects the two descriptors of the pipe, one after the other.
pub(super) fn pipe_as(
    state: &mut Posix,
    call: &mut Call<'_>,
    choose: impl Fn(&Descriptors<Fd>, usize, &mut Call<'_>) -> Result<Int, Stop>,
) -> Result<Outcome, Stop> {
    let process = call.process(PROCESSES)?;
    let pipe = call.fresh("pipe")?;
    let mut ends = state.pipes.get(&pipe, call.execution)?;
    ends.data = Queue::empty();
    [ends.readers, ends.writers] = [Natural(1.into()); 2];
    state.pipes.insert(pipe, ends);
    let mut numbers = [Int::from(0); 2];
    for (nth, writer) in [false, true].into_iter().enumerate() {
        let end = Fd::pipe(pipe, writer, call.execution);
        let fds = &mut state.process(process).fds;
        numbers[nth] = choose(fds, nth, call)?;
        fds.insert(numbers[nth], end);
    }
    Ok(Outcome::nothing().and("read end", numbers[0]).and("write end", numbers[1]))
}

/// Reads a page of a file and changes the file's atime.
fn read_file(
    state: &mut Posix,
    inode: Term<Inode>,
    off: Int,
    call: &mut Call<'_>,
) -> Result<Option<Term<Datum>>, Stop> {
    let mut file = state.inodes.get(&inode, call.execution)?;
    let Some(datum) = file.data.read(off, call.execution)? else { return Ok(None) };
    let time = call.open_int("time");
    touch(&mut file.atime, time, call.execution)?;
    state.inodes.insert(inode, file);
    Ok(Some(datum))
}

/// Writes a page of a file and changes the file's mtime and ctime.
fn write_file(
    state: &mut Posix,
    inode: Term<Inode>,
    off: Int,
    call: &mut Call<'_>,
) -> Result<(), Stop> {
    let mut file = state.inodes.get(&inode, call.execution)?;
    let (datum, time) = (call.term("datum"), call.open_int("time"));
    file.data.write(off, datum, call.execution)?;
    touch(&mut file.mtime, time, call.execution)?;
    touch(&mut file.ctime, time, call.execution)?;
    state.inodes.insert(inode, file);
    Ok(())
}

pub(super) fn read(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (process, fd, target) = target(state, call)?;
    match target {
        None | Some(Target::Pipe { writer: true, .. }) => Ok(Outcome::of("EBADF")),
        Some(Target::Pipe { pipe, .. }) => {
            let mut ends = state.pipes.get(&pipe, call.execution)?;
            if let Some(datum) = ends.data.pop(call.execution)? {
                state.pipes.insert(pipe, ends);
                return Ok(Outcome::of(datum));
            }
            let more = call.execution.at_most(1, ends.writers.0)?;
            Ok(Outcome::of(if more { "EAGAIN" } else { "end" }))
        }
        Some(Target::File(mut open)) => {
            let off = open.off.0;
            let Some(datum) = read_file(state, open.inode, off, call)? else {
                return Ok(Outcome::of("end"));
            };
            open.off.0 = off + 1;
            state.process(process).fds.insert(fd, open);
            Ok(Outcome::of(datum))
        }
    }
}

pub(super) fn write(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (process, fd, target) = target(state, call)?;
    match target {
        None | Some(Target::Pipe { writer: false, .. }) => Ok(Outcome::of("EBADF")),
        Some(Target::Pipe { pipe, .. }) => {
            let mut ends = state.pipes.get(&pipe, call.execution)?;
            if call.execution.at_most(ends.readers.0, 0)? {
                return Ok(Outcome::of("EPIPE"));
            }
            ends.data.push(call.term("datum"));
            state.pipes.insert(pipe, ends);
            Ok(Outcome::of("0"))
        }
        Some(Target::File(mut open)) => {
            let off = open.off.0;
            write_file(state, open.inode, off, call)?;
            open.off.0 = off + 1;
            state.process(process).fds.insert(fd, open);
            Ok(Outcome::of("0"))
        }
    }
}

pub(super) fn pread(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let off = call.int("off", 0..=DESCRIPTORS);
    Ok(match target(state, call)?.2 {
        None => Outcome::of("EBADF"),
        Some(Target::Pipe { .. }) => Outcome::of("ESPIPE"),
        Some(Target::File(open)) => {
            read_file(state, open.inode, off, call)?.map_or(Outcome::of("end"), Outcome::of)
        }
    })
}

pub(super) fn pwrite(state: &mut Posix, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let off = call.int("off", 0..=DESCRIPTORS);
    match target(state, call)?.2 {
        None => Ok(Outcome::of("EBADF")),
        Some(Target::Pipe { .. }) => Ok(Outcome::of("ESPIPE")),
        Some(Target::File(open)) => {
            write_file(state, open.inode, off, call)?;
            Ok(Outcome::of("0"))
        }
    }
}
