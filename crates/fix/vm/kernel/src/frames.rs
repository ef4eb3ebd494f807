//! Free frames. Each CPU has its own list.
//!
//! Several words of each free frame contain [`FREE`], which no program stores. These words expose accesses
//! through stale translations: a load returns the pattern, and a store destroys the pattern. Both the next
//! allocation of the frame and [`Frames::check`] detect such a store.

use core::iter;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use knee_vm::Frame;

use crate::arch::{self, MOST_CPUS, cpu_number};
use crate::lock::Lock;

/// The pattern in free frames. The low bits contain the frame number.
const FREE: u64 = 0xf4ee_f4ee << 32;

/// The indexes of the words that contain the pattern. Storing and checking the pattern in all words would be
/// slow.
const CHECKED: [usize; 5] = [1, 2, 3, 256, 511];

/// Whether free frames contain the pattern.
static HAS_PATTERNS: AtomicBool = AtomicBool::new(true);

/// Omits the patterns. Must be called before memory is added.
pub(crate) fn omit_patterns() {
    HAS_PATTERNS.store(false, Relaxed);
}

/// The words of a free frame that contain the pattern.
fn checked() -> &'static [usize] {
    if HAS_PATTERNS.load(Relaxed) { &CHECKED } else { &[] }
}

/// A CPU takes at least this many frames at a time from the common list. A CPU returns twice this many frames
/// at a time.
const BATCH: usize = 64;

/// A list of free frames. The first word of each frame links to the next one: it is the next frame's number
/// plus one, or 0 at the end.
struct List {
    first: Option<Frame>,
    count: usize,
}

pub(crate) struct Frames {
    own: [Lock<List>; MOST_CPUS],
    common: Lock<List>,
    /// Runs of [`LARGE`] frames, each listed by its first frame. When the other lists are empty, one run is
    /// split into single frames, which never become a run again.
    large: Lock<List>,
}

/// The number of frames of a large page.
pub(crate) const LARGE: u64 = 512;

/// The frames of a large page.
fn run(first: Frame) -> impl Iterator<Item = Frame> + Clone {
    (first.0..first.0 + LARGE).map(Frame)
}

fn words(frame: Frame) -> *mut u64 {
    arch::direct(frame).cast()
}

/// Whether a word loaded by a program is from a free frame.
pub(crate) fn is_free_word(word: u64) -> bool {
    word >> 32 == FREE >> 32
}

/// Stores the pattern in a frame that is no longer used.
pub(crate) fn mark(frame: Frame) {
    mark_all(iter::once(frame));
}

/// Stores the pattern in frames that are no longer used.
fn mark_all(frames: impl Iterator<Item = Frame> + Clone) {
    // The outer loop is over the words, so that a large page takes no time if free frames contain no pattern.
    for &word in checked() {
        for frame in frames.clone() {
            // SAFETY: the frame is memory, and nobody uses it.
            unsafe { words(frame).add(word).write_volatile(FREE | frame.0) };
        }
    }
}

/// Checks that no program has stored to free frames.
fn check_all(frames: impl Iterator<Item = Frame> + Clone) {
    for &word in checked() {
        for frame in frames.clone() {
            // SAFETY: the frame is memory.
            let found = unsafe { words(frame).add(word).read_volatile() };
            assert!(
                found == FREE | frame.0,
                "stale translation: a program stored {found:#x} to the free frame {frame:?}"
            );
        }
    }
}

impl List {
    const EMPTY: List = List { first: None, count: 0 };

