//! Iterations of testcases of `knee list`, with the same calls as their loops.
//!
//! Loops that run only in user mode are missing, because the figures are those of kernel code.

use std::os::fd::AsRawFd;
use std::ptr;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{AtFlags, SeekFrom};
use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::thread::futex::{self, Flags};
use rustix::{fs, io, pipe, process};

use super::own::{Operation, Own};
use crate::fault;
use crate::layout::PAGE;

type Step = knee_operations::Step<Own, Errno>;

/// The size of the mapping of `mmap1` in bytes.
const LARGE: usize = 128 << 20;

/// Returns a testcase on the task's own one-page file, which the task has open.
const fn on_own_file(name: &'static str, about: &'static str, call: Step) -> Operation {
    let set_up: Step = |own| own.create().and_then(|()| own.open());
    Operation { set_up, ..Operation::plain(name, about, call) }
}

/// Returns a testcase on the file that all tasks share. Each task opens this file itself.
const fn on_shared_file(name: &'static str, about: &'static str, call: Step) -> Operation {
    let set_up: Step = |own| own.use_shared().and_then(|()| own.open());
    Operation { set_up, ..Operation::plain(name, about, call) }
}

/// Returns a testcase that opens and closes a file, whose name `set_up` chooses.
const fn on_path(name: &'static str, about: &'static str, set_up: Step) -> Operation {
    let call: Step = |own| own.open().and_then(|()| own.close());
    Operation { set_up, ..Operation::plain(name, about, call) }
}

/// Returns a testcase that sends bytes through a channel of the task and receives them.
const fn on_channel(name: &'static str, about: &'static str, set_up: Step) -> Operation {
    Operation { set_up, ..Operation::plain(name, about, there_and_back) }
}

fn there_and_back(own: &mut Own) -> Result<()> {
    let (reader, writer) = own.ends.as_ref().ok_or(Errno::BADF)?;
    let mut number = 1u64.to_ne_bytes();
    let message = &mut number[..own.message];
    io::write(writer, message)?;
    io::read(reader, message).map(drop)
}

/// Locks the first byte of the task's file for writing, and unlocks it.
fn lock_and_unlock(own: &mut Own) -> Result<()> {
    let file = own.file()?.as_raw_fd();
    [libc::F_WRLCK, libc::F_UNLCK].into_iter().try_for_each(|kind| {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: F_SETLKW reads a flock through its third argument, which outlives the call.
        done(unsafe { libc::fcntl(file, libc::F_SETLKW, &raw const lock) }.into())
    })
}

/// Converts the result of a system call of libc, which is -1 after an error.
fn done(result: libc::c_long) -> Result<()> {
    match result {
        -1 => {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
            Err(Errno::from_raw_os_error(errno))
        }
        _ => Ok(()),
    }
}

fn poll(own: &mut Own) -> Result<()> {
    let file = own.file()?.as_raw_fd();
    let mut question = libc::pollfd { fd: file, events: libc::POLLOUT, revents: 0 };
    // SAFETY: the pointer is that of one `pollfd`. This is not the `poll` of rustix, which makes the system
    // call ppoll.
    done(unsafe { libc::poll(&raw mut question, 1, 0) }.into())
}

extern "C" fn handle(_: libc::c_int) {}

fn install_handler(_: &mut Own) -> Result<()> {
    // SAFETY: a `sigaction` of zeroes has no flags and masks nothing. The handler does nothing, so it may run
    // anywhere and in any thread.
    done(libc::c_long::from(unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut())
    }))
}

/// Makes the system calls of `raise` in glibc 2.34 and later. `raise` in musl also blocks signals.
fn raise(_: &mut Own) -> Result<()> {
    // SAFETY: these system calls read no memory, and the signal has a handler.
    done(unsafe {
        let thread = libc::syscall(libc::SYS_gettid);
        let process = libc::syscall(libc::SYS_getpid);
        libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1)
    })
}

fn map_and_unmap(_: &mut Own) -> Result<()> {
    let writable = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the address, so no mapping is replaced, and nothing refers to the mapping
    // when it is removed.
    unsafe {
        let at = mmap_anonymous(ptr::null_mut(), LARGE, writable, MapFlags::PRIVATE)?;
        munmap(at, LARGE)
    }
}

fn map_page(own: &mut Own) -> Result<()> {
    let writable = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the address, so no mapping is replaced.
    own.page =
        unsafe { mmap_anonymous(ptr::null_mut(), PAGE, writable, MapFlags::PRIVATE)? }.addr();
    fault::store(own.page, 1);
    Ok(())
}

fn flip_protection(own: &mut Own) -> Result<()> {
    let page = ptr::without_provenance_mut(own.page);
    // SAFETY: this is the page that `map_page` mapped, and there are no references to it.
    unsafe {
        mprotect(page, PAGE, MprotectFlags::READ)?;
        mprotect(page, PAGE, MprotectFlags::READ | MprotectFlags::WRITE)?;
    }
    fault::store(own.page, 1);
    Ok(())
}

fn wake(own: &mut Own, flags: Flags) -> Result<()> {
    futex::wake(own.futex(), flags, 1).map(drop)
}

