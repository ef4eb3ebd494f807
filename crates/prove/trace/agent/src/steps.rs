//! Executes the steps of a set-up in one process, whose working directory is the directory of the tests.
//! Steps refer to names, inodes, data and addresses by number.

use crate::cleanup::left;
use crate::fault;
use crate::layout::{FREE, INODES, KEPT_AT, NAMES, PAGE, hidden_name, path_of, path_of_end};
use knee_operations::page_at;
use knee_plan::{Home, Mapped, Opened, Step, content};

/// Keeps the upper-level page tables of the tests' addresses allocated, so that the kernel does not free
/// these tables whenever the last page of a test is unmapped.
///
/// Tests should not free an upper-level table, because most programs do not: the table covers a gigabyte or
/// more, and other mappings in that range keep it allocated. When Linux frees an upper-level table, it
/// flushes the whole TLB instead of one page (`tlb_flush_pmd_range` of include/asm-generic/tlb.h). In QEMU,
/// this takes as long as half a test.
pub(crate) fn keep_tables() -> std::io::Result<()> {
    // SAFETY: the call creates a new mapping; with `MAP_FIXED_NOREPLACE`, it replaces no other
    // mapping.
    let at = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        libc::mmap(KEPT_AT as *mut libc::c_void, PAGE, protection, flags, -1, 0)
    };
    if at == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the first byte of the new mapping is writable. This write allocates the tables.
    unsafe { at.cast::<u8>().write_volatile(1) };
    Ok(())
}

