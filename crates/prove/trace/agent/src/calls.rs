//! Makes the calls of a test.

use knee_operations::page_at;
use knee_plan::{Call, Nr, Returned, Whence, content};
use std::cell::RefCell;

use crate::apart;
use crate::cleanup::left;
use crate::fault;
use crate::layout::{ANY_FDS, NAMES, PAGE};
use crate::steps::{errno, protection, renumber};

thread_local! {
    /// The buffer of reads and writes. Only reads and writes fill the buffer first, because filling is slow
    /// on an emulated CPU.
    static BUFFER: RefCell<[u8; PAGE]> = const { RefCell::new([0; PAGE]) };
}

/// Opens window `nr`, makes call `nr` of a test, and closes the window. `seen` is true if the run is traced.
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
    // SAFETY: `stat` is plain data, so zeroes are valid.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    let name = |nr: Nr| NAMES[usize::from(nr)].as_ptr();
    let bytes = |pages: i64| pages.wrapping_mul(PAGE as i64);
    let side = nr as u8;
    apart::open(side, seen);
    // SAFETY: the system calls get valid C strings, and buffers of the given lengths. The
    // descriptors belong to the test and not to the agent. Memory that is mapped, unmapped or
    // protected is in the range that is kept for tests, or at an address that the kernel chooses.
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
        // Linux has no O_ANYFD: `open` returns the lowest free descriptor, and the agent renumbers
        // it after the window.
        Call::Open { anyfd: true, .. } => {
            let any = ANY_FDS + nr as i32;
            match renumber("renumber a file", returned as i32, any) {
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
            // A `memwrite` changes only the first byte of a page, so this byte is compared.
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

/// A value of `whence` that lseek rejects.
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
