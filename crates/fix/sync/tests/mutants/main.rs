//! Each mutant is a planted mistake that a test must notice: see the crate knee-models. `list.rs` names the
//! test for each mutant.

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
fn shuttle_models_pass_and_notice_each_mutant() {
    SUITE.check_shuttle("scheduled::");
}

#[test]
fn unit_tests_pass_and_notice_each_mutant() {
    SUITE.check_units();
}

/// With `KNEE_TORTURE=long`, this test takes minutes.
#[test]
fn the_torture_passes_and_notices_each_mutant() {
    SUITE.check_torture();
}

/// Tests the memory orderings of accesses to process-wide state, which loom does not model. `scripts/sanitize
/// sync miri` runs this test.
#[test]
fn miri_passes_and_notices_each_mutant() {
    SUITE.check_miri();
}
