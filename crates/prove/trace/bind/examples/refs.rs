//! `knee_sync::refs`: the three kinds of reference counts.
//!
//! Each operation uses one kind of count: `percpu_…`, `snzi_…` and `refcache_…`.

use std::process::ExitCode;
use std::sync::Mutex;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Interface, Model, Natural, Operation, Outcome, Stop, Truth, state};
use knee_sync::refs::refcache::{RefcacheArc, Weak, tick};
use knee_sync::refs::{PerCpuRef, Snzi};

state! {
    /// The numbers of references, not counting the owners' references.
    struct Counts {
        /// Whether the owner has killed the per-CPU count. The owner keeps its own reference until
        /// it kills the count.
        dead: Truth,
        percpu: Natural,
        snzi: Natural,
        refcache: Natural,
    }
}

/// Assumes that there is a reference, and puts it.
fn put(count: &mut Natural, call: &mut knee_commute::Call<'_>) -> Result<(), Stop> {
    call.execution.assume_at_most(1, count.0)?;
    count.0 = count.0 - 1;
    Ok(())
}

/// Taking and putting references commute unless the caller can see whether a reference was the
/// last one.
fn counts() -> Interface<Counts> {
    let unseen = |name, about| Operation { name, about, apply: |_, _| Ok(Outcome::nothing()) };
    Interface {
        name: "counts",
        about: "reference counts: all operations commute, except when a reference is the last",
        operations: vec![
            Operation {
                name: "percpu_get",
                about: "(): takes a reference",
                apply: |state, call| {
                    call.execution.assume_at_most(1, state.percpu.0)?;
                    state.dead.ask(call.execution)?;
                    state.percpu.0 = state.percpu.0 + 1;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "percpu_tryget",
                about: "(): takes a reference unless the count is dead",
                apply: |state, call| {
                    if state.dead.ask(call.execution)? {
                        return Ok(Outcome::of("dead"));
                    }
                    state.percpu.0 = state.percpu.0 + 1;
                    Ok(Outcome::of("taken"))
                },
            },
            Operation {
                name: "percpu_put",
                about: "(): puts a reference, and returns whether it was the last",
                apply: |state, call| {
                    put(&mut state.percpu, call)?;
                    let is_dead = state.dead.ask(call.execution)?;
                    let is_last = is_dead && call.execution.at_most(state.percpu.0, 0)?;
                    Ok(Outcome::of(if is_last { "last" } else { "put" }))
                },
            },
            Operation {
                name: "percpu_kill",
                about: "(): puts the owner's reference, and returns whether it was the last",
                apply: |state, call| {
                    let was_dead = state.dead.ask(call.execution)?;
                    state.dead = Truth::Known(true);
                    let is_last = !was_dead && call.execution.at_most(state.percpu.0, 0)?;
                    Ok(Outcome::of(if is_last { "last" } else { "put" }))
                },
            },
            Operation {
                name: "percpu_is_dead",
                about: "()",
                apply: |state, call| {
                    let is_dead = state.dead.ask(call.execution)?;
                    Ok(Outcome::of(if is_dead { "yes" } else { "no" }))
                },
            },
            Operation {
                name: "percpu_is_zero",
                about: "()",
                apply: |state, call| {
                    let is_zero = state.dead.ask(call.execution)?
                        && call.execution.at_most(state.percpu.0, 0)?;
                    Ok(Outcome::of(if is_zero { "yes" } else { "no" }))
                },
            },
            Operation {
                name: "snzi_arrive",
                about: "()",
                apply: |state, call| {
                    call.execution.at_most(1, state.snzi.0)?;
                    state.snzi.0 = state.snzi.0 + 1;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "snzi_depart",
                about: "(): undoes an arrival",
                apply: |state, call| {
                    put(&mut state.snzi, call)?;
                    call.execution.at_most(1, state.snzi.0)?;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "snzi_query",
                about: "(): whether there is an arrival",
                apply: |state, call| {
                    let arrived = call.execution.at_most(1, state.snzi.0)?;
                    Ok(Outcome::of(if arrived { "yes" } else { "no" }))
                },
            },
            Operation {
                name: "refcache_clone",
                about: "(): clones the owner's reference",
                apply: |state, _| {
                    state.refcache.0 = state.refcache.0 + 1;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "refcache_drop",
                about: "(): drops a reference",
                apply: |state, call| {
                    put(&mut state.refcache, call)?;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "refcache_upgrade",
                about: "(): upgrades a weak reference",
                apply: |state, _| {
                    state.refcache.0 = state.refcache.0 + 1;
                    Ok(Outcome::nothing())
                },
            },
            unseen("refcache_downgrade", "(): makes a weak reference"),
            unseen("refcache_deref", "(): reads the object"),
            unseen("refcache_tick", "(): ends an epoch"),
        ],
        ..Interface::default()
    }
}

/// An object on cache lines of its own.
#[repr(align(128))]
struct Line(u64);

/// SNZI arrivals that the operations drop. Arrival `n` was made at leaf `n` of the tree.
type Arrivals = Vec<Mutex<Option<knee_sync::refs::Arrival<'static>>>>;

struct Bound {
    percpu: PerCpuRef,
    snzi: &'static Snzi,
    arrivals: Arrivals,
    object: RefcacheArc<Line>,
    /// References that the operations drop.
    copies: Vec<Mutex<Option<RefcacheArc<Line>>>>,
    weak: Weak<Line>,
}

impl Binding for Bound {
    fn model() -> impl Model {
        counts()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        let percpu = PerCpuRef::default();
        (0..setup.number("percpu")).for_each(|_| percpu.get());
        if setup.flag("dead") {
            let _ = percpu.kill();
        }
        let snzi: &'static Snzi = Box::leak(Box::new(Snzi::new(8)));
        let arrive = |nr| Mutex::new(Some(snzi.arrive_at(nr as usize)));
        let arrivals = (0..setup.number("snzi")).map(arrive).collect();
        let object = RefcacheArc::new(Line(7));
        let copy = |_| Mutex::new(Some(object.clone()));
        let copies = (0..setup.number("refcache")).map(copy).collect();
        let weak = object.downgrade();
        // Moves the counts from the caches of this thread to the object.
        (0..3).for_each(|_| tick());
        Self { percpu, snzi, arrivals, object, copies, weak }
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let Self { percpu, snzi, object, weak, .. } = self;
        let thread = call.thread();
        // Registers this thread, and allocates its counters.
        if percpu.tryget_live() {
            let _ = percpu.put();
        }
        drop(RefcacheArc::new(Line(1)).clone());
        let yes = |yes| Returned::Word(if yes { "yes" } else { "no" });
        let last = |last| Returned::Word(if last { "last" } else { "put" });
        Some(match call.operation() {
            "percpu_get" => Box::new(|| {
                percpu.get();
                Returned::Nothing
            }),
            "percpu_tryget" => {
                Box::new(|| Returned::Word(if percpu.tryget_live() { "taken" } else { "dead" }))
            }
            "percpu_put" => Box::new(move || last(percpu.put())),
            "percpu_kill" => Box::new(move || last(percpu.kill())),
            "percpu_is_dead" => Box::new(move || yes(percpu.is_dead())),
            "percpu_is_zero" => Box::new(move || yes(percpu.is_zero())),
            "snzi_arrive" => Box::new(move || {
                std::mem::forget(snzi.arrive_at(thread));
                Returned::Nothing
            }),
            "snzi_depart" => {
                let arrival = self.arrivals[thread % self.arrivals.len()].lock().unwrap().take();
                let mut arrival = Some(arrival.expect("an arrival for each thread"));
                Box::new(move || {
                    drop(arrival.take());
                    Returned::Nothing
                })
            }
            "snzi_query" => Box::new(move || yes(snzi.query())),
            "refcache_clone" => Box::new(|| {
                std::mem::forget(object.clone());
                Returned::Nothing
            }),
            "refcache_drop" => {
                let mut copy = self.copies[thread % self.copies.len()].lock().unwrap().take();
                assert!(copy.is_some(), "a reference for each thread");
                Box::new(move || {
                    drop(copy.take());
                    Returned::Nothing
                })
            }
            "refcache_upgrade" => Box::new(|| {
                std::mem::forget(weak.upgrade().unwrap());
                Returned::Nothing
            }),
            "refcache_downgrade" => Box::new(|| {
                std::mem::forget(object.downgrade());
                Returned::Nothing
            }),
            "refcache_deref" => Box::new(|| {
                std::hint::black_box(object.0);
                Returned::Nothing
            }),
            "refcache_tick" => Box::new(|| {
                tick();
                Returned::Nothing
            }),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Bound>()
}
