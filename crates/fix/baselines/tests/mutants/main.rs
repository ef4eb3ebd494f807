//! Each planted mutant fails the test that `list.rs` names, and the real code passes this test: see the crate
//! knee-models.

mod list;

use knee_models::{Suite, suite};

const SUITE: Suite = Suite {
    of_dependencies: list::OF_DEPENDENCIES,
    torture: "torture_epoch",
    ..suite!(list::MUTANTS)
};

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
fn storms_pass_and_notice_each_mutant() {
    SUITE.check_integration();
}

/// With `KNEE_TORTURE=long`, this test takes minutes.
#[test]
fn the_torture_passes_and_notices_each_mutant() {
    SUITE.check_torture();
}

/// loom does not model process-wide data, so Miri tests the memory orderings of accesses to such data.
/// `scripts/sanitize baselines miri` runs this test.
#[test]
fn miri_passes_and_notices_each_mutant() {
    SUITE.check_miri();
}