/// Waits on a futex whose value has changed.
fn wait(own: &mut Own, flags: Flags) -> Result<()> {
    match futex::wait(own.futex(), flags, 1, None) {
        Err(Errno::AGAIN) => Ok(()),
        other => other,
    }
}

/// The testcases.
pub(super) const TESTCASES: &[Operation] = &[
    Operation::plain("getppid1", "getppid()", |_| {
        let _ = process::getppid();
        Ok(())
    }),
    Operation::plain("getuid1", "getuid()", |_| {
        let _ = process::getuid();
        Ok(())
    }),
    Operation {
        set_up: install_handler,
        ..Operation::plain("signal1", "raise(SIGUSR1), delivered to an empty handler", raise)
    },
    on_path("open1", "open() and close() of a file; all tasks use one directory", |own| {
        own.go_into("shared-directory")?;
        own.create()
    }),
    on_path("open2", "open() and close() of a file in the task's own directory", |own| {
        own.go_into("parent")?;
        fs::mkdir(&own.name, fs::Mode::RWXU)?;
        let directory = own.name.to_string_lossy().into_owned();
        own.name = c"file".to_owned();
        own.go_into(&directory)?;
        own.create()
    }),
    on_path("open3", "open() and close() of a file; all tasks use one file", Own::use_shared),
    Operation {
        set_up: |own| own.go_into("shared-directory"),
        ..Operation::plain(
            "unlink1",
            "open(O_CREAT), close() and unlink() of a file; all tasks use one directory",
            |own| own.create_empty().and_then(|()| fs::unlink(&own.name)),
        )
    },
    Operation {
        set_up: |own| {
            own.create()?;
            own.open_directory()
        },
        ..Operation::plain(
            "fstatat1",
            "fstatat() of the task's own file, relative to the directory of all tasks",
            |own| fs::statat(own.file()?, &own.name, AtFlags::empty()).map(drop),
        )
    },
    on_own_file("dup1", "dup() of a descriptor, and close() of the new one", |own| {
        io::dup(own.file()?).map(drop)
    }),
    on_own_file("pread1", "pread(4 KiB) at the beginning of the task's own file", Own::pread),
    on_shared_file(
        "pread2",
        "pread(4 KiB) at the beginning of a file that all tasks share",
        Own::pread,
    ),
    on_own_file("pwrite1", "pwrite(4 KiB) at the beginning of the task's own file", Own::pwrite),
    on_shared_file(
        "pwrite2",
        "pwrite(4 KiB) at the beginning of a file that all tasks share",
        Own::pwrite,
    ),
    on_own_file("lseek1", "lseek() to the beginning of the task's own file", |own| {
        fs::seek(own.file()?, SeekFrom::Start(0)).map(drop)
    }),
    on_own_file("readseek1", "lseek() to the beginning of a file and read(4 KiB)", |own| {
        fs::seek(own.file()?, SeekFrom::Start(0))?;
        own.read()
    }),
    on_own_file("fstat1", "fstat() of the task's own file", |own| fs::fstat(own.file()?).map(drop)),
    Operation {
        iterations: 2,
        ..on_own_file("lock1", "fcntl(F_SETLKW): locks a byte and unlocks it", lock_and_unlock)
    },
    Operation {
        iterations: 2,
        ..on_shared_file(
            "lock2",
            "fcntl(F_SETLKW): locks a byte of a file that all tasks share, and unlocks it",
            lock_and_unlock,
        )
    },
    on_own_file("poll1", "poll() of the task's own file", poll),
    Operation::plain("futex1", "futex(FUTEX_WAKE) of a futex that nobody waits for", |own| {
        wake(own, Flags::empty())
    }),
    Operation::plain("futex2", "futex(FUTEX_WAIT) on a futex whose value has changed", |own| {
        wait(own, Flags::empty())
    }),
    Operation::plain(
        "futex3",
        "futex(FUTEX_WAKE_PRIVATE) of a futex that nobody waits for",
        |own| wake(own, Flags::PRIVATE),
    ),
    Operation::plain(
        "futex4",
        "futex(FUTEX_WAIT_PRIVATE) on a futex whose value has changed",
        |own| wait(own, Flags::PRIVATE),
    ),
    on_channel("pipe1", "write() and read() of a byte on the task's own pipe", |own| {
        own.ends = Some(pipe::pipe()?);
        Ok(())
    }),
    on_channel("unix1", "write() and read() of a byte on a UNIX stream socket pair", |own| {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        own.ends = Some(socketpair(family, kind, SocketFlags::empty(), None)?);
        Ok(())
    }),
    on_channel("eventfd1", "write() and read() of the task's own eventfd", |own| {
        let counter = eventfd(0, EventfdFlags::empty())?;
        own.ends = Some((io::dup(&counter)?, counter));
        own.message = 8;
        Ok(())
    }),
    Operation::PAGE_FAULT1,
    Operation::MMAP_CHURN1,
    Operation::MMAP_CHURN2,
    Operation::plain("mmap1", "mmap() and munmap() of 128 MB of anonymous memory", map_and_unmap),
    Operation {
        set_up: map_page,
        ..Operation::plain(
            "mprotect_flip1",
            "mprotect() the task's own page to read-only and back; write to the page",
            flip_protection,
        )
    },
];
