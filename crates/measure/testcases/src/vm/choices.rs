//! The designs of address spaces, as parameters: knee-vm's own, and older ones with four choices each.
//!
//! What is not chosen of an older design is as in FreeBSD 11, so `di=mutex` and `di=epoch` differ in
//! nothing else.

use knee_run::parameter::{Choice, Parameter};

/// The maps of older designs, with which the other choices are made.
const OLDER: &[&str] = &["tree", "rcu"];

const fn older(key: &'static str, value: &'static str, meaning: &'static str) -> Choice {
    Choice::new(key, value, meaning).only_with("map", OLDER)
}

pub(super) const LAZY: Choice = Choice::new(
    "shootdown",
    "lazy",
    "CPUs flush unmapped pages at their next tick, without an interrupt",
)
.only_with("map", &["knee"]);

const MAP: Parameter = &[
    Choice::new("map", "knee", "the design of knee-vm"),
    Choice::new("map", "tree", "a balanced tree under one lock: the BSDs, Linux up to 6.0"),
    Choice::new(
        "map",
        "rcu",
        "a B-tree that faults read without the lock, and one lock per entry: Linux since 6.4",
    ),
];

const RMAP: Parameter = &[
    older("rmap", "pv", "one entry per mapped page, as in FreeBSD"),
    older("rmap", "backing", "one entry per mapping, as in DragonFly since 2019"),
];

const DI: Parameter = &[
    older("di", "mutex", "delayed invalidation with a mutex and a list, as in FreeBSD in 2016"),
    older("di", "epoch", "delayed invalidation with an epoch, as proposed for FreeBSD in 2018"),
    older("di", "lockfree", "delayed invalidation in a lock-free list, as in FreeBSD since 2019"),
    older("di", "slots", "delayed invalidation with one slot per thread, as in knee-sync"),
];

const ACCOUNTING: Parameter = &[
    older("accounting", "atomic", "one page counter for all CPUs"),
    older("accounting", "quota", "a share of the page quota for each CPU"),
];

const SHOOTDOWN: Parameter = &[
    Choice::new(
        "shootdown",
        "now",
        "unmapping interrupts the CPUs that may have the pages in their TLBs",
    )
    .only_with("map", &["knee"]),
    LAZY,
];

/// The parameters of testcases that each design can run.
pub(super) const DESIGNS: &[Parameter] = &[MAP, RMAP, DI, ACCOUNTING];

/// The same and lazy shootdown, of testcases whose CPUs tick.
pub(super) const DESIGNS_AND_SHOOTDOWN: &[Parameter] = &[MAP, RMAP, DI, ACCOUNTING, SHOOTDOWN];
