//! Steps and calls, as one process does them. Its working directory is that of the tests; names,
//! inodes, data and addresses are numbers.

use std::cell::RefCell;
use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

use crate::apart;
use crate::fault;
use crate::plan::{Call, Home, MOST, Mapped, Nr, Opened, Plan, Step, Whence, ZEROES};
use crate::returned::Returned;

/// The unit of offsets, lengths and contents.
pub(crate) const PAGE: usize = 4096;
/// Where pages of tests are mapped: far from all that a program has by itself.
pub(crate) const PAGES_AT: usize = 0x1234_5600_0000;
/// Between two of them: each has a page table of its own, so that no two share a line of one by
/// their position alone.
pub(crate) const PAGES_APART: usize = 2 << 20;

/// Where a page is for ever, near those of tests; see [`keep_tables`].
const KEPT_AT: usize = PAGES_AT + MOST * PAGES_APART;

/// What an open with O_ANYFD returns, and the numbers behind it: nobody else means them.
const ANY_FDS: i32 = 500;
/// The ends of pipes that the agent holds during set-up, two for each.
pub(crate) const BASE_ENDS: i32 = 700;
/// Ends that nobody uses.
const HIDDEN_ENDS: i32 = 720;
/// Hidden ends of one kind of one pipe.
pub(crate) const MOST_HIDDEN: i32 = 8;
/// Nobody has this number or one above but for a moment.
const FREE: i32 = 880;
/// The agent's own descriptors are here and above.
pub(crate) const OWN: u32 = 900;

/// Names in the directory, by number.
const NAMES: [&CStr; MOST] = [c"f0", c"f1", c"f2", c"f3", c"f4", c"f5", c"f6", c"f7"];
/// Names of inodes during set-up.
const INODES: [&CStr; MOST] = [c".i0", c".i1", c".i2", c".i3", c".i4", c".i5", c".i6", c".i7"];
/// The first hidden name of each inode.
const HIDDEN: [&CStr; MOST] = [c".h0", c".h1", c".h2", c".h3", c".h4", c".h5", c".h6", c".h7"];

/// What a test may have left in this process. It is cleaned by name: to look for it would take
/// longer than the test.
#[derive(Debug, Default)]
struct Left {
    fds: Vec<i32>,
    /// Addresses of pages.
    pages: Vec<usize>,
}

static LEFT: Mutex<Left> = Mutex::new(Left { fds: Vec::new(), pages: Vec::new() });

fn left() -> std::sync::MutexGuard<'static, Left> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of a file during set-up.
fn path_of(home: Home) -> &'static CStr {
    match home {
        Home::Name(nr) => NAMES[usize::from(nr)],
        Home::Hidden(inode) => HIDDEN[usize::from(inode)],
        Home::Own(inode) => INODES[usize::from(inode)],
        Home::Nowhere => c".",
    }
}

/// Where page `nr` of tests is.
pub(crate) fn page_at(nr: Nr) -> usize {
    PAGES_AT + usize::from(nr) * PAGES_APART
}

/// Keeps the tables above the page tables of tests, which otherwise go with a test's last page.
///
/// They cover a gigabyte and more, and in most programs something else is mapped there. And Linux does
/// not flush the one page then from the TLB but all, as tables cover so many (`tlb_flush_pmd_range` of
/// include/asm-generic/tlb.h), which costs QEMU as much as half of a test.
pub(crate) fn keep_tables() -> std::io::Result<()> {
    // SAFETY: new memory where nothing is.
    let at = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        libc::mmap(KEPT_AT as *mut libc::c_void, PAGE, protection, flags, -1, 0)
    };
    if at == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a writable byte of that memory. The tables are there once it has been written.
    unsafe { at.cast::<u8>().write_volatile(1) };
    Ok(())
}

/// The byte that a datum is full of; 0 is what new memory is full of.
pub(crate) fn content(datum: Nr) -> u8 {
    if datum == ZEROES { 0 } else { datum + 1 }
}

