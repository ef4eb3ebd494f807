//! What can be wrong, and the test that notices it.

use Notices::{Design, Interpreter, Model, Schedule, Torture};

/// What notices a mutant.
pub(crate) enum Notices {
    /// A model of loom's, by name.
    Model(&'static str),
    /// A model of shuttle's, by name.
    Schedule(&'static str),
    /// The torture.
    Torture,
    /// A test of `tests/designs`, by name.
    Design(&'static str),
    /// A unit test, by name, which Miri runs.
    Interpreter(&'static str),
}

/// Places of knee-sync and knee-vm whose mutants our tests notice as well.
pub(crate) const BELOW: &[&str] = &["own_fence", "hosted_answers_only", "hosted_leaves_knowing"];

/// Mutants by their names in the sources.
#[rustfmt::skip]
pub(crate) const MUTANTS: &[(&str, Notices)] = &[
    ("own_fence", Torture),
    ("di_epoch_no_fence", Torture),

    ("di_epoch_begin", Model("invalidation::modelled::an_epoch_is_waited_for")),
    ("di_epoch_finish", Model("invalidation::modelled::an_epoch_is_waited_for")),
    ("di_epoch_wait", Model("invalidation::modelled::an_epoch_is_waited_for")),

    ("di_epoch_clock", Model("invalidation::modelled::an_epoch_is_waited_for_without_a_lock")),
    ("di_epoch_early", Model("invalidation::modelled::an_epoch_is_waited_for_without_a_lock")),
    ("di_epoch_no_fence", Model("invalidation::modelled::an_epoch_is_waited_for_without_a_lock")),
    ("di_epoch_tick", Model("invalidation::modelled::an_epoch_is_waited_for_without_a_lock")),

    ("locked_finish", Model("invalidation::modelled::a_locked_section_is_waited_for")),
    ("locked_wait", Model("invalidation::modelled::a_locked_section_is_waited_for")),

    ("link_load", Model("invalidation::modelled::sections_that_are_linked_are_waited_for")),
    ("link_replace", Model("invalidation::modelled::sections_that_are_linked_are_waited_for")),

    ("link_close", Model("invalidation::modelled::two_sections_that_are_linked_are_waited_for")),

    ("hosted_answers_only", Design("storm::pages_of_one_leaf_have_what_was_stored_since_they_were_mapped::default")),
    ("hosted_leaves_knowing", Design("storm::pages_of_one_leaf_have_what_was_stored_since_they_were_mapped::default")),

    ("conn_find", Interpreter("conn_table::tests::a_connection_is_found_whole_whatever_led_to_it")),
    ("conn_insert", Interpreter("conn_table::tests::a_connection_is_found_whole_whatever_led_to_it")),
    ("conn_remove", Interpreter("conn_table::tests::a_connection_is_found_whole_whatever_led_to_it")),

    ("di_epoch_early", Schedule("invalidation::scheduled::an_epoch_waits_for_who_marked")),
    ("locked_keeps", Schedule("invalidation::scheduled::the_locked_form_waits_for_who_marked")),
    ("link_stays_open", Schedule("invalidation::scheduled::the_lock_free_form_waits_for_who_marked")),
];
