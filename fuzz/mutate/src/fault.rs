//! Which ends of a run are faults of knee.

use std::fmt;
use std::os::unix::process::ExitStatusExt;

use knee_host::signal::describe_end;

use crate::process::{Ended, MOST_CPU};

/// Memory that an input of a few hundred kilobytes may take, in bytes.
pub(crate) const MOST_MEMORY: u64 = 1 << 30;
/// What Rust prints before the place of a panic, and when an allocation fails.
const PANIC: &str = "panicked at ";
const ALLOCATION: &str = "memory allocation of ";

/// What knee did wrong. Faults that print the same text probably have the same cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It panicked at this place in its source.
    Panic(String),
    /// It took more than [`MOST_MEMORY`].
    Memory,
    /// It took more than [`MOST_CPU`].
    CpuTime,
    /// It waited forever.
    Hang,
    /// A signal ended it.
    Signal(i32),
    /// It exited with a status that is not documented for this command.
    Status(i32),
    /// It refused the input without a message.
    NoMessage,
}

impl Fault {
    /// The fault of a run of knee with these arguments, if any.
    pub(crate) fn of(arguments: &[&str], ended: &Ended) -> Option<Self> {
        if ended.is_hung {
            return Some(Self::Hang);
        }
        if ended.memory > MOST_MEMORY || ended.errors.contains(ALLOCATION) {
            return Some(Self::Memory);
        }
        if let Some((_, place)) = ended.errors.split_once(PANIC) {
            let place = place.lines().next().unwrap_or_default().trim_end_matches(':');
            return Some(Self::Panic(place.to_owned()));
        }
        if let Some(signal) = ended.status.signal() {
            let is_time = signal == libc::SIGXCPU;
            return Some(if is_time { Self::CpuTime } else { Self::Signal(signal) });
        }
        let status = ended.status.code()?;
        if !is_documented(arguments, status) {
            return Some(Self::Status(status));
        }
        // With failed points, the table of `show` contains the reason.
        let is_mute = matches!(status, 2 | 3) && ended.errors.is_empty() && arguments[0] != "show";
        is_mute.then_some(Self::NoMessage)
    }
}

/// Whether the help of the command lists this exit status.
fn is_documented(arguments: &[&str], status: i32) -> bool {
    let is_verify = arguments.starts_with(&["commute", "verify"]);
    let is_diff = arguments.starts_with(&["commute", "diff"]);
    let has_condition = arguments.contains(&"--fail-on");
    match status {
        0 | 2 | 3 => true,
        1 => has_condition || is_diff || is_verify,
        4 => is_verify || arguments[0] == "show",
        5 => has_condition,
        _ => false,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(place) => write!(f, "panicked at {place}"),
            Self::Memory => write!(f, "took more than {} MB of memory", MOST_MEMORY >> 20),
            Self::CpuTime => write!(f, "took more than {MOST_CPU} s of CPU time"),
            Self::Hang => write!(f, "hung"),
            Self::Signal(signal) => f.write_str(&describe_end(Some(*signal), None)),
            Self::Status(status) => write!(f, "exited with undocumented status {status}"),
            Self::NoMessage => write!(f, "refused the input without a message"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    const COMPARE: [&str; 3] = ["compare", "a", "b"];

    fn exited(status: i32, errors: &str) -> Ended {
        Ended {
            status: ExitStatus::from_raw(status << 8),
            errors: errors.to_owned(),
            ..Ended::default()
        }
    }

    fn killed(signal: i32, errors: &str) -> Ended {
        Ended { status: ExitStatus::from_raw(signal), ..exited(0, errors) }
    }

    #[test]
    fn an_accepted_or_refused_input_is_no_fault() {
        assert_eq!(Fault::of(&COMPARE, &exited(0, "")), None);
        assert_eq!(Fault::of(&COMPARE, &exited(3, "knee: a: it is empty")), None);
        assert_eq!(Fault::of(&["compare", "--fail-on", "slower"], &exited(1, "")), None);
        assert_eq!(Fault::of(&["show", "record"], &exited(4, "")), None);
    }

    #[test]
    fn an_undocumented_status_and_a_mute_refusal_are_faults() {
        assert_eq!(Fault::of(&COMPARE, &exited(1, "x")), Some(Fault::Status(1)));
        assert_eq!(Fault::of(&COMPARE, &exited(2, "")), Some(Fault::NoMessage));
    }

    #[test]
    fn a_panic_is_named_by_its_place_with_either_way_to_die() {
        let errors = "thread 'main' panicked at crates/a.rs:1:2:\nindex out of bounds\n";
        let panic = Some(Fault::Panic("crates/a.rs:1:2".to_owned()));
        assert_eq!(Fault::of(&COMPARE, &exited(101, errors)), panic);
        assert_eq!(Fault::of(&COMPARE, &killed(libc::SIGABRT, errors)), panic);
    }

    #[test]
    fn limits_and_signals_are_told_apart() {
        assert_eq!(Fault::of(&COMPARE, &killed(11, "")), Some(Fault::Signal(11)));
        assert_eq!(Fault::of(&COMPARE, &killed(libc::SIGXCPU, "")), Some(Fault::CpuTime));
        let large = Ended { memory: MOST_MEMORY + 1, ..exited(0, "") };
        assert_eq!(Fault::of(&COMPARE, &large), Some(Fault::Memory));
        let refused = killed(libc::SIGABRT, "memory allocation of 99 bytes failed");
        assert_eq!(Fault::of(&COMPARE, &refused), Some(Fault::Memory));
        let hung = Ended { is_hung: true, ..killed(9, "") };
        assert_eq!(Fault::of(&COMPARE, &hung), Some(Fault::Hang));
    }
}