/// An error of set-up: what was tried, and errno.
pub(crate) type Failed = (&'static str, i32);

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn ok(what: &'static str, returned: impl Into<i64>) -> Result<i64, Failed> {
    let returned = returned.into();
    if returned < 0 { Err((what, errno())) } else { Ok(returned) }
}

/// The path of a descriptor of the agent's main process, by which the other one opens it too.
fn path_of_end(main: i32, fd: i32) -> std::ffi::CString {
    std::ffi::CString::new(format!("/proc/{main}/fd/{fd}")).expect("no NUL in it")
}

/// Moves a descriptor to the number that it is to have.
fn renumber(what: &'static str, from: i32, to: i32) -> Result<(), Failed> {
    left().fds.push(to);
    if from == to {
        return Ok(());
    }
    // SAFETY: both are descriptors of tests; what had the number `to` is closed, as it should be.
    unsafe {
        ok(what, libc::dup2(from, to))?;
        libc::close(from);
    }
    Ok(())
}

/// The descriptor of a hidden end of a pipe.
pub(crate) fn hidden_end(pipe: Nr, write: bool, nr: u8) -> i32 {
    let kind = 2 * i32::from(pipe) + i32::from(write);
    HIDDEN_ENDS + kind * MOST_HIDDEN + i32::from(nr)
}

/// Hidden names of an inode but the first, by number.
fn hidden_name(inode: Nr, nr: u8) -> std::ffi::CString {
    std::ffi::CString::new(format!(".h{inode}.{nr}")).expect("no NUL in it")
}

/// Does a step; `main` is the process that has the pipes.
pub(crate) fn step(step: &Step, main: i32) -> Result<(), Failed> {
    // SAFETY: system calls with valid C strings, and with buffers of the length that is given.
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
                // The one first whose number the other one does not have.
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
                renumber("number an end", open as i32, fd)?;
            }
            Step::Occupy { fd } => {
                let open = ok("open the directory", libc::open(c".".as_ptr(), libc::O_PATH))?;
                renumber("occupy a descriptor", open as i32, fd)?;
            }
            Step::MapAnonymous { va, writable, datum } => {
                let page = Mapped { va, writable: true, off: 0 };
                self::map(page, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
                // So that the page is there.
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
                ok("forget a name", libc::unlink(own.as_ptr()))?;
            }
            Step::Close { fd } => {
                left().fds.retain(|left| *left != fd);
                ok("close a descriptor", libc::close(fd))?;
            }
        }
    }
    Ok(())
}

/// Gives a file the descriptor and the offset that it is to have; it is at page `now`.
fn place(from: i32, open: Opened, now: i64) -> Result<(), Failed> {
    renumber("number a file", from, open.fd)?;
    if open.off != now {
        // SAFETY: a plain system call.
        let offset = unsafe { libc::lseek(open.fd, open.off * PAGE as i64, libc::SEEK_SET) };
        ok("set an offset", offset)?;
    }
    Ok(())
}

/// Maps a page of a file, and closes it.
fn map_file(page: Mapped, fd: i32) -> Result<(), Failed> {
    let mapped = map(page, libc::MAP_SHARED, fd);
    // SAFETY: a descriptor of the set-up, which nobody else has.
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

fn protection(writable: bool) -> i32 {
    libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 }
}

thread_local! {
    /// What is read and written. It is filled for calls that do: an emulated CPU takes a while.
    static BUFFER: RefCell<[u8; PAGE]> = const { RefCell::new([0; PAGE]) };
}

/// Makes call `nr` of a test, in its window; the plugin may see it or not.
pub(crate) fn call(call: &Call, nr: usize, seen: bool) -> Returned {
    BUFFER.with_borrow_mut(|page| {
        match *call {
            Call::Write { datum, .. } | Call::Pwrite { datum, .. } => page.fill(content(datum)),
            Call::Read { .. } | Call::Pread { .. } => page.fill(0),
            _ => {}
        }
        call_with(page, call, nr, seen)
    })
}

