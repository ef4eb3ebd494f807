//! The memory that the runner and its tasks share: counters, the start gate, a common object.
//!
//! The first page holds what all tasks share. Each task then has a page of its own, for two
//! reasons. The task touches its page first, so the kernel allocates it on the NUMA node of the
//! task. And no two counters share a cache line, or the pair of lines that adjacent-line prefetch
//! loads.
//!
//! In a run that times single iterations, a timer for each task follows.
//!
//! The start gate: every task reports ready and sleeps. The last one rings a bell (an eventfd),
//! which the runner polls together with its other events. The runner opens the gate when all tasks
//! are ready, so no task runs while others are still being created.

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::thread::futex;

use crate::call::TaskError;
use crate::timer::Timer;

/// Longest failure message of a task, in bytes.
const MESSAGE_BYTES: usize = 1024;
/// The error numbers that system calls return (`MAX_ERRNO` of linux/err.h).
const ERRNOS: RangeInclusive<i32> = 1..=4095;
/// Bytes that a testcase can share between its tasks.
const OBJECT_BYTES: usize = 1024;

/// A value alone on its pair of cache lines: 128 bytes on x86-64 and AArch64, 256 on POWER.
#[repr(align(256))]
pub struct Padded<T>(pub T);

/// Zeroed memory that a testcase may lay out as it likes, for instance as a mutex.
#[repr(C, align(256))]
pub struct SharedObject([AtomicU8; OBJECT_BYTES]);

impl SharedObject {
    /// Address of the first byte, aligned to 256; [`SharedObject::BYTES`] follow.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }

    /// Size in bytes.
    pub const BYTES: usize = OBJECT_BYTES;
}

#[repr(C, align(4096))]
struct Common {
    ready: Padded<AtomicU32>,
    gate: Padded<AtomicU32>,
    helpers: Padded<AtomicBool>,
    object: SharedObject,
}

/// What one task reports to the runner.
#[repr(C, align(4096))]
pub struct Slot {
    count: Padded<AtomicU64>,
    speed: AtomicU64,
    bandwidth: AtomicU64,
    thread: AtomicI32,
    errno: AtomicI32,
    message_len: AtomicU32,
    message: [AtomicU8; MESSAGE_BYTES],
}

impl Slot {
    /// The iterations so far.
    pub fn count(&self) -> &AtomicU64 {
        &self.count.0
    }

    /// Speed of the reference loop in steps per second; 0 before it has run.
    pub fn speed(&self) -> f64 {
        f64::from_bits(self.speed.load(Ordering::Acquire))
    }

    /// Bytes per second that the task reads from memory; `None` if it has not measured it.
    pub fn bandwidth(&self) -> Option<f64> {
        let bandwidth = f64::from_bits(self.bandwidth.load(Ordering::Acquire));
        (bandwidth > 0.0).then_some(bandwidth)
    }

    /// Kernel thread id of the task, 0 before it has started.
    pub fn thread(&self) -> i32 {
        self.thread.load(Ordering::Acquire)
    }

    /// Why the task failed, if it could still report a reason.
    pub fn error(&self) -> Option<TaskError> {
        // A plug-in that writes past its counter can write anything here.
        let len = self.message_len.load(Ordering::Acquire) as usize;
        let len = len.min(MESSAGE_BYTES);
        let bytes: Vec<u8> =
            self.message[..len].iter().map(|b| b.load(Ordering::Relaxed)).collect();
        let errno = self.errno.load(Ordering::Relaxed);
        (len > 0).then(|| TaskError {
            during: String::from_utf8_lossy(&bytes).into_owned().into(),
            errno: ERRNOS.contains(&errno).then(|| Errno::from_raw_os_error(errno)),
        })
    }

    /// Leaves `error` for the runner; a long text is truncated.
    pub fn set_error(&self, error: &TaskError) {
        let bytes = error.during.as_bytes();
        let bytes = &bytes[..bytes.len().min(MESSAGE_BYTES)];
        for (to, from) in self.message.iter().zip(bytes) {
            to.store(*from, Ordering::Relaxed);
        }
        self.errno.store(error.errno.map_or(0, Errno::raw_os_error), Ordering::Relaxed);
        self.message_len.store(bytes.len() as u32, Ordering::Release);
    }
}

