//! Signals: their names, and a descriptor that reports them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Signals that end processes.
const NAMES: [(i32, &str); 13] = [
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGSYS, "SIGSYS"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGXCPU, "SIGXCPU"),
    (libc::SIGXFSZ, "SIGXFSZ"),
];

/// `was killed by SIGSEGV` or `exited with status 3`.
pub fn describe_end(signal: Option<i32>, code: Option<i32>) -> String {
    match (signal, code) {
        (Some(signal), _) => match NAMES.iter().find(|(number, _)| *number == signal) {
            Some((_, name)) => format!("was killed by {name}"),
            None => format!("was killed by signal {signal}"),
        },
        (_, Some(code)) => format!("exited with status {code}"),
        _ => "died".to_owned(),
    }
}

/// Signals that are blocked in the calling thread and in the threads it starts later. A descriptor
/// becomes readable when one arrives.
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks `signals`. Must be called before any other thread exists, because that thread could
    /// receive them.
    pub fn block(signals: impl IntoIterator<Item = i32>) -> io::Result<Self> {
        // SAFETY: `set` is initialised by sigemptyset before any use, and signalfd returns a new
        // descriptor that nobody else owns.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in signals {
                libc::sigaddset(&mut set, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// A signal that has arrived, if any; each is reported once.
    pub fn take(&self) -> Option<i32> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.0, &mut info) {
            // The number is the first field.
            Ok(n) if n >= 4 => Some(i32::from_ne_bytes([info[0], info[1], info[2], info[3]])),
            _ => None,
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Gives a fresh child the signal settings of an ordinary process. Makes system calls only.
pub fn reset_signals() {
    // SAFETY: the mask is initialised by sigemptyset before its use; an empty mask and default
    // dispositions need no further care in a process with one thread.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
    }
}

/// Whether `signal` is ignored, as SIGHUP is under nohup.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: with a null new action, sigaction only fills in the zeroed struct it is given.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction == libc::SIG_IGN
    }
}