fn call_with(page: &mut [u8; PAGE], call: &Call, nr: usize, seen: bool) -> Returned {
    let mut ends = [0; 2];
    // SAFETY: `stat` is plain data.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    let name = |nr: Nr| NAMES[usize::from(nr)].as_ptr();
    let bytes = |pages: i64| pages.wrapping_mul(PAGE as i64);
    let side = nr as u8;
    apart::open(side, seen);
    // SAFETY: system calls with valid C strings, and with buffers of the length that is given.
    // Descriptors are whatever the test says, all of them of tests; memory that is mapped, unmapped
    // and protected is in the range that is kept for tests, or where the kernel finds room.
    let returned: i64 = unsafe {
        match *call {
            Call::Open { name: file, creat, excl, trunc, .. } => {
                let flag = |set: bool, flag| if set { flag } else { 0 };
                let flags = libc::O_RDWR
                    | flag(creat, libc::O_CREAT)
                    | flag(excl, libc::O_EXCL)
                    | flag(trunc, libc::O_TRUNC);
                libc::open(name(file), flags, 0o644).into()
            }
            Call::Link { old, new } => libc::link(name(old), name(new)).into(),
            Call::Unlink { name: file } => libc::unlink(name(file)).into(),
            Call::Rename { old, new } => libc::rename(name(old), name(new)).into(),
            Call::Stat { name: file } => libc::stat(name(file), &mut status).into(),
            Call::Fstat { fd } => libc::fstat(fd, &mut status).into(),
            Call::Lseek { fd, off, whence } => {
                let whence = match whence {
                    Whence::Set => libc::SEEK_SET,
                    Whence::Cur => libc::SEEK_CUR,
                    Whence::End => libc::SEEK_END,
                    Whence::Invalid => INVALID_WHENCE,
                };
                libc::lseek(fd, bytes(off), whence)
            }
            Call::Close { fd } => libc::close(fd).into(),
            Call::Pipe => libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK).into(),
            Call::Read { fd } => libc::read(fd, page.as_mut_ptr().cast(), PAGE) as i64,
            Call::Write { fd, .. } => libc::write(fd, page.as_ptr().cast(), PAGE) as i64,
            Call::Pread { fd, off } => {
                libc::pread(fd, page.as_mut_ptr().cast(), PAGE, bytes(off)) as i64
            }
            Call::Pwrite { fd, off, .. } => {
                libc::pwrite(fd, page.as_ptr().cast(), PAGE, bytes(off)) as i64
            }
            Call::Mmap { fd, off, writable, va } => {
                let at = va.map_or(0, page_at) as *mut libc::c_void;
                let fixed = if va.is_some() { libc::MAP_FIXED } else { 0 };
                let kind = match fd {
                    None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    Some(_) => libc::MAP_SHARED,
                };
                let fd = fd.unwrap_or(-1);
                libc::mmap(at, PAGE, protection(writable), kind | fixed, fd, bytes(off)) as i64
            }
            Call::Munmap { va } => libc::munmap(page_at(va) as *mut libc::c_void, PAGE).into(),
            Call::Mprotect { va, writable } => {
                let at = page_at(va) as *mut libc::c_void;
                libc::mprotect(at, PAGE, protection(writable)).into()
            }
            Call::Memread { va } => {
                let loaded = fault::load(page_at(va));
                apart::close(side);
                return loaded;
            }
            Call::Memwrite { va, datum } => {
                let stored = fault::store(page_at(va), content(datum));
                apart::close(side);
                return stored;
            }
        }
    };
    apart::close(side);
    let errno = if returned == -1 { errno() } else { 0 };
    if returned == -1 {
        return Returned::Error(errno);
    }
    match *call {
        // There is no O_ANYFD here: the kernel gives the lowest, which others are not to notice.
        Call::Open { anyfd: true, .. } => {
            let any = ANY_FDS + nr as i32;
            match renumber("number a file", returned as i32, any) {
                Ok(()) => Returned::Number(any.into()),
                Err((_, errno)) => Returned::Error(errno),
            }
        }
        Call::Open { .. } => {
            left().fds.push(returned as i32);
            Returned::Number(returned)
        }
        Call::Lseek { .. } if returned % PAGE as i64 != 0 => Returned::Odd(returned),
        Call::Lseek { .. } => Returned::Number(returned / PAGE as i64),
        Call::Stat { .. } | Call::Fstat { .. } => self::status(&status),
        Call::Pipe => {
            left().fds.extend(ends);
            Returned::Ends(ends)
        }
        Call::Read { .. } | Call::Pread { .. } => match returned {
            0 => Returned::End,
            // A store into memory changes the first byte only.
            n if n == PAGE as i64 => Returned::Page(page[0]),
            n => Returned::Odd(n),
        },
        Call::Write { .. } | Call::Pwrite { .. } if returned != PAGE as i64 => {
            Returned::Odd(returned)
        }
        Call::Mmap { .. } => {
            left().pages.push(returned as usize);
            Returned::Address(returned as usize)
        }
        _ => Returned::Done,
    }
}

