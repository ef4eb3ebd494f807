//! Ctrl-C and termination as something to poll, so that an interrupted run still ends its tasks,
//! removes its files and writes what it has.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// The signals that ask knee to stop, blocked and turned into a descriptor.
pub struct Interrupt {
    signals: OwnedFd,
}

impl Interrupt {
    /// Blocks SIGINT, SIGTERM and SIGHUP for the calling thread and all threads it starts later.
    /// Call it once, before any other thread exists.
    pub fn install() -> io::Result<Self> {
        // SAFETY: `set` is initialised by sigemptyset before any use, and signalfd returns a new
        // descriptor that nobody else owns.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                // What was ignored on purpose, as under nohup, stays ignored.
                if !is_ignored(signal) {
                    libc::sigaddset(&mut set, signal);
                }
            }
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { signals: OwnedFd::from_raw_fd(fd) })
        }
    }

    /// The signal that has arrived, if one has; each is reported once.
    pub fn take(&self) -> Option<i32> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.signals, &mut info) {
            Ok(n) if n >= 4 => Some(i32::from_ne_bytes([info[0], info[1], info[2], info[3]])),
            _ => None,
        }
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: with a null new action, sigaction only fills in the zeroed struct it is given.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction == libc::SIG_IGN
    }
}
