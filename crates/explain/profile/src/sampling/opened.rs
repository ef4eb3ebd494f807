//! Opens the events of a target, and the buffers that they write into.

use std::collections::HashMap;

use knee_host::CpuList;

use super::access::SampleError;
use super::event::{Chosen, Event, Kind, Role};
use super::ring::Ring;
use super::running::Running;
use super::target::Target;

/// How often to list the threads of a target again. A list contains threads without events only if they were
/// started while events were opened for those that started them, so the second list is usually the last.
const LISTS: usize = 8;

/// Open events.
pub(super) struct Opened<'c> {
    target: &'c Target,
    chosen: &'c Chosen,
    cpus: CpuList,
    /// One for each CPU.
    pub(super) rings: Vec<Ring>,
    pub(super) events: Vec<Event>,
}

impl<'c> Opened<'c> {
    pub(super) fn new(target: &'c Target, chosen: &'c Chosen) -> Result<Self, SampleError> {
        let cpus = CpuList::online().map_err(SampleError::Cpus)?;
        Ok(Self { target, chosen, cpus, rings: Vec::new(), events: Vec::new() })
    }

    /// Opens events for these threads on all CPUs; -1 stands for all threads.
    pub(super) fn open(&mut self, threads: &[i32]) -> Result<(), SampleError> {
        let Self { chosen, rings, events, .. } = self;
        for (place, cpu) in self.cpus.iter().map(u32::cast_signed).enumerate() {
            for &thread in threads {
                let Some(tracking) = Event::open(chosen, Role::Tracking, thread, cpu)? else {
                    continue;
                };
                match rings.get(place) {
                    None => rings.push(Ring::map(&tracking, chosen.ring_bytes)?),
                    Some(ring) => tracking.write_into(ring)?,
                }
                events.push(tracking);
                for &role in chosen.roles() {
                    if let Some(event) = Event::open(chosen, role, thread, cpu)? {
                        event.write_into(&rings[place])?;
                        events.push(event);
                    }
                }
            }
            if rings.len() <= place {
                return Err(self.target.gone());
            }
        }
        Ok(())
    }

    /// Opens events that count the CPU time of these threads, in the kernel as well.
    pub(super) fn count_cpu_time(&mut self, threads: &[i32]) -> Result<(), SampleError> {
        for &thread in threads {
            self.events.extend(Event::open(self.chosen, Role::CpuTime, thread, -1)?);
        }
        Ok(())
    }

    /// Opens events for the threads that have started since `running` was listed, until there are no more.
    /// Returns whether there were any. Some of them may have inherited events.
    pub(super) fn open_late(
        &mut self,
        running: &mut Running,
        target: &Target,
    ) -> Result<bool, SampleError> {
        let mut is_any = false;
        for _ in 0..LISTS {
            let late = running.update(target)?;
            if late.is_empty() {
                break;
            }
            is_any = true;
            self.open(&late)?;
        }
        if is_any {
            // Time that is counted twice, or not at all, cannot be told from other time.
            self.events.retain(|event| event.role != Role::CpuTime);
        }
        Ok(is_any)
    }

    /// What each event records, by its ID.
    pub(super) fn kinds(&self) -> HashMap<u64, Kind> {
        let is_switchable = |event: &&Event| self.chosen.roles().contains(&event.role);
        self.events.iter().filter(is_switchable).filter_map(Event::identity).collect()
    }
}
