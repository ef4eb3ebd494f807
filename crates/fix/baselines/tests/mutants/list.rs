//! The planted mutants of knee-baselines, each with the test that must notice it, and some mutants of
//! knee-sync and knee-vm that tests of this crate also notice.

use knee_models::Detector::{self, Integration, Loom, Miri, Shuttle, Torture};

/// Mutants that are marked in knee-sync and knee-vm.
pub(crate) const OF_DEPENDENCIES: &[&str] =
    &["own_fence", "hosted_answers_only", "hosted_leaves_knowing"];

/// The mutants, by their names in the sources.
#[rustfmt::skip]
pub(crate) const MUTANTS: &[(&str, Detector)] = &[
    ("own_fence", Torture("epoch", &[])),
    ("di_epoch_no_fence", Torture("epoch", &[])),

    ("di_epoch_begin", Loom("invalidation::modelled::the_epoch_form_waits_for_a_section")),
    ("di_epoch_finish", Loom("invalidation::modelled::the_epoch_form_waits_for_a_section")),
    ("di_epoch_wait", Loom("invalidation::modelled::the_epoch_form_waits_for_a_section")),

    ("di_epoch_clock", Loom("invalidation::modelled::the_epoch_form_waits_for_sections_even_without_a_lock")),
    ("di_epoch_early", Loom("invalidation::modelled::the_epoch_form_waits_for_sections_even_without_a_lock")),
    ("di_epoch_no_fence", Loom("invalidation::modelled::the_epoch_form_waits_for_sections_even_without_a_lock")),
    ("di_epoch_tick", Loom("invalidation::modelled::the_epoch_form_waits_for_sections_even_without_a_lock")),

    ("locked_finish", Loom("invalidation::modelled::the_locked_form_waits_for_a_section")),
    ("locked_wait", Loom("invalidation::modelled::the_locked_form_waits_for_a_section")),

    ("link_load", Loom("invalidation::modelled::the_lock_free_form_waits_for_a_section")),
    ("link_replace", Loom("invalidation::modelled::the_lock_free_form_waits_for_a_section")),

    ("link_close", Loom("invalidation::modelled::the_lock_free_form_waits_for_sections_of_two_threads")),

    ("hosted_answers_only", Integration("designs", "storm::pages_of_one_leaf_contain_stores_since_they_were_mapped::default::x86_64")),
    ("hosted_leaves_knowing", Integration("designs", "storm::pages_of_one_leaf_contain_stores_since_they_were_mapped::default::x86_64")),

    ("conn_find", Miri("conn_table::tests::a_lookup_sees_a_complete_connection_on_any_path")),
    ("conn_insert", Miri("conn_table::tests::a_lookup_sees_a_complete_connection_on_any_path")),
    ("conn_remove", Miri("conn_table::tests::a_lookup_sees_a_complete_connection_on_any_path")),

    ("di_epoch_early", Shuttle("invalidation::scheduled::the_epoch_form_waits_for_marks")),
    ("locked_keeps", Shuttle("invalidation::scheduled::the_locked_form_waits_for_marks")),
    ("link_stays_open", Shuttle("invalidation::scheduled::the_lock_free_form_waits_for_marks")),
];
