//! Counts of pins.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::shim::{AtomicU64, order};

/// A count of [pins](crate::Space::pin). The default is 0, so zeroed memory is a valid count.
#[derive(Debug, Default)]
pub(crate) struct Pins(AtomicU64);

impl Pins {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Removes a pin. Release: accesses through the pin happen before the frame is reused.
    pub(crate) fn remove(&self) {
        self.0.fetch_sub(1, order!(Release, "pins_remove"));
    }

    /// The number of pins. Acquire: accesses through pins that were removed happen before this load.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.0.load(order!(Acquire, "pins_count"))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::cell::UnsafeCell;
    use std::thread;

    /// A pinned frame.
    #[derive(Default)]
    struct Frame {
        pins: Pins,
        content: UnsafeCell<u64>,
    }

    // SAFETY: the pin serializes accesses to the content; Miri checks that.
    unsafe impl Sync for Frame {}

    #[test]
    fn a_frame_is_reused_after_the_last_access_through_a_pin() {
        let frame = Frame::default();
        // Call all functions once before the threads start: in a build with mutants, the first call of a
        // function reads the environment, and this read would synchronize the threads.
        frame.pins.add();
        frame.pins.remove();
        assert_eq!(frame.pins.count(), 0);
        frame.pins.add();
        thread::scope(|scope| {
            let frame = &frame;
            let device = scope.spawn(move || {
                // SAFETY: this thread holds the pin.
                unsafe { *frame.content.get() += 1 };
                frame.pins.remove();
            });
            while frame.pins.count() > 0 {
                thread::yield_now();
            }
            // SAFETY: there is no pin any more.
            unsafe { *frame.content.get() += 1 };
            device.join().unwrap();
        });
    }
}
