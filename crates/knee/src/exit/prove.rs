//! Exit statuses of the errors of knee-commute and knee-trace.

use knee_commute::ModelError;
use knee_trace::findings::FindingsError;
use knee_trace::{EmulatorError, KernelError};

use super::ExitStatus;

/// The status for an error of these crates; `None` if it is like any other error.
pub(super) fn status(error: &anyhow::Error) -> Option<ExitStatus> {
    match () {
        () if error.is::<ModelError>() => Some(ExitStatus::TestcaseDied),
        () if is_usage(error) => Some(ExitStatus::Usage),
        () => None,
    }
}

/// Whether the error of a library is about the arguments of the command, not about their content.
fn is_usage(error: &anyhow::Error) -> bool {
    let kernel = error.downcast_ref::<KernelError>();
    let qemu = error.downcast_ref::<EmulatorError>();
    let names_nothing = matches!(kernel, Some(KernelError::Unknown { .. }))
        || matches!(qemu, Some(EmulatorError::Unknown { .. }));
    let names_another_record = matches!(
        error.downcast_ref::<FindingsError>(),
        Some(
            FindingsError::Exists(_)
                | FindingsError::Foreign(_)
                | FindingsError::OtherCheck { .. }
                | FindingsError::OtherShard { .. }
                | FindingsError::SameShard { .. }
        )
    );
    names_nothing || names_another_record
}
