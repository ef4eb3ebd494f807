//! The planted mutants of knee-vm, each with the test that has to notice it.

use knee_models::Detector::{self, Integration, Loom, Miri};

/// Mutants by their names in the sources.
#[rustfmt::skip]
pub(crate) const MUTANTS: &[(&str, Detector)] = &[
    // A flush that is missing, is late, or is not told to all or for all.
    ("remove_no_flush", Integration("stepped", "what_is_unmapped_is_forgotten_by_all::x86_64")),
    ("remove_no_flush", Integration("stepped", "what_is_discarded_is_forgotten_by_all::x86_64")),
    ("protect_no_flush", Integration("stepped", "what_may_not_be_written_any_more_is_written_by_nobody::x86_64")),
    ("fork_no_flush", Integration("stepped", "a_copy_is_what_there_was_when_all_had_forgotten_how_to_write::x86_64")),
    ("unshare_no_flush", Integration("stepped", "what_one_writes_to_a_page_of_two_spaces_is_seen_by_all_of_its_own::x86_64")),
    ("unshare_flush_last", Integration("stepped", "nobody_has_the_new_page_while_another_has_the_old_one::x86_64")),
    ("flush_last", Integration("stepped", "frames_are_not_used_again_before_all_have_forgotten_them::x86_64")),
    ("flush_after_leaves", Integration("stepped", "frames_of_two_spaces_are_not_used_again_before_all_cpus_of_both_have_forgotten_them::x86_64")),
    ("takes_shared_at_once", Integration("stepped", "frames_of_two_spaces_are_not_used_again_before_all_cpus_of_both_have_forgotten_them::x86_64")),
    ("skips_a_cpu", Integration("stepped", "what_is_unmapped_is_forgotten_by_all::x86_64")),
    ("skips_a_cpu", Integration("stepped", "what_is_discarded_is_forgotten_by_all::x86_64")),
    ("skips_a_cpu", Integration("stepped", "what_may_not_be_written_any_more_is_written_by_nobody::x86_64")),
    ("skips_a_cpu", Integration("stepped", "a_copy_is_what_there_was_when_all_had_forgotten_how_to_write::x86_64")),
    ("flushes_one_page", Integration("stepped", "what_is_unmapped_is_forgotten_by_all::x86_64")),

    // A flush of what only some architectures cache.
    ("fault_no_flush", Integration("stepped", "a_page_that_was_read_is_written_by_all::aarch64")),
    ("fault_no_flush", Integration("stepped", "a_page_that_was_read_is_written_by_all::sv48")),
    ("fault_keeps_tables", Integration("stepped", "a_page_that_was_read_is_written_by_all::sv48")),
    ("prune_keeps_tables", Integration("stepped", "tables_are_not_used_again_before_all_have_flushed_them::aarch64")),
    ("prune_keeps_tables", Integration("stepped", "tables_are_not_used_again_before_all_have_flushed_them::sv48")),

    // Somebody who does not wait for one.
    ("no_wait_for_flush", Integration("stepped", "who_changes_pages_that_are_being_flushed_waits::x86_64")),
    ("no_wait_for_parts", Integration("stepped", "who_unmaps_the_last_pages_of_an_object_waits_for_who_unmaps_the_others::x86_64")),
    ("no_wait_for_fork", Integration("stepped", "a_copy_is_what_there_was_when_all_had_forgotten_how_to_write::x86_64")),
    ("fault_while_forking", Integration("stepped", "a_copy_is_what_there_was_when_all_had_forgotten_how_to_write::x86_64")),
    ("fault_while_leaving", Integration("stepped", "who_goes_to_a_page_that_is_on_its_way_out_waits::x86_64")),
    ("unshare_while_flushing", Integration("stepped", "who_needs_a_copy_waits_for_the_flush_of_other_pages::x86_64")),

    // What is unmapped lazily.
    ("one_tick_is_enough", Integration("stepped", "lazy::frames_are_not_used_again_before_the_last_has_ticked::x86_64")),
    ("ticks_late", Integration("stepped", "lazy::what_is_learnt_in_a_tick_is_not_forgotten_by_it::x86_64")),
    ("maps_what_lingers", Integration("stepped", "lazy::who_maps_what_others_know_has_them_forget_it::x86_64")),
    ("gives_what_lingers", Integration("stepped", "lazy::what_lingers_is_not_mapped_where_there_is_room::x86_64")),
    ("objects_linger", Integration("stepped", "lazy::not_all_that_is_unmapped_lingers::x86_64")),
    ("keeps_what_lingers", Integration("stepped", "lazy::who_unmaps_interrupts_nobody_and_forgets_at_once::x86_64")),

    // Two at once.
    ("visits_once", Integration("stepped", "races::who_takes_pages_out_of_an_object_finds_those_of_a_copy_that_is_being_made::x86_64")),
    ("copy_not_locked", Integration("stepped", "races::who_takes_pages_out_of_an_object_finds_those_of_a_copy_that_is_being_made::x86_64")),
    ("moves_together", Integration("stepped", "races::parts_of_a_mapping_that_two_move_stay_what_they_are::x86_64")),
    ("forks_last", Integration("stepped", "races::who_copies_does_not_wait_for_who_comes_after::x86_64")),
    ("forks_first", Integration("stepped", "races::who_waits_for_a_copy_does_not_wait_for_the_next::x86_64")),
    ("forks_for_ever", Integration("stepped", "races::those_who_copy_without_end_wait_for_who_takes_pages_out::x86_64")),

    // Frames that are lost, or written by two.
    ("frames_stay", Integration("stepped", "frames_are_not_used_again_before_all_have_forgotten_them::x86_64")),
    ("shared_frames_stay", Integration("stepped", "frames_of_two_spaces_are_not_used_again_before_all_cpus_of_both_have_forgotten_them::x86_64")),
    ("unshare_no_release", Integration("stepped", "frames_of_two_spaces_come_back::x86_64")),
    ("writes_to_shared", Integration("stepped", "a_copy_is_what_there_was_when_all_had_forgotten_how_to_write::x86_64")),

    // The lock protocol.
    ("node_lock", Loom("modelled::two_who_map_pages_of_a_new_leaf_both_do")),
    ("node_lock_slowly", Loom("modelled::two_who_map_pages_of_a_new_leaf_both_do")),
    ("node_unlock", Loom("modelled::two_who_map_pages_of_a_new_leaf_both_do")),
    ("child_add", Loom("modelled::a_branch_that_somebody_makes_is_seen_whole")),
    ("child_load", Loom("modelled::a_branch_that_somebody_makes_is_seen_whole")),
    ("extents_publish", Loom("modelled::extents_that_are_replaced_are_found_as_they_were_or_are")),
    ("extents_load", Loom("modelled::extents_that_are_replaced_are_found_as_they_were_or_are")),
    ("extents_write", Loom("modelled::extents_are_found_as_they_were_at_one_moment")),
    ("extents_version", Loom("modelled::extents_are_found_as_they_were_at_one_moment")),
    ("extents_no_release", Loom("modelled::extents_are_found_as_they_were_at_one_moment")),
    ("extents_no_acquire", Loom("modelled::extents_are_found_as_they_were_at_one_moment")),
    ("extents_read_once", Loom("modelled::extents_are_found_as_they_were_at_one_moment")),
    ("extents_read_once", Loom("modelled::extents_that_are_handed_down_are_found_above_or_below")),
    ("lock_not_lowest", Loom("modelled::two_who_map_pages_of_a_new_leaf_both_do")),
    ("lock_not_above", Loom("modelled::of_two_who_map_a_page_one_does")),
    ("locks_below_first", Loom("modelled::two_who_map_pages_of_a_new_leaf_both_do")),
    ("unlocks_above_first", Loom("modelled::who_looks_for_pages_of_a_new_leaf_does_not_disturb_who_makes_it")),
    ("adds_twice", Loom("modelled::two_who_fault_where_there_is_no_leaf_share_the_one_that_is_made")),
    ("hands_down_late", Loom("modelled::what_is_handed_down_to_a_branch_is_found")),
    ("hands_down_late", Loom("modelled::what_is_handed_down_to_a_branch_is_found_where_there_is_no_leaf")),
    ("above_from_leaf", Loom("modelled::what_is_handed_down_to_a_branch_is_found")),
    ("activates_unfenced", Loom("modelled::who_comes_to_a_space_does_not_keep_what_is_unmapped")),
    ("no_wait_for_flush", Loom("modelled::who_maps_pages_again_finds_no_old_content")),
    ("flush_last", Loom("modelled::a_page_that_is_discarded_comes_again")),
    ("remove_no_flush", Loom("modelled::who_maps_pages_again_finds_no_old_content")),
    ("fork_no_flush", Loom("modelled::a_copy_has_what_was_written_before")),
    ("shared_frames_stay", Loom("modelled::a_copy_has_all_pages_that_are_unmapped_meanwhile_or_none")),

    // The small protocols around the tree.
    ("flushing_load", Loom("modelled::parts::a_leaf_that_is_not_being_flushed_was_flushed_everywhere")),
    ("flushing_end", Loom("modelled::parts::a_leaf_that_is_not_being_flushed_was_flushed_everywhere")),
    ("forking_load", Loom("modelled::parts::a_space_that_nobody_forks_was_flushed_everywhere")),
    ("forking_end", Loom("modelled::parts::a_space_that_nobody_forks_was_flushed_everywhere")),
    ("ticks_end", Loom("modelled::parts::a_page_is_unused_when_all_cpus_have_ticked")),
    ("ticks_over", Loom("modelled::parts::a_page_is_unused_when_all_cpus_have_ticked")),
    ("ticks_late", Loom("modelled::parts::a_page_is_unused_when_all_cpus_have_ticked")),
    ("ticks_ticket_no_fence", Loom("modelled::parts::a_page_is_unused_when_all_cpus_have_ticked")),
    ("ticks_now_no_fence", Loom("modelled::parts::a_page_is_unused_when_all_cpus_have_ticked")),
    ("ticks_go", Loom("modelled::parts::a_cpu_that_goes_uses_pages_no_more")),
    ("ticks_over", Loom("modelled::parts::a_cpu_that_goes_uses_pages_no_more")),
    ("ticks_ticket_no_fence", Loom("modelled::parts::a_cpu_that_comes_finds_what_was_unmapped_before")),
    ("ticks_now_no_fence", Loom("modelled::parts::a_cpu_that_comes_finds_what_was_unmapped_before")),
    ("cpus_contains", Loom("modelled::parts::a_cpu_that_is_not_in_a_set_uses_pages_no_more")),
    ("cpus_iter", Loom("modelled::parts::a_cpu_that_is_not_in_a_set_uses_pages_no_more")),
    ("cpus_remove", Loom("modelled::parts::a_cpu_that_is_not_in_a_set_uses_pages_no_more")),
    ("shares_load", Loom("modelled::parts::the_last_entry_of_a_frame_comes_after_all_accesses_by_others")),
    ("shares_release", Loom("modelled::parts::the_last_entry_of_a_frame_comes_after_all_accesses_by_others")),
    ("shares_load", Loom("modelled::parts::a_frame_that_is_not_shared_is_accessed_by_nobody_else")),
    ("shares_release", Loom("modelled::parts::a_frame_that_is_not_shared_is_accessed_by_nobody_else")),
    ("quota_lock", Loom("modelled::parts::two_cpus_that_come_to_the_rest_of_a_quota_do_not_get_the_same_pages")),
    ("quota_unlock", Loom("modelled::parts::two_cpus_that_come_to_the_rest_of_a_quota_do_not_get_the_same_pages")),

    // What CPUs find by entries of tables, without locks.
    ("page_publish", Loom("modelled::a_page_is_found_as_it_was_when_it_came")),
    ("protect_publish", Loom("modelled::a_page_that_is_protected_is_found_as_it_was_when_it_came")),
    ("table_publish", Loom("modelled::a_table_is_found_empty")),

    // The pages of an object, which loom cannot model: its atomics are larger than entries.
    ("slot_get", Miri("backing::index::tests::a_frame_is_found_with_its_content")),
    ("slot_set", Miri("backing::index::tests::a_frame_is_found_with_its_content")),
    ("index_find", Miri("backing::index::tests::a_frame_is_found_with_its_content")),
    ("index_add", Miri("backing::index::tests::a_frame_is_found_with_its_content")),
    ("slot_replace", Miri("backing::index::tests::a_page_comes_again_when_all_is_done_with_its_frame")),
    ("index_make", Miri("backing::index::tests::a_page_comes_again_when_all_is_done_with_its_frame")),
    ("index_walk", Miri("backing::index::tests::a_walk_finds_tables_zeroed")),

    // Messages to CPUs that go online and offline.
    ("hosted_asks_who_has_left", Loom("hosted::modelled::a_shootdown_does_not_wait_for_a_cpu_that_left_the_space")),
    ("hosted_leaves_unanswered", Loom("hosted::modelled::a_shootdown_does_not_wait_for_a_cpu_that_left_the_space")),
    ("hosted_leaves_knowing", Loom("hosted::modelled::a_shootdown_waits_for_a_cpu_that_reactivated_the_space")),
    ("cpus_remove", Loom("hosted::modelled::a_shootdown_does_not_wait_for_a_cpu_that_left_the_space")),
    ("activates_unfenced", Loom("hosted::modelled::a_shootdown_waits_for_a_cpu_that_reactivated_the_space")),
    ("hosted_unfenced", Loom("hosted::modelled::a_shootdown_waits_for_a_cpu_that_reactivated_the_space")),
    ("hosted_answers_only", Loom("hosted::modelled::an_acknowledged_shootdown_has_flushed_the_tlb")),
    ("hosted_answer", Loom("hosted::modelled::an_acknowledged_shootdown_has_flushed_the_tlb")),
    ("hosted_answered", Loom("hosted::modelled::an_acknowledged_shootdown_has_flushed_the_tlb")),
    ("skips_a_cpu", Loom("hosted::modelled::an_acknowledged_shootdown_has_flushed_the_tlb")),
    ("hosted_asks_who_rests", Loom("hosted::modelled::a_shootdown_does_not_wait_for_an_offline_cpu")),
    ("hosted_goes_unanswered", Loom("hosted::modelled::a_shootdown_does_not_wait_for_an_offline_cpu")),
    ("hosted_waits_deaf", Loom("hosted::modelled::concurrent_shootdowns_acknowledge_each_other")),
];
