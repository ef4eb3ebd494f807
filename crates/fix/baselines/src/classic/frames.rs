//! What is known of each frame, beside the embedder's [`FrameMeta`](knee_vm::FrameMeta): `vm_page`, `struct page`.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use knee_vm::{Frame, Machine, OutOfMemory};

use super::lock::{Held, Lock};
use super::pmap::ENTRIES;
use super::pools::Pools;
use super::reverse::Reverse;
use crate::invalidation::Stamp;

/// A frame. In a line of its own, as `struct page` is: locks of tables are not to disturb each other.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Record<R: Reverse> {
    /// Of a table, if tables have locks.
    pub(super) lock: Lock<()>,
    /// Whether more than one entry of tables had it since it was allocated, and others may still
    /// have to forget that they had. Changed by whoever alone has it, or with its bucket.
    pub(super) was_shared: AtomicBool,
    /// Entries of tables that have it.
    pub(super) count: AtomicU32,
    /// The next in a list of frames that are on their way back.
    pub(super) next: AtomicU64,
    /// Where it is mapped.
    pub(super) of: R::OfFrame,
}

/// What some frames have together: FreeBSD's `pv_list_locks` and `pv_invl_gen`.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Bucket {
    pub(super) lock: Lock<()>,
    /// Marked by sections that have taken a frame of the bucket out of a table.
    pub(super) stamp: Stamp,
}

/// Buckets. FreeBSD has as many as CPUs, 256 at most.
const BUCKETS: usize = 64;

/// The entries of a table.
type Table = [AtomicU64; ENTRIES];

/// The frames of a machine.
#[derive(Debug)]
pub struct Frames<'m, M: Machine, R: Reverse> {
    pub(super) machine: &'m M,
    pub(super) pools: Pools<'m, M>,
    records: Box<[Record<R>]>,
    buckets: Box<[Bucket]>,
}

impl<'m, M: Machine, R: Reverse> Frames<'m, M, R> {
    /// Those with smaller numbers than `end`.
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

    /// All records, by frames' numbers.
    pub(super) fn records(&self) -> &[Record<R>] {
        &self.records
    }

    /// Frames of 2 MiB have the same, as on FreeBSD.
    #[inline]
    pub(super) fn bucket(&self, frame: Frame) -> &Bucket {
        &self.buckets[(frame.0 >> 9) as usize % BUCKETS]
    }

    #[inline]
    pub(super) fn lock_bucket(&self, frame: Frame) -> Held<'_, ()> {
        self.bucket(frame).lock.lock_briefly()
    }

    /// Whether other entries of tables have a frame that one has, which stays so if not.
    #[inline]
    pub(super) fn is_shared(&self, frame: Frame) -> bool {
        let record = self.record(frame);
        if !record.was_shared.load(Relaxed) {
            return false;
        }
        // With the bucket: who is told no sees the marks of those that had it.
        let _bucket = self.lock_bucket(frame);
        record.count.load(Acquire) > 1
    }

    /// The entries of a table, which stays as long as its space.
    #[inline]
    pub(super) fn table(&self, frame: Frame) -> &Table {
        // SAFETY: tables are freed with their space, which the caller has; their entries are atomics.
        unsafe { self.machine.address(frame).cast::<Table>().as_ref() }
    }
}
