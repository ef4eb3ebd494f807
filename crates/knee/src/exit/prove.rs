//! Classes of the errors of knee-commute and knee-trace.

use knee_commute::ModelError;
use knee_trace::findings::FindingsError;
use knee_trace::{EmulatorError, KernelError};

/// Whether a model failed.
pub(super) fn is_of_model(error: &anyhow::Error) -> bool {
    error.is::<ModelError>()
}

/// Whether the error of a library is about the arguments of the command, not about their content.
pub(super) fn is_usage(error: &anyhow::Error) -> bool {
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
                | FindingsError::SameTest { .. }
        )
    );
    names_nothing || names_another_record
}
