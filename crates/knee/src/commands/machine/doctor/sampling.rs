//! Checks of what `knee profile` can record.

use knee_profile::sampling::{LockSampler, Options, Sampler, Target, Watch};

use super::check::{Check, Finding, check, command, limited, missing, ok, statement};

/// All checks for `knee profile`.
pub(super) fn checks() -> [Option<Check>; 2] {
    [
        check("sampling", "knee profile samples where cycles go", sampling()),
        check(
            "lock waits",
            "knee profile --locks records which locks threads wait for",
            lock_waits(),
        ),
    ]
}

/// What knee can sample in this process.
fn sampling() -> Finding {
    let ours = Target::Process(std::process::id().cast_signed());
    let sampler = match Sampler::open(&ours, &Options::default()) {
        Ok(sampler) => sampler,
        Err(error) => {
            let error = anyhow::Error::from(error);
            return missing("not permitted", statement(format!("{error:#}")));
        }
    };
    match (sampler.sees_kernel(), sampler.knows_kernel_names(), sampler.clock().event.as_str()) {
        (false, ..) => {
            limited("without the kernel", command("sudo sysctl kernel.perf_event_paranoid=1"))
        }
        (true, false, _) => limited(
            "the kernel hides the names of its functions",
            command("sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"),
        ),
        (true, true, "cycles") => ok("by cycles"),
        (true, true, event) => {
            ok(format!("by a timer ({event}), because this machine cannot count cycles"))
        }
    }
}

/// Whether knee can record lock waits, for which it needs two tracepoints.
fn lock_waits() -> Finding {
    let ours = Target::Process(std::process::id().cast_signed());
    match LockSampler::open(&ours, &Options::default()) {
        Ok(_) => ok("lock:contention_begin and contention_end"),
        Err(error) => {
            let error = anyhow::Error::from(error);
            missing("not available", statement(format!("{error:#}")))
        }
    }
}
