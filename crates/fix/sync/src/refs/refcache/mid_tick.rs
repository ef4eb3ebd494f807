//! References that change in the middle of a tick: after some caches have been flushed, and before the others
//! are flushed.

use std::any::Any;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst, fence};

use crate::platform::Platform;

use super::cache::{self, GROUP, Refcache};

type Header = cache::Header<parking_lot::RawMutex>;
type Local = Rc<cache::Local<'static, Stage, parking_lot::RawMutex>>;

/// A closure, and the number of heavy fences until it is called.
type Later = (usize, Box<dyn FnOnce()>);

thread_local! {
    /// The closure that a later heavy fence will call.
    static LATER: RefCell<Option<Later>> = const { RefCell::new(None) };
}

/// A platform on which the test's only thread plays the parts of all threads. Each call of `heavy` decrements
/// the number of fences in [`LATER`]; the call that decrements it to 0 then calls the closure.
struct Stage;

// SAFETY: the platform is symmetric, and `heavy` executes a full fence.
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

/// An object that stays in memory when it is freed.
#[repr(C)]
struct Object {
    header: Header,
    freed: AtomicBool,
}

unsafe fn free(header: NonNull<Header>) {
    // SAFETY: the header is the first field of an object, which stays in memory.
    let object = unsafe { header.cast::<Object>().as_ref() };
    assert!(!object.freed.swap(true, SeqCst), "freed twice");
}

/// Threads in three groups, and an object with one reference.
struct Scene {
    refcache: &'static Refcache<Stage, parking_lot::RawMutex>,
    /// A thread in the first group that is flushed.
    early: Local,
    /// A thread in the last group.
    late: Local,
    others: Vec<Local>,
    object: NonNull<Object>,
}

impl Scene {
    fn new() -> Scene {
        let refcache = keep(Refcache::new(Stage));
        // The thread that registers last is flushed first.
        let late = Rc::new(refcache.register());
        let others = (1..2 * GROUP).map(|_| Rc::new(refcache.register())).collect();
        let early = Rc::new(refcache.register());
        Scene { refcache, early, late, others, object: object() }
    }

    /// Ticks, and calls `middle` after the first group was flushed. A tick flushes only caches that were
    /// used, so each thread first uses its cache, which makes three groups.
    fn tick(&self, middle: impl FnOnce() + 'static) {
        for local in self.others.iter().chain([&self.early, &self.late]) {
            let busy = object();
            add(local, busy, 1);
        }
        // The tick executes one fence before all groups, and one more fence before each group. So the third
        // fence comes after the first group and before the second.
        LATER.set(Some((3, Box::new(middle))));
        self.refcache.tick();
        assert!(LATER.with_borrow(Option::is_none), "the tick called `middle`");
    }

    fn is_freed(&self) -> bool {
        // SAFETY: objects stay in memory.
        unsafe { self.object.as_ref() }.freed.load(SeqCst)
    }
}

/// Keeps a value until the process exits, in a static, so that Miri finds it and reports no leak.
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

fn add(local: &Local, object: NonNull<Object>, change: i64) {
    // SAFETY: objects stay in memory.
    unsafe { local.add(object.cast(), change) };
}

#[test]
fn deltas_of_zero_keep_an_object_alive_while_its_reference_moves() {
    let scene = Scene::new();
    let (early, late, object) = (&scene.early, &scene.late, scene.object);
    // The global count becomes zero although there is a reference, because the reference's delta is added to
    // a cache that was already flushed.
    add(late, object, -1);
    scene.tick({
        let early = Rc::clone(early);
        move || add(&early, object, 1)
    });
    for _ in 0..6 {
        // Before the tick, the reference moves from the cache of `early` to the cache of `late`. Between the
        // flushes of the two caches, the reference moves back. So each cache contains a delta of zero when it
        // is flushed.
        add(late, object, 1);
        add(early, object, -1);
        scene.tick({
            let (early, late) = (Rc::clone(early), Rc::clone(late));
            move || {
                add(&early, object, 1);
                add(&late, object, -1);
            }
        });
        assert!(!scene.is_freed(), "there is a reference");
    }
    add(early, object, -1);
    (0..3).for_each(|_| scene.tick(|| ()));
    assert!(scene.is_freed());
}

#[test]
fn an_upgrade_between_the_flush_and_the_review_keeps_the_object_alive() {
    let scene = Scene::new();
    let (early, object) = (&scene.early, scene.object);
    // SAFETY: objects stay in memory, and the pointer is valid for the whole object.
    let word = unsafe { Header::weak_ref(object.cast()) };
    add(early, object, -1);
    scene.tick(|| ());
    scene.tick({
        let (early, word) = (Rc::clone(early), word.clone());
        move || assert!(early.upgrade(&word).is_some(), "the object has not been reviewed yet")
    });
    assert!(!scene.is_freed(), "the upgrade is a reference");
    (0..6).for_each(|_| scene.tick(|| ()));
    assert!(!scene.is_freed(), "the upgrade is a reference");
    add(early, object, -1);
    (0..3).for_each(|_| scene.tick(|| ()));
    assert!(scene.is_freed());
    assert!(early.upgrade(&word).is_none());
}
