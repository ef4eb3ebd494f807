//! Tests of each implementation of delayed invalidation: several threads execute random sequences of
//! operations.

#![cfg(not(miri))]

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread;

use knee_baselines::invalidation::{Epoch, Invalidation, LockFree, Locked, Slots, Stamp, Tracker};
use proptest::prelude::*;

const THREADS: usize = 3;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn a_wait_returns_only_after_all_marking_sections_have_ended(
        operations in prop::collection::vec((0..4_u8, 0..THREADS, 0..2_usize), 1..40)
    ) {
        waits_for_marks(Slots, &operations)?;
        waits_for_marks(Epoch::new(), &operations)?;
        waits_for_marks(Locked::new(), &operations)?;
        if let Some(form) = LockFree::new() {
            waits_for_marks(form, &operations)?;
        }
    }
}

/// Sections begin, mark pages and end. Each wait runs on its own thread. When the wait returns, that thread
/// checks the sections that had marked the page before the wait: all of them must have ended.
fn waits_for_marks<F: Invalidation>(
    form: F,
    operations: &[(u8, usize, usize)],
) -> Result<(), TestCaseError> {
    let tracker = &Tracker::new(form);
    let pages = &[(); 2].map(|()| (Stamp::new(), Mutex::new(Vec::<Arc<AtomicBool>>::new())));
    let early = &AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut members = [(); THREADS].map(|()| tracker.join());
        let mut sections: Vec<_> = members.iter_mut().map(|member| (None, Some(member))).collect();
        for &(operation, thread, page) in operations {
            let (section, member) = &mut sections[thread];
            match operation {
                0 => {
                    if let Some(member) = member.take() {
                        *section = Some((member.begin(), Arc::new(AtomicBool::new(false))));
                    }
                }
                1 => {
                    if let Some((section, is_over)) = section {
                        let (stamp, marked_by) = &pages[page];
                        let mut marked_by =
                            marked_by.lock().expect("no thread panics while it holds the lock");
                        marked_by.push(Arc::clone(is_over));
                        section.mark(stamp);
                    }
                }
                2 => {
                    if let Some((section, is_over)) = section.take() {
                        is_over.store(true, SeqCst);
                        section.finish();
                    }
                }
                _ => {
                    let (stamp, marked_by) = &pages[page];
                    let marked_by =
                        marked_by.lock().expect("no thread panics while it holds the lock").clone();
                    scope.spawn(move || {
                        tracker.wait(stamp);
                        let is_early = |is_over: &Arc<AtomicBool>| !is_over.load(SeqCst);
                        early.fetch_add(
                            marked_by.iter().filter(|over| is_early(over)).count(),
                            SeqCst,
                        );
                    });
                    // The waiting thread can run during these calls, so a faulty `wait` returns before the
                    // sections end.
                    (0..3).for_each(|_| thread::yield_now());
                }
            }
        }
        for (section, _) in &mut sections {
            if let Some((section, is_over)) = section.take() {
                is_over.store(true, SeqCst);
                section.finish();
            }
        }
    });
    prop_assert_eq!(early.load(SeqCst), 0, "a wait returned before a section ended");
    Ok(())
}
