//! What happens in the middle of a tick: after some caches were flushed and before others are.

use std::any::Any;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst, fence};

use crate::platform::Platform;

use super::cache::{self, GROUP, Refcache};

type Header = cache::Header<parking_lot::RawMutex>;
type Local = cache::Local<'static, Stage, parking_lot::RawMutex>;

/// Fences until then, and what is to be done.
type Later = (usize, Box<dyn FnOnce()>);

thread_local! {
    /// What comes at a later fence, and at which one.
    static LATER: RefCell<Option<Later>> = const { RefCell::new(None) };
}

/// Threads of a test, all of which are the same thread. Their fences call what the test wants.
struct Stage;

// SAFETY: it is symmetric, and its fence is a full one.
unsafe impl Platform for Stage {
    fn is_symmetric(&self) -> bool {
        true
    }

    fn heavy(&self) {
        fence(SeqCst);
        let due = LATER.with_borrow_mut(|later| {
            let (fences, _) = later.as_mut()?;
            *fences -= 1;
            (*fences == 0).then(|| later.take()).flatten()
        });
        if let Some((_, then)) = due {
            then();
        }
    }

    fn relax(&self, _: u32) {
        panic!("there is no other thread to wait for");
    }

    fn now(&self) -> u64 {
        0
    }

    fn thread(&self) -> u64 {
        0
    }
}

/// An object that stays when it is freed.
#[repr(C)]
struct Object {
    header: Header,
    freed: AtomicBool,
}

unsafe fn free(header: NonNull<Header>) {
    // SAFETY: the header is the beginning of an object, which is kept.
    let object = unsafe { header.cast::<Object>().as_ref() };
    assert!(!object.freed.swap(true, SeqCst), "freed twice");
}

/// Threads in three groups, and an object with one reference.
struct Scene {
    refcache: &'static Refcache<Stage, parking_lot::RawMutex>,
    /// Of the first group that is flushed.
    early: Local,
    /// Of the last one.
    late: Local,
    others: Vec<Local>,
    object: NonNull<Object>,
}

impl Scene {
    fn new() -> Scene {
        let refcache = keep(Refcache::new(Stage));
        // The thread that registers last is flushed first.
        let late = refcache.register();
        let others = (1..2 * GROUP).map(|_| refcache.register()).collect();
        let early = refcache.register();
        Scene { refcache, early, late, others, object: object() }
    }

    /// Ticks, and calls this in the middle: all take part, so that there are three groups, and it is
    /// the second's turn.
    fn tick(&self, middle: impl FnOnce() + 'static) {
        for &local in self.others.iter().chain([&self.early, &self.late]) {
            let busy = object();
            add(local, busy, 1);
        }
        // The first fence comes before all, and each group has another.
        LATER.set(Some((3, Box::new(middle))));
        self.refcache.tick();
        assert!(LATER.with_borrow(Option::is_none), "the tick had no middle");
    }

    fn is_freed(&self) -> bool {
        // SAFETY: it is kept.
        unsafe { self.object.as_ref() }.freed.load(SeqCst)
    }
}

/// Keeps it for as long as the process is, where Miri finds it and does not call it leaked.
fn keep<T: Send + Sync + 'static>(value: T) -> &'static T {
    static KEPT: Mutex<Vec<&'static (dyn Any + Send + Sync)>> = Mutex::new(Vec::new());
    let kept: &'static T = Box::leak(Box::new(value));
    KEPT.lock().unwrap().push(kept);
    kept
}

fn object() -> NonNull<Object> {
    let object = Object { header: Header::new(free), freed: AtomicBool::new(false) };
    NonNull::from(keep(object))
}

fn add(local: Local, object: NonNull<Object>, change: i64) {
    // SAFETY: this thread has joined for all; objects are kept.
    unsafe { local.add(object.cast(), change) };
}

#[test]
fn a_reference_that_is_handed_around_between_flushes_is_seen_by_its_deltas_of_zero() {
    let scene = Scene::new();
    let (early, late, object) = (scene.early, scene.late, scene.object);
    // The global count comes to zero, as the one reference that there is was noted after the flush of
    // its cache.
    add(late, object, -1);
    scene.tick(move || add(early, object, 1));
    for _ in 0..6 {
        // Before the first cache is flushed, the reference is one of the second; before that is
        // flushed, one of the first. Each is flushed with a delta of zero.
        add(late, object, 1);
        add(early, object, -1);
        scene.tick(move || {
            add(early, object, 1);
            add(late, object, -1);
        });
        assert!(!scene.is_freed(), "there is a reference");
    }
    add(early, object, -1);
    (0..3).for_each(|_| scene.tick(|| ()));
    assert!(scene.is_freed());
}

#[test]
fn an_upgrade_between_the_flush_and_the_review_keeps_the_object() {
    let scene = Scene::new();
    let (early, object) = (scene.early, scene.object);
    // SAFETY: it is kept, and the pointer is that of the whole object.
    let word = unsafe { Header::weak_ref(object.cast()) };
    add(early, object, -1);
    scene.tick(|| ());
    scene.tick({
        let word = word.clone();
        // SAFETY: this thread has joined.
        move || assert!(unsafe { early.upgrade(&word) }.is_some(), "it has not been reviewed yet")
    });
    assert!(!scene.is_freed(), "the upgrade is a reference");
    (0..6).for_each(|_| scene.tick(|| ()));
    assert!(!scene.is_freed(), "the upgrade is a reference");
    add(early, object, -1);
    (0..3).for_each(|_| scene.tick(|| ()));
    assert!(scene.is_freed());
    // SAFETY: this thread has joined.
    assert!(unsafe { early.upgrade(&word) }.is_none());
}