    fn push(&mut self, frame: Frame) {
        // SAFETY: the frame is free memory.
        unsafe { words(frame).write(self.first.map_or(0, |next| next.0 + 1)) };
        self.first = Some(frame);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<Frame> {
        let frame = self.first?;
        // SAFETY: the frame is free memory, and its first word was written by `push`.
        self.first = next(unsafe { words(frame).read() });
        self.count -= 1;
        Some(frame)
    }

    /// The frames of the list.
    fn frames(&self) -> impl Iterator<Item = Frame> + Clone {
        // SAFETY: the frame is free memory while the list is borrowed, and its first word was written by `push`.
        iter::successors(self.first, |&frame| next(unsafe { words(frame).read() }))
    }
}

/// The frame to which the first word of a free frame links.
fn next(word: u64) -> Option<Frame> {
    word.checked_sub(1).map(Frame)
}

impl Frames {
    pub(crate) const fn new() -> Frames {
        Frames {
            own: [const { Lock::new(List::EMPTY) }; MOST_CPUS],
            common: Lock::new(List::EMPTY),
            large: Lock::new(List::EMPTY),
        }
    }

    /// Adds memory, at boot.
    pub(crate) fn add(&self, start: u64, end: u64) {
        let mut frame = start;
        while frame < end {
            mark(Frame(frame));
            if frame.is_multiple_of(LARGE) && frame + LARGE <= end {
                mark_all(run(Frame(frame)));
                self.large.lock().push(Frame(frame));
                frame += LARGE;
            } else {
                self.common.lock().push(Frame(frame));
                frame += 1;
            }
        }
    }

    /// Allocates the frames of a large page, with arbitrary content. Returns the first.
    pub(crate) fn allocate_large(&self) -> Option<Frame> {
        let first = self.large.lock().pop()?;
        check_all(run(first));
        Some(first)
    }

    /// Frees the frames of a large page, all at once.
    pub(crate) fn free_large(&self, first: Frame) {
        mark_all(run(first));
        self.large.lock().push(first);
    }

    /// Allocates frames with arbitrary content. Returns their number, which is smaller than `frames.len()` only
    /// if memory runs out.
    pub(crate) fn allocate(&self, frames: &mut [Frame]) -> usize {
        let count = self.allocate_own(frames);
        if count == frames.len() {
            return count;
        }
        // The other CPUs' lists may have the missing frames: Linux calls `drain_all_pages` in this case.
        self.own.iter().for_each(|own| self.give_back(&mut own.lock(), usize::MAX));
        count + self.allocate_own(&mut frames[count..])
    }

    /// Allocates frames without the use of other CPUs' lists. Returns their number.
    fn allocate_own(&self, frames: &mut [Frame]) -> usize {
        let mut own = self.own[cpu_number()].lock();
        if own.count < frames.len() {
            let mut common = self.common.lock();
            while common.count < frames.len()
                && let Some(first) = self.large.lock().pop()
            {
                run(first).for_each(|frame| common.push(frame));
            }
            for frame in iter::from_fn(|| common.pop()).take(frames.len().max(BATCH)) {
                own.push(frame);
            }
        }
        let mut count = 0;
        for place in frames {
            let Some(frame) = own.pop() else { break };
            check_all(iter::once(frame));
            *place = frame;
            count += 1;
        }
        count
    }

    /// Frees frames.
    pub(crate) fn free(&self, frames: &[Frame]) {
        frames.iter().copied().for_each(mark);
        let mut own = self.own[cpu_number()].lock();
        for &frame in frames {
            own.push(frame);
        }
        if own.count > 4 * BATCH {
            self.give_back(&mut own, 2 * BATCH);
        }
    }

    /// Moves up to `count` frames from a CPU's list to the common list.
    fn give_back(&self, own: &mut List, count: usize) {
        let mut common = self.common.lock();
        for frame in iter::from_fn(|| own.pop()).take(count) {
            common.push(frame);
        }
    }

    /// Checks that no program has stored to a free frame. No CPU may allocate or free frames meanwhile.
    pub(crate) fn check(&self) {
        for list in self.own.iter().chain([&self.common]) {
            check_all(list.lock().frames());
        }
        self.large.lock().frames().for_each(|first| check_all(run(first)));
    }

    /// The number of free frames.
    pub(crate) fn count(&self) -> usize {
        let own = self.own.iter().map(|own| own.lock().count).sum::<usize>();
        own + self.common.lock().count + self.large.lock().count * LARGE as usize
    }
}
