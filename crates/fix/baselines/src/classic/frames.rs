//! The metadata of each frame, in addition to the embedder's [`FrameMeta`](knee_vm::FrameMeta): `vm_page`,
//! `struct page`.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use knee_vm::{Frame, Machine, OutOfMemory};

use super::lock::{Held, Lock};
use super::pools::Pools;
use super::reverse_state::ReverseState;
use crate::invalidation::Stamp;

/// The record of a frame. Like a `struct page`, it has a cache line of its own, so that the locks of two
/// tables never share a line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Record<R: ReverseState> {
    /// The lock of the table in this frame, if tables have locks.
    pub(super) lock: Lock<()>,
    /// This flag is set when a second page-table entry maps the frame. While the flag is set, TLBs may still
    /// contain a former mapping of the frame. The flag is cleared when the frame's only owner has waited for
    /// the flushes of all former mappings, and when the frame is allocated again. Only the frame's sole
    /// owner, or a thread that holds the lock of the frame's bucket, changes this flag.
    pub(super) was_shared: AtomicBool,
    /// The number of page-table entries that contain the frame.
    pub(super) count: AtomicU32,
    /// The next frame in a list of frames to free.
    pub(super) next: AtomicU64,
    /// The frame's part of the reverse map.
    pub(super) of: R::OfFrame,
}

/// The lock and the stamp that some frames share: FreeBSD's `pv_list_locks` and `pv_invl_gen`.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Bucket {
    pub(super) lock: Lock<()>,
    /// A section that removes a frame of the bucket from a table marks this stamp.
    pub(super) stamp: Stamp,
}

/// The bucket count. FreeBSD has one bucket for each CPU, but at most 256.
const BUCKETS: usize = 64;

/// The number of page-number bits that one table level translates.
pub(super) const BITS: u32 = 9;

/// The number of entries of a table.
pub(super) const ENTRIES: usize = 1 << BITS;

/// The entries of a page table.
type Table = [AtomicU64; ENTRIES];

/// The frames of a machine.
#[derive(Debug)]
pub struct Frames<'m, M: Machine, R: ReverseState> {
    pub(super) machine: &'m M,
    pub(super) pools: Pools<'m, M>,
    records: Box<[Record<R>]>,
    buckets: Box<[Bucket]>,
}

impl<'m, M: Machine, R: ReverseState> Frames<'m, M, R> {
    /// Creates the records of the frames with numbers less than `end`.
    pub(super) fn new(machine: &'m M, end: usize) -> Result<Frames<'m, M, R>, OutOfMemory> {
        let mut records = Vec::new();
        records.try_reserve_exact(end)?;
        records.resize_with(end, || Record {
            lock: Lock::new(()),
            was_shared: AtomicBool::new(false),
            count: AtomicU32::new(0),
            next: AtomicU64::new(0),
            of: R::OfFrame::default(),
        });
        let mut buckets = Vec::new();
        buckets.try_reserve_exact(BUCKETS)?;
        buckets.resize_with(BUCKETS, Bucket::default);
        let (records, buckets) = (records.into_boxed_slice(), buckets.into_boxed_slice());
        Ok(Frames { machine, pools: Pools::new(machine), records, buckets })
    }

    #[inline]
    pub(super) fn record(&self, frame: Frame) -> &Record<R> {
        &self.records[frame.0 as usize]
    }

    /// Returns all records, indexed by frame number.
    pub(super) fn records(&self) -> &[Record<R>] {
        &self.records
    }

    /// Returns the bucket of a frame. The frames of each aligned 2 MiB block share a bucket, as on FreeBSD.
    #[inline]
    pub(super) fn bucket(&self, frame: Frame) -> &Bucket {
        &self.buckets[(frame.0 >> 9) as usize % BUCKETS]
    }

    #[inline]
    pub(super) fn lock_bucket(&self, frame: Frame) -> Held<'_, ()> {
        self.bucket(frame).lock.lock_briefly()
    }

    /// Returns whether more than one page-table entry contains a frame. If the result is false, the caller's
    /// entry is the only one, so no other thread can change the result.
    #[inline]
    pub(super) fn is_shared(&self, frame: Frame) -> bool {
        let record = self.record(frame);
        if !record.was_shared.load(Relaxed) {
            return false;
        }
        // The bucket is locked during the load, so that a caller that gets false sees the marks of the
        // sections that removed the frame's other mappings.
        let _bucket = self.lock_bucket(frame);
        record.count.load(Relaxed) > 1
    }

    /// Returns the entries of a table. The table exists as long as its space.
    #[inline]
    pub(super) fn table(&self, frame: Frame) -> &Table {
        // SAFETY: tables are freed with their space, which the caller borrows. All accesses to entries are
        // atomic.
        unsafe { self.machine.address(frame).cast::<Table>().as_ref() }
    }
}
