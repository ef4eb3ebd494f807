//! Errors of sampling, and what to do about them.

use std::io;

/// The reason why knee cannot sample.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The system refuses the list of CPUs or a resource.
    #[error("cannot sample")]
    Cpus(#[source] io::Error),
    /// The process does not exist.
    #[error("process {pid} does not exist; `ps` lists processes")]
    NoProcess {
        /// Its number.
        pid: i32,
    },
    /// The machine does not count cycles.
    #[error("this machine cannot count cycles; use --event cpu-clock, which works everywhere")]
    NoCycles {
        /// The error of the kernel.
        #[source]
        error: io::Error,
    },
    /// Sampling is not permitted.
    #[error("{}", denied(.paranoid, *.system))]
    Denied {
        /// The content of `perf_event_paranoid`, if it is readable.
        paranoid: Option<i32>,
        /// Whether all processes were to be sampled.
        system: bool,
    },
    /// Recording lock waits is not permitted.
    #[error("{}", waits_denied(.paranoid))]
    WaitsDenied {
        /// The content of `perf_event_paranoid`, if it is readable.
        paranoid: Option<i32>,
    },
    /// The tracepoints cannot be read.
    #[error("lock waits require the kernel's tracepoints: {remedy}")]
    Tracefs {
        /// What to do.
        remedy: String,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The kernel has no tracepoints for lock waits.
    #[error(
        "this kernel lacks the tracepoints lock:contention_begin and lock:contention_end; --locks \
         requires Linux 5.19 or later with CONFIG_EVENT_TRACING. Without --locks, knee still \
         shows functions that spin"
    )]
    NoContentionEvents,
    /// Sampling off-CPU time is not permitted, because threads leave their CPUs in the kernel.
    #[error(
        "not permitted: to sample off-CPU time, kernel.perf_event_paranoid must be at most 1 (for \
         all processes, at most 0); run `sysctl kernel.perf_event_paranoid=1` as root, or run \
         knee as root or with CAP_PERFMON; in a container, seccomp must allow perf_event_open"
    )]
    OffCpuDenied,
    /// The kernel refuses memory for the smallest buffers.
    #[error(
        "the kernel refuses memory for the buffers; raise kernel.perf_event_mlock_kb (`sysctl \
         kernel.perf_event_mlock_kb=4096` as root) or `ulimit -l`"
    )]
    NoBuffer {
        /// The error of the kernel.
        #[source]
        error: io::Error,
    },
    /// Too many threads on too many CPUs.
    #[error(
        "the limit of {files} open files is too low: for each thread, knee opens at least two \
         files per CPU; raise `ulimit -n`, or sample all processes with -a"
    )]
    TooManyFiles {
        /// The limit.
        files: u64,
    },
    /// The kernel refuses for another reason.
    #[error("perf_event_open")]
    Refused(#[source] io::Error),
}

/// The text if no setting is the reason.
const OTHERS: &str = "not permitted: the process belongs to another user; run knee as that user, \
    as root, or with CAP_PERFMON and CAP_SYS_PTRACE; in a container, seccomp must allow \
    perf_event_open";

/// The rules: Documentation/admin-guide/sysctl/kernel.rst, and levels 3 and 4 of Debian and Ubuntu.
fn denied(paranoid: &Option<i32>, system: bool) -> String {
    let (needed, what) = match system {
        true => (0, "all processes"),
        false => (2, "your own processes"),
    };
    if paranoid.is_some_and(|level| level <= needed) {
        return OTHERS.to_owned();
    }
    let is = paranoid.map_or(String::new(), |level| format!(", but it is {level}"));
    format!(
        "not permitted: to sample {what}, kernel.perf_event_paranoid must be {needed} or \
         less{is}; run `sysctl kernel.perf_event_paranoid={needed}` as root, or run knee as root \
         or with CAP_PERFMON; in a container, seccomp must allow perf_event_open"
    )
}

/// The rules: `perf_trace_event_perm` in kernel/trace/trace_event_perf.c.
fn waits_denied(paranoid: &Option<i32>) -> String {
    if paranoid.is_some_and(|level| level < 0) {
        return OTHERS.to_owned();
    }
    let is = paranoid.map_or(String::new(), |level| format!(", but it is {level}"));
    format!(
        "not permitted; to record lock waits, kernel.perf_event_paranoid must be -1{is}; or run \
         knee as root or with CAP_PERFMON; in a container, seccomp must allow perf_event_open"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_to_change() {
        let words = |paranoid, system| SampleError::Denied { paranoid, system }.to_string();
        assert!(words(Some(4), false).contains("must be 2 or less, but it is 4"));
        assert!(words(Some(2), true).contains("sysctl kernel.perf_event_paranoid=0"));
        assert!(words(None, false).contains("must be 2 or less; "));
        assert!(words(Some(2), false).contains("another user"));
        let waits = |paranoid| SampleError::WaitsDenied { paranoid }.to_string();
        assert!(waits(Some(2)).contains("kernel.perf_event_paranoid must be -1, but it is 2"));
        assert!(waits(Some(-1)).contains("another user"));
    }
}
