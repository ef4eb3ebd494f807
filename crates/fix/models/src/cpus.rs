//! Tests in which all CPUs of a hosted machine run.

use std::thread;

use knee_vm::hosted::{Architecture, Hosted, Processor};

use crate::random::Random;

/// Runs `job` on the CPUs `0..cpus`, and waits for all these jobs. Each job has its own thread and its own
/// pseudorandom numbers.
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
