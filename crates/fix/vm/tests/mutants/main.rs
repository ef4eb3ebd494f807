//! Each mutant is a planted mistake that a test must notice (see the crate knee-models). `list.rs` names the
//! test for each mutant. Loom runs models of the lock protocol in all interleavings that have a limited
//! number of preemptions. `tests/stepped` checks which pages are flushed, when, and on which CPUs.

mod list;

use knee_models::{Suite, suite};

const SUITE: Suite = suite!(list::MUTANTS);

#[test]
fn every_marked_place_is_in_the_list() {
    SUITE.check_list();
}

#[test]
fn loom_models_pass_and_notice_each_mutant() {
    SUITE.check_loom("modelled::");
}

#[test]
fn tests_pass_and_notice_each_mutant() {
    SUITE.check_integration();
}

/// Miri checks the memory orderings that loom cannot model. `scripts/sanitize vm miri` runs this test.
#[test]
fn miri_passes_and_notices_each_mutant() {
    SUITE.check_miri();
}