/// The shared mapping. Children created by `fork` inherit it.
pub struct Area {
    base: NonNull<Common>,
    tasks: usize,
    /// The CPUs of the tasks; as many of them measure the memory bandwidth.
    cpus: usize,
    /// Whether each task has a timer.
    is_timed: bool,
    bell: OwnedFd,
}

// SAFETY: everything reachable through an `Area` is atomic, and the mapping lives as long as the
// `Area`.
unsafe impl Sync for Area {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for Area {}

impl Area {
    /// Maps zeroed shared memory for `tasks` tasks on `cpus` CPUs.
    pub fn new(tasks: usize, cpus: usize) -> Result<Self, Errno> {
        Self::map(tasks, cpus, false)
    }

    /// Like [`Area::new`], with a timer for each task.
    pub(crate) fn timed(tasks: usize, cpus: usize) -> Result<Self, Errno> {
        Self::map(tasks, cpus, true)
    }

    fn map(tasks: usize, cpus: usize, is_timed: bool) -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                Self::bytes(tasks, is_timed),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )?
        };
        Ok(Self {
            base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?,
            tasks,
            cpus,
            is_timed,
            bell,
        })
    }

    fn bytes(tasks: usize, is_timed: bool) -> usize {
        let timer = if is_timed { size_of::<Timer>() } else { 0 };
        size_of::<Common>() + tasks * (size_of::<Slot>() + timer)
    }

    fn common(&self) -> &Common {
        // SAFETY: `base` is page-aligned, mapped for the life of `self`, and zero bytes are valid
        // atomics.
        unsafe { self.base.as_ref() }
    }

    /// The slot of task `nr`.
    pub fn slot(&self, nr: usize) -> &Slot {
        assert!(nr < self.tasks, "task {nr} of {}", self.tasks);
        // SAFETY: `nr` is in bounds, so the slot lies inside the mapping; it is page-aligned and
        // zero bytes are valid atomics.
        unsafe { &*self.base.as_ptr().add(1).cast::<Slot>().add(nr) }
    }

    /// All slots, in the order of task numbers.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        (0..self.tasks).map(|nr| self.slot(nr))
    }

    /// The timer of task `nr`, if tasks have timers.
    pub(crate) fn timer(&self, nr: usize) -> Option<&Timer> {
        assert!(nr < self.tasks, "task {nr} of {}", self.tasks);
        // SAFETY: with timers, the mapping has one for each task after the slots; `nr` is in bounds. The
        // sizes before it are multiples of its alignment, a page, and zero bytes are valid atomics.
        self.is_timed.then(|| unsafe {
            &*self.base.as_ptr().add(1).cast::<Slot>().add(self.tasks).cast::<Timer>().add(nr)
        })
    }

    /// The timers of all tasks, if tasks have them.
    pub(crate) fn timers(&self) -> impl Iterator<Item = &Timer> {
        (0..self.tasks).filter_map(|nr| self.timer(nr))
    }

    /// The object that all tasks share.
    pub fn object(&self) -> &SharedObject {
        &self.common().object
    }

    /// Set by the task of a plug-in when it starts a helper, because knee cannot detect this from
    /// outside.
    pub fn helpers(&self) -> &AtomicBool {
        &self.common().helpers.0
    }

    /// Readable once every task has reported ready.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The number of tasks that have reported ready.
    pub fn ready(&self) -> usize {
        self.common().ready.0.load(Ordering::Acquire) as usize
    }

    /// Called by task `nr`: reports the speed of its CPU and memory, reports ready and sleeps until
    /// the gate opens.
    pub(crate) fn wait_for_start(&self, nr: usize) {
        let thread = rustix::thread::gettid().as_raw_pid();
        self.slot(nr).thread.store(thread, Ordering::Release);
        self.slot(nr).speed.store(knee_reference::speed().to_bits(), Ordering::Release);
        let readers = self.tasks.min(self.cpus);
        if nr < readers
            && let Some(bandwidth) = knee_reference::bandwidth(readers)
        {
            self.slot(nr).bandwidth.store(bandwidth.to_bits(), Ordering::Release);
        }
        let ready = self.common().ready.0.fetch_add(1, Ordering::AcqRel) + 1;
        if ready as usize == self.tasks {
            // The runner also checks `ready` periodically, so a failed write costs milliseconds,
            // not the point.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
        let gate = &self.common().gate.0;
        while gate.load(Ordering::Acquire) == 0 {
            // EAGAIN: the gate has opened meanwhile. EINTR: check again.
            let _ = futex::wait(gate, futex::Flags::empty(), 0, None);
        }
    }

    /// Lets all tasks run.
    pub fn open_gate(&self) {
        let gate = &self.common().gate.0;
        gate.store(1, Ordering::Release);
        let _ = futex::wake(gate, futex::Flags::empty(), i32::MAX as u32);
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reference outlives `self`; processes that inherited
        // it have mappings of their own.
        let _ =
            unsafe { munmap(self.base.as_ptr().cast(), Self::bytes(self.tasks, self.is_timed)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_a_page_of_its_own() {
        assert_eq!(size_of::<Slot>(), 4096);
        assert_eq!(size_of::<Common>(), 4096);
    }

    #[test]
    fn a_task_has_a_timer_in_a_timed_area_alone() {
        let area = Area::timed(3, 2).unwrap();
        for timer in area.timers() {
            timer.calibrate();
            timer.restart();
            timer.lap(1);
        }
        assert_eq!(area.timers().count(), 3);
        assert!(area.slots().all(|slot| slot.count().load(Ordering::Relaxed) == 0));
        assert_eq!(Area::new(3, 2).unwrap().timers().count(), 0);
    }

    #[test]
    fn no_task_passes_the_gate_before_all_are_ready() {
        let area = Area::new(3, 2).unwrap();
        let passed = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for nr in 0..3 {
                let (area, passed) = (&area, &passed);
                scope.spawn(move || {
                    area.wait_for_start(nr);
                    passed.fetch_add(1, Ordering::Relaxed);
                });
            }
            while area.ready() < 3 {
                std::thread::yield_now();
            }
            // A task that is woken for another reason waits on, however often.
            for _ in 0..100 {
                let gate = &area.common().gate.0;
                futex::wake(gate, futex::Flags::empty(), i32::MAX as u32).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(200));
                assert_eq!(passed.load(Ordering::Relaxed), 0);
            }
            area.open_gate();
        });
        assert_eq!(passed.load(Ordering::Relaxed), 3);
        assert!(area.slots().all(|slot| slot.thread() != 0));
    }

    #[test]
    fn an_error_message_reaches_the_runner_and_a_long_one_is_truncated() {
        let area = Area::new(2, 2).unwrap();
        assert_eq!(area.slot(0).error(), None);
        let error = TaskError { during: "mmap".into(), errno: Some(Errno::NOMEM) };
        area.slot(0).set_error(&error);
        assert_eq!(area.slot(0).error(), Some(error));
        area.slot(1).set_error(&TaskError::found("x".repeat(5000)));
        assert_eq!(area.slot(1).error().unwrap().during.len(), MESSAGE_BYTES);
    }

    #[test]
    fn a_task_that_overwrites_its_slot_does_not_crash_the_runner() {
        let area = Area::new(1, 1).unwrap();
        let slot = area.slot(0);
        slot.message[0].store(b'x', Ordering::Relaxed);
        for (len, errno) in [(u32::MAX, -1), (MESSAGE_BYTES as u32 + 1, i32::MIN), (2000, 4096)] {
            slot.message_len.store(len, Ordering::Relaxed);
            slot.errno.store(errno, Ordering::Relaxed);
            let error = slot.error().unwrap();
            assert_eq!((error.during.len(), error.errno), (MESSAGE_BYTES, None));
        }
    }
}
