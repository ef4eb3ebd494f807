//! What can be wrong, and who notices.

use Notices::{Hosted, HostedModel, Model, Stepped};

/// Who notices a mutant.
pub(crate) enum Notices {
    /// A model, by name.
    Model(&'static str),
    /// A model of the hosted machine's mailboxes, by name.
    HostedModel(&'static str),
    /// A test of `tests/stepped`, by name.
    Stepped(&'static str),
    /// A test of `tests/classic`, by name.
    Hosted(&'static str),
}

/// Mutants by their names in the sources.
#[rustfmt::skip]
pub(crate) const MUTANTS: &[(&str, Notices)] = &[
    // A flush that is missing, is late, or is not told to all or for all.
    ("remove_no_flush", Stepped("what_is_unmapped_is_forgotten_by_all::x86_64")),
    ("remove_no_flush", Stepped("what_is_discarded_is_forgotten_by_all::x86_64")),
    ("protect_no_flush", Stepped("what_may_not_be_written_any_more_is_written_by_nobody::x86_64")),
    ("fork_no_flush", Stepped("a_copy_is_what_there_was_when_all_had_forgotten_how_to_write::x86_64")),
    ("unshare_no_flush", Stepped("what_one_writes_to_a_page_of_two_spaces_is_seen_by_all_of_its_own::x86_64")),
    ("unshare_flush_last", Stepped("nobody_has_the_new_page_while_another_has_the_old_one::x86_64")),
    ("flush_last", Stepped("frames_are_not_used_again_before_all_have_forgotten_them::x86_64")),
    ("flush_after_leaves", Stepped("frames_of_two_spaces_are_not_used_again_before_all_cpus_of_both_have_forgotten_them::x86_64")),
    ("takes_shared_at_once", Stepped("frames_of_two_spaces_are_not_used_again_before_all_cpus_of_both_have_forgotten_them::x86_64")),
    ("skips_a_cpu", Stepped("what_is_unmapped_is_forgotten_by_all::x86_64")),
    ("skips_a_cpu", Stepped("what_is_discarded_is_forgotten_by_all::x86_64")),
    ("skips_a_cpu", Stepped("what_may_not_be_written_any_more_is_written_by_nobody::x86_64")),
    ("skips_a_cpu", Stepped("a_copy_is_what_there_was_when_all_had_forgotten_how_to_write::x86_64")),
    ("flushes_one_page", Stepped("what_is_unmapped_is_forgotten_by_all::x86_64")),
    ("hosted_answers_only", Hosted("storm::pages_of_one_leaf_have_what_was_stored_since_they_were_mapped::default")),

    // A flush of what only some architectures cache.
    ("fault_no_flush", Stepped("a_page_that_was_read_is_written_by_all::aarch64")),
    ("fault_no_flush", Stepped("a_page_that_was_read_is_written_by_all::sv48")),
    ("fault_keeps_tables", Stepped("a_page_that_was_read_is_written_by_all::sv48")),
    ("prune_keeps_tables", Stepped("tables_are_not_used_again_before_all_have_flushed_them::aarch64")),
    ("prune_keeps_tables", Stepped("tables_are_not_used_again_before_all_have_flushed_them::sv48")),

    // Somebody who does not wait for one.
    ("no_wait_for_flush", Stepped("who_changes_pages_that_are_being_flushed_waits::x86_64")),
    ("no_wait_for_parts", Stepped("who_unmaps_the_last_pages_of_an_object_waits_for_who_unmaps_the_others::x86_64")),
    ("no_wait_for_fork", Stepped("a_copy_is_what_there_was_when_all_had_forgotten_how_to_write::x86_64")),
    ("fault_while_forking", Stepped("a_copy_is_what_there_was_when_all_had_forgotten_how_to_write::x86_64")),
    ("fault_while_leaving", Stepped("who_goes_to_a_page_that_is_on_its_way_out_waits::x86_64")),
    ("unshare_while_flushing", Stepped("who_needs_a_copy_waits_for_the_flush_of_other_pages::x86_64")),

    // What is unmapped lazily.
    ("one_tick_is_enough", Stepped("lazy::frames_are_not_used_again_before_the_last_has_ticked::x86_64")),
    ("ticks_late", Stepped("lazy::what_is_learnt_in_a_tick_is_not_forgotten_by_it::x86_64")),
    ("maps_what_lingers", Stepped("lazy::who_maps_what_others_know_has_them_forget_it::x86_64")),
    ("gives_what_lingers", Stepped("lazy::what_lingers_is_not_mapped_where_there_is_room::x86_64")),
    ("objects_linger", Stepped("lazy::not_all_that_is_unmapped_lingers::x86_64")),
    ("keeps_what_lingers", Stepped("lazy::who_unmaps_interrupts_nobody_and_forgets_at_once::x86_64")),

    // Two at once.
    ("visits_once", Stepped("races::who_takes_pages_out_of_an_object_finds_those_of_a_copy_that_is_being_made::x86_64")),
    ("copy_not_locked", Stepped("races::who_takes_pages_out_of_an_object_finds_those_of_a_copy_that_is_being_made::x86_64")),
    ("moves_together", Stepped("races::parts_of_a_mapping_that_two_move_stay_what_they_are::x86_64")),
    ("forks_last", Stepped("races::who_copies_does_not_wait_for_who_comes_after::x86_64")),
    ("forks_first", Stepped("races::who_waits_for_a_copy_does_not_wait_for_the_next::x86_64")),
    ("forks_for_ever", Stepped("races::those_who_copy_without_end_wait_for_who_takes_pages_out::x86_64")),

    // Frames that are lost, or written by two.
    ("frames_stay", Stepped("frames_are_not_used_again_before_all_have_forgotten_them::x86_64")),
    ("shared_frames_stay", Stepped("frames_of_two_spaces_are_not_used_again_before_all_cpus_of_both_have_forgotten_them::x86_64")),
    ("unshare_no_release", Stepped("frames_of_two_spaces_come_back::x86_64")),
    ("writes_to_shared", Stepped("a_copy_is_what_there_was_when_all_had_forgotten_how_to_write::x86_64")),

    // The lock protocol.
    ("node_lock", Model("two_who_map_pages_of_a_new_leaf_both_do")),
    ("node_lock_slowly", Model("two_who_map_pages_of_a_new_leaf_both_do")),
    ("node_unlock", Model("two_who_map_pages_of_a_new_leaf_both_do")),
    ("child_add", Model("a_branch_that_somebody_makes_is_seen_whole")),
    ("child_load", Model("a_branch_that_somebody_makes_is_seen_whole")),
    ("extents_publish", Model("extents_that_are_replaced_are_found_as_they_were_or_are")),
    ("extents_load", Model("extents_that_are_replaced_are_found_as_they_were_or_are")),
    ("extents_write", Model("extents_are_found_as_they_were_at_one_moment")),
    ("extents_version", Model("extents_are_found_as_they_were_at_one_moment")),
    ("extents_no_release", Model("extents_are_found_as_they_were_at_one_moment")),
    ("extents_no_acquire", Model("extents_are_found_as_they_were_at_one_moment")),
    ("extents_read_once", Model("extents_are_found_as_they_were_at_one_moment")),
    ("extents_read_once", Model("extents_that_are_handed_down_are_found_above_or_below")),
    ("lock_not_lowest", Model("two_who_map_pages_of_a_new_leaf_both_do")),
    ("lock_not_above", Model("of_two_who_map_a_page_one_does")),
    ("locks_below_first", Model("two_who_map_pages_of_a_new_leaf_both_do")),
    ("unlocks_above_first", Model("who_looks_for_pages_of_a_new_leaf_does_not_disturb_who_makes_it")),
    ("adds_twice", Model("two_who_fault_where_there_is_no_leaf_share_the_one_that_is_made")),
    ("hands_down_late", Model("what_is_handed_down_to_a_branch_is_found")),
    ("hands_down_late", Model("what_is_handed_down_to_a_branch_is_found_where_there_is_no_leaf")),
    ("above_from_leaf", Model("what_is_handed_down_to_a_branch_is_found")),
    ("activates_unfenced", Model("who_comes_to_a_space_does_not_keep_what_is_unmapped")),
    ("no_wait_for_flush", Model("who_maps_pages_again_finds_no_old_content")),
    ("flush_last", Model("a_page_that_is_discarded_comes_again")),
    ("remove_no_flush", Model("who_maps_pages_again_finds_no_old_content")),
    ("fork_no_flush", Model("a_copy_has_what_was_written_before")),
    ("shared_frames_stay", Model("a_copy_has_all_pages_that_are_unmapped_meanwhile_or_none")),

    // Messages to CPUs that come and go.
    ("hosted_asks_who_has_left", HostedModel("nobody_waits_for_who_has_left_the_space")),
    ("hosted_leaves_unanswered", HostedModel("nobody_waits_for_who_has_left_the_space")),
    ("hosted_leaves_knowing", HostedModel("who_comes_back_to_the_space_is_waited_for")),
    ("hosted_leaves_knowing", Hosted("storm::pages_of_one_leaf_have_what_was_stored_since_they_were_mapped::default")),
    ("cpus_remove", HostedModel("nobody_waits_for_who_has_left_the_space")),
    ("activates_unfenced", HostedModel("who_comes_back_to_the_space_is_waited_for")),
    ("hosted_unfenced", HostedModel("who_comes_back_to_the_space_is_waited_for")),
    ("hosted_answers_only", HostedModel("who_is_asked_has_forgotten_when_he_answers")),
    ("hosted_answer", HostedModel("who_is_asked_has_forgotten_when_he_answers")),
    ("hosted_answered", HostedModel("who_is_asked_has_forgotten_when_he_answers")),
    ("skips_a_cpu", HostedModel("who_is_asked_has_forgotten_when_he_answers")),
    ("hosted_asks_who_rests", HostedModel("nobody_waits_for_who_rests")),
    ("hosted_goes_unanswered", HostedModel("nobody_waits_for_who_rests")),
    ("hosted_waits_deaf", HostedModel("two_who_wait_for_each_other_both_answer")),
];