/// No way to count offsets.
const INVALID_WHENCE: i32 = 99;

fn status(status: &libc::stat) -> Returned {
    if status.st_mode & libc::S_IFMT == libc::S_IFIFO {
        return Returned::APipe;
    }
    if status.st_size % PAGE as i64 != 0 {
        return Returned::Odd(status.st_size);
    }
    let (pages, links) = (status.st_size / PAGE as i64, status.st_nlink);
    Returned::Status { inode: status.st_ino, pages, links }
}

/// The number of the inode of a file, if there is one.
pub(crate) fn inode_number(home: Home) -> Option<u64> {
    // SAFETY: `stat` is plain data, and the path a valid C string.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let found = unsafe { libc::stat(path_of(home).as_ptr(), &mut status) };
    (found == 0).then_some(status.st_ino)
}

/// Takes away all descriptors and mappings that a test has made in this process.
pub(crate) fn clean() {
    let mut left = left();
    for fd in left.fds.drain(..) {
        // SAFETY: a descriptor of a test, or none any more. The agent's own are above.
        unsafe { libc::close(fd) };
        const { assert!(HIDDEN_ENDS + 2 * MOST as i32 * MOST_HIDDEN <= FREE && FREE < OWN as i32) };
    }
    for at in left.pages.drain(..) {
        // SAFETY: in the range kept for tests, or where a call of a test has mapped a page.
        unsafe { libc::munmap(at as *mut libc::c_void, PAGE) };
    }
}

/// Takes away the files that a test may have left whose set-up went well.
pub(crate) fn clean_files(plan: &Plan) {
    // SAFETY: names are valid C strings; that some are not there is as good.
    let unlink = |name: &CStr| unsafe { libc::unlink(name.as_ptr()) };
    let mut unlinked = [false; MOST];
    let mut name = |nr: Nr| {
        if !std::mem::replace(&mut unlinked[usize::from(nr)], true) {
            unlink(NAMES[usize::from(nr)]);
        }
    };
    for (_, step) in &plan.steps {
        if let Step::File { names, .. } = step {
            names.as_slice().iter().for_each(|&nr| name(nr));
        }
    }
    for (_, call) in &plan.calls {
        match *call {
            Call::Open { name: made, creat: true, .. } => name(made),
            Call::Link { new, .. } | Call::Rename { new, .. } => name(new),
            _ => {}
        }
    }
    for (_, step) in &plan.steps {
        let Step::File { inode, home, names, links, .. } = *step else { continue };
        if home == Home::Hidden(inode) {
            unlink(path_of(home));
        }
        for nr in names.as_slice().len().max(1) as u8..links {
            unlink(&hidden_name(inode, nr));
        }
    }
}

/// Takes away all descriptors and mappings that a test can have made in this process, for one that
/// was broken off.
pub(crate) fn sweep() {
    clean();
    // SAFETY: the range kept for tests; the agent's own descriptors are above.
    unsafe {
        libc::munmap(PAGES_AT as *mut libc::c_void, MOST * PAGES_APART);
        libc::syscall(libc::SYS_close_range, 0_u32, OWN - 1, 0_u32);
    }
}

/// Takes away all files, whoever made them.
pub(crate) fn sweep_files() {
    let Ok(files) = std::fs::read_dir(".") else { return };
    for file in files.flatten() {
        // What cannot be removed is in the way of the next set-up, which tells so.
        let _ = std::fs::remove_file(file.path());
    }
}
