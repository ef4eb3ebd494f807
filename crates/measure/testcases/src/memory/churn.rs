//! Many small maps that come and go, as under a program whose allocator maps what it hands out:
//! the workload that showed the slower `munmap` between Linux 6.0 and 6.1.
//!
//! Neighbours among the maps merge and are split again, as those of real programs.

use knee_run::{Family, Mode, Outcome, Task, TaskError, Testcase};
use oorandom::Rand32;
use rustix::io::Errno;

use super::region::Region;

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "mmap_churn1",
        description: "unmap one of 1024 mappings (1 to 32 KiB) of an address space, and map a new \
            one",
        ..Testcase::new(Family::Memory, mmap_churn1)
    },
    Testcase {
        name: "mmap_churn2",
        description: "unmap one of the task's 1024 mappings (1 to 32 KiB), and map a new one",
        ..Testcase::new(Family::Memory, mmap_churn2)
    },
];

fn mmap_churn1(task: &Task<'_>) -> Outcome {
    let maps = match task.mode {
        Mode::Processes => MAPS,
        Mode::Threads => share(task),
    };
    churn(task, maps)
}

fn mmap_churn2(task: &Task<'_>) -> Outcome {
    churn(task, MAPS)
}

/// Live maps.
pub(crate) const MAPS: usize = 1024;
/// Largest one, in KiB.
const LARGEST: u32 = 32;

fn churn(task: &Task<'_>, live: usize) -> Outcome {
    let mut random = Rand32::new(task.nr as u64);
    let mut maps = Vec::with_capacity(live);
    for _ in 0..live {
        maps.push(map(&mut random)?);
    }
    task.repeat(|| {
        let place = random.rand_range(0..live as u32) as usize;
        maps.swap_remove(place).unmap().map_err(explain)?;
        // There is room: one has just been taken out.
        maps.push(map(&mut random)?);
        Ok(())
    })
}

fn map(random: &mut Rand32) -> Result<Region, TaskError> {
    Region::anonymous(size(random)).map_err(explain)
}

/// Bytes of a new map.
pub(crate) fn size(random: &mut Rand32) -> usize {
    (random.rand_range(1..LARGEST + 1) as usize) << 10
}

/// How many of [`MAPS`] are this task's.
pub(crate) fn share(task: &Task<'_>) -> usize {
    part(MAPS, task.tasks, task.nr)
}

/// The part of `total` that task `nr` of `tasks` has; at least 1.
fn part(total: usize, tasks: usize, nr: usize) -> usize {
    (total / tasks + usize::from(nr < total % tasks)).max(1)
}

#[cold]
fn explain(error: TaskError) -> TaskError {
    match error.errno {
        // Also from munmap: taking a piece out of the middle makes two maps of one.
        Some(Errno::NOMEM) => TaskError::found(format!(
            "{}: out of memory, or too many mappings in one address space; use fewer tasks, or \
             raise the limit: sysctl -w vm.max_map_count=1048576",
            error.during
        )),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_split_the_maps_among_them_and_nobody_goes_without() {
        for tasks in [1, 2, 5, 1024] {
            let shares = (0..tasks).map(|nr| part(MAPS, tasks, nr));
            assert_eq!(shares.sum::<usize>(), MAPS);
        }
        assert_eq!(part(MAPS, 2000, 1999), 1);
    }

    #[test]
    fn the_error_for_too_many_mappings_names_the_limit_to_raise() {
        let error = TaskError { during: "mmap".into(), errno: Some(Errno::NOMEM) };
        assert!(explain(error).to_string().contains("vm.max_map_count"));
        let other = TaskError { during: "mmap".into(), errno: Some(Errno::AGAIN) };
        assert_eq!(explain(other.clone()), other);
    }
}
