//! Preparing a call, and making calls that may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use knee_commute::TestCall;
use knee_marks::Mark;

use crate::reply::{Reply, message};
use crate::{Action, Binding, Call};

/// Prepares a call. On failure, returns the reply for the main thread.
pub(crate) fn prepare<'b, B: Binding>(
    binding: &'b B,
    call: &TestCall,
) -> Result<Action<'b>, Reply> {
    let call = Call(call);
    match catch_unwind(AssertUnwindSafe(|| binding.prepare(&call))) {
        Ok(Some(action)) => Ok(action),
        Ok(None) => {
            let why = format!("the binding has no operation {}", call.operation());
            Err(Reply::NotPrepared(why))
        }
        Err(panic) => Err(Reply::NotPrepared(message(&*panic))),
    }
}

/// Calls a function that opens and closes the window of a side. If the function panics, closes the window and
/// returns the reply for the main thread.
pub(crate) fn in_window<T>(side: u8, window: impl FnOnce() -> T) -> Result<T, Reply> {
    catch_unwind(AssertUnwindSafe(window)).map_err(|panic| {
        Mark::Close(side).emit();
        Reply::Panicked(message(&*panic))
    })
}
