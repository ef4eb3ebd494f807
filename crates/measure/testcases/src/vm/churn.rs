//! Many small maps that come and go.

use knee_run::{Outcome, Task, Testcase};
use oorandom::Rand32;

use super::hosted::of_any_design;
use super::user::User;
use crate::memory::churn::{MAPS, share, size};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "vm_mmap_churn1",
        description: "unmap one of 1024 mappings (1 to 32 KiB) of an address space, and map a new \
            one",
        ..of_any_design(vm_mmap_churn1)
    },
    Testcase {
        name: "vm_mmap_churn2",
        description: "unmap one of the task's 1024 mappings (1 to 32 KiB), and map a new one",
        ..of_any_design(vm_mmap_churn2)
    },
];

fn vm_mmap_churn1(task: &Task<'_>) -> Outcome {
    churn(task, share(task))
}

fn vm_mmap_churn2(task: &Task<'_>) -> Outcome {
    churn(task, MAPS)
}

fn churn(task: &Task<'_>, live: usize) -> Outcome {
    let mut user = User::new(task, 0)?;
    let mut random = Rand32::new(task.nr as u64);
    let mut count = user.start(task);
    let mut maps = Vec::with_capacity(live);
    for _ in 0..live {
        maps.push(user.map(size(&mut random))?);
    }
    loop {
        let place = random.rand_range(0..live as u32) as usize;
        maps.swap_remove(place).unmap()?;
        // There is room: one has just been taken out.
        maps.push(user.map(size(&mut random))?);
        count.add(1);
    }
}
