//! Errors that name the failed system call, in a form that keeps the loops of tasks short.

use std::borrow::Cow;

use rustix::io::Errno;

/// Why a task could not continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{during}{}", .errno.map(|e| format!(": {}", describe(e))).unwrap_or_default())]
pub struct TaskError {
    /// The call that failed, or what is wrong.
    pub during: Cow<'static, str>,
    /// The kernel's error, if there is one.
    pub errno: Option<Errno>,
}

impl TaskError {
    /// An error that the kernel did not report.
    pub fn found(what: impl Into<Cow<'static, str>>) -> Self {
        Self { during: what.into(), errno: None }
    }

    /// An error of the kernel in a call.
    pub fn new(call: impl Into<Cow<'static, str>>, errno: Errno) -> Self {
        Self { during: call.into(), errno: Some(errno) }
    }

    /// The error of the C library call that has just failed.
    pub fn last(during: &'static str) -> Self {
        let errno = std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error);
        Self { during: during.into(), errno }
    }
}

fn describe(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

/// Adds the name of the call to an error of the kernel.
pub trait During<T> {
    /// The value, or a [`TaskError`] that names `call`.
    fn during(self, call: &'static str) -> Result<T, TaskError>;
}

impl<T> During<T> for Result<T, Errno> {
    #[inline]
    fn during(self, call: &'static str) -> Result<T, TaskError> {
        self.map_err(|errno| TaskError::new(call, errno))
    }
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, call: &'static str) -> Result<T, TaskError> {
        self.map_err(|error| TaskError {
            errno: Errno::from_io_error(&error),
            during: match error.raw_os_error() {
                Some(_) => call.into(),
                None => format!("{call}: {error}").into(),
            },
        })
    }
}

/// For reads and writes that must transfer all bytes.
pub trait Whole {
    /// A [`TaskError`] that names `call`, unless the call transferred all `bytes`.
    fn whole(self, bytes: usize, call: &'static str) -> Result<(), TaskError>;
}

impl Whole for Result<usize, Errno> {
    #[inline]
    fn whole(self, bytes: usize, call: &'static str) -> Result<(), TaskError> {
        match self {
            Ok(moved) if moved == bytes => Ok(()),
            other => Err(not_whole(other, bytes, call)),
        }
    }
}

#[cold]
fn not_whole(moved: Result<usize, Errno>, bytes: usize, call: &'static str) -> TaskError {
    match moved {
        Ok(moved) => TaskError::found(format!("short {call}: {moved} of {bytes} bytes")),
        Err(errno) => TaskError::new(call, errno),
    }
}

/// For calls of the C library that return -1 and set `errno`.
#[inline]
pub fn check(result: libc::c_int, call: &'static str) -> Result<libc::c_int, TaskError> {
    if result == -1 { Err(TaskError::last(call)) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_call_and_the_error_of_the_kernel() {
        let error = Err::<(), _>(Errno::NOMEM).during("mmap").unwrap_err();
        assert_eq!(error.to_string(), "mmap: Cannot allocate memory (os error 12)");
        assert_eq!(TaskError::found("lost a byte").to_string(), "lost a byte");
    }
}