/// Why a step failed: the action, as a phrase that follows "cannot", and the errno.
pub(crate) type Failed = (&'static str, i32);

pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn ok(what: &'static str, returned: impl Into<i64>) -> Result<i64, Failed> {
    let returned = returned.into();
    if returned < 0 { Err((what, errno())) } else { Ok(returned) }
}

/// Moves a descriptor to the number `to`.
pub(crate) fn renumber(what: &'static str, from: i32, to: i32) -> Result<(), Failed> {
    left().fds.push(to);
    if from == to {
        return Ok(());
    }
    // SAFETY: both are descriptors of tests, so `to` may be closed.
    unsafe {
        ok(what, libc::dup2(from, to))?;
        libc::close(from);
    }
    Ok(())
}

/// Executes a step. `main` is the ID of the process that holds the pipes.
pub(crate) fn step(step: &Step, main: i32) -> Result<(), Failed> {
    // SAFETY: the system calls get valid C strings, and buffers of the given lengths.
    unsafe {
        match *step {
            Step::File { inode, home, names, links, pages, open, map } => {
                let own = path_of(home);
                let new = match home {
                    Home::Nowhere => libc::O_TMPFILE,
                    _ => libc::O_CREAT | libc::O_EXCL,
                };
                let flags = new | libc::O_RDWR;
                let fd = ok("create a file", libc::open(own.as_ptr(), flags, 0o644))? as i32;
                for &datum in pages.as_slice() {
                    let page = [content(datum); PAGE];
                    ok("write a page", libc::write(fd, page.as_ptr().cast(), PAGE) as i64)?;
                }
                match (map, open) {
                    (Some(mapped), _) => map_file(mapped, fd)?,
                    (None, Some(open)) => place(fd, open, pages.as_slice().len() as i64)?,
                    (None, None) => drop(libc::close(fd)),
                }
                for &name in names.as_slice().iter().skip(1) {
                    let name = NAMES[usize::from(name)];
                    ok("link a name", libc::link(own.as_ptr(), name.as_ptr()))?;
                }
                for nr in names.as_slice().len().max(1) as u8..links {
                    let hidden = hidden_name(inode, nr);
                    ok("link a hidden name", libc::link(own.as_ptr(), hidden.as_ptr()))?;
                }
            }
            Step::Pipe { data, ends } => {
                let mut made = [0; 2];
                ok("make a pipe", libc::pipe2(made.as_mut_ptr(), libc::O_NONBLOCK))?;
                for &datum in data.as_slice() {
                    let page = [content(datum); PAGE];
                    let written = libc::write(made[1], page.as_ptr().cast(), PAGE);
                    ok("fill a pipe", written as i64)?;
                }
                if made == [ends[1], ends[0]] {
                    made[0] = ok("move an end", libc::fcntl(made[0], libc::F_DUPFD, FREE))? as i32;
                    libc::close(ends[1]);
                }
                // An end of the pipe can be moved only to a number that the other end does not have, so
                // choose which end to move first.
                let first = usize::from(ends[0] == made[1]);
                for end in [first, 1 - first] {
                    renumber("move an end", made[end], ends[end])?;
                }
            }
            Step::OpenFile { home, open } => {
                let file = path_of(home);
                let fd = ok("open a file", libc::open(file.as_ptr(), libc::O_RDWR))? as i32;
                place(fd, open, 0)?;
            }
            Step::OpenPipe { fd, end, write } => {
                let path = path_of_end(main, end);
                let mode = if write { libc::O_WRONLY } else { libc::O_RDONLY };
                let open = ok("open an end", libc::open(path.as_ptr(), mode | libc::O_NONBLOCK))?;
                renumber("renumber an end", open as i32, fd)?;
            }
            Step::Occupy { fd } => {
                let open = ok("open the directory", libc::open(c".".as_ptr(), libc::O_PATH))?;
                renumber("occupy a descriptor", open as i32, fd)?;
            }
            Step::MapAnonymous { va, writable, datum } => {
                let page = Mapped { va, writable: true, off: 0 };
                self::map(page, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
                // The store allocates the page.
                fault::store(page_at(va), content(datum));
                if !writable {
                    let at = page_at(va) as *mut libc::c_void;
                    ok("protect a page", libc::mprotect(at, PAGE, libc::PROT_READ))?;
                }
            }
            Step::MapFile { home, map } => {
                let file = path_of(home);
                let fd = ok("open a file to map", libc::open(file.as_ptr(), libc::O_RDWR))? as i32;
                map_file(map, fd)?;
            }
            Step::Learn { .. } | Step::LearnOpen { .. } => {}
            Step::Forget { inode } => {
                let own = INODES[usize::from(inode)];
                ok("remove a temporary name", libc::unlink(own.as_ptr()))?;
            }
            Step::Close { fd } => {
                left().fds.retain(|left| *left != fd);
                ok("close a descriptor", libc::close(fd))?;
            }
        }
    }
    Ok(())
}

/// Moves an open file to the descriptor in `open`, and sets the file's offset. `now` is the current
/// offset, in pages.
fn place(from: i32, open: Opened, now: i64) -> Result<(), Failed> {
    renumber("renumber a file", from, open.fd)?;
    if open.off != now {
        // SAFETY: this is a plain system call.
        let offset = unsafe { libc::lseek(open.fd, open.off * PAGE as i64, libc::SEEK_SET) };
        ok("set an offset", offset)?;
    }
    Ok(())
}

/// Maps a page of a file, and closes the file's descriptor.
fn map_file(page: Mapped, fd: i32) -> Result<(), Failed> {
    let mapped = map(page, libc::MAP_SHARED, fd);
    // SAFETY: only this step uses the descriptor.
    unsafe { libc::close(fd) };
    mapped
}

fn map(page: Mapped, flags: i32, fd: i32) -> Result<(), Failed> {
    let Mapped { va, writable, off } = page;
    let at = page_at(va) as *mut libc::c_void;
    let flags = flags | libc::MAP_FIXED;
    left().pages.push(page_at(va));
    // SAFETY: the address is in the range that is kept for tests.
    let mapped =
        unsafe { libc::mmap(at, PAGE, protection(writable), flags, fd, off * PAGE as i64) };
    if mapped == libc::MAP_FAILED { Err(("map a page", errno())) } else { Ok(()) }
}

pub(crate) fn protection(writable: bool) -> i32 {
    libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 }
}

/// Returns the inode number of a file, if the file exists.
pub(crate) fn inode_number(home: Home) -> Option<u64> {
    // SAFETY: `stat` is plain data, so zeroes are valid.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a valid C string, and `status` is writable.
    let found = unsafe { libc::stat(path_of(home).as_ptr(), &mut status) };
    (found == 0).then_some(status.st_ino)
}
