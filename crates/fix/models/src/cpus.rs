//! Tests in which all CPUs of a hosted machine run.

use std::thread;

use knee_vm::hosted::{Architecture, Hosted, Processor};

use crate::random::Random;

/// Runs `job` on each CPU below `cpus`, on a thread of its own and with its own pseudorandom numbers, and waits
/// for all of them.
pub fn on_each_cpu<'m, A: Architecture>(
    machine: &'m Hosted<A>,
    cpus: usize,
    job: impl Fn(Processor<'m, A>, Random) + Sync,
) {
    thread::scope(|scope| {
        for number in 0..cpus {
            let job = &job;
            scope.spawn(move || job(machine.cpu(number), Random::new(number as u64 + 1)));
        }
    });
}
