//! The planted mutants of knee-vm, each with the test that must notice it.

use knee_models::Detector::{self, Integration, Loom, Miri};

/// The mutants, by their names in the sources.
#[rustfmt::skip]
pub(crate) const MUTANTS: &[(&str, Detector)] = &[
    // A flush that is missing, too early or too late, or that leaves out a CPU or a page.
    ("remove_no_flush", Integration("stepped", "unmap_flushes_all_cpus::x86_64")),
    ("remove_no_flush", Integration("stepped", "discard_flushes_all_cpus::x86_64")),
    ("protect_no_flush", Integration("stepped", "no_cpu_writes_to_a_page_that_became_read_only::x86_64")),
    ("fork_no_flush", Integration("stepped", "a_fork_copies_the_state_after_all_cpus_have_flushed_writable_entries::x86_64")),
    ("unshare_no_flush", Integration("stepped", "all_cpus_of_a_space_see_a_store_that_breaks_sharing::x86_64")),
    ("unshare_flush_last", Integration("stepped", "no_cpu_has_the_new_page_while_another_has_the_old_one::x86_64")),
    ("usage_no_flush", Integration("usage", "a_store_after_the_page_was_cleaned_is_noticed::x86_64")),
    ("devices_no_flush", Integration("device", "a_revoked_device_is_out_of_reach_for_all_cpus::x86_64")),
    ("flush_first", Integration("stepped", "unmap_flushes_a_cpu_that_keeps_loading_the_page::x86_64")),
    ("flush_last", Integration("stepped", "frames_are_not_reused_before_all_cpus_have_flushed::x86_64")),
    ("flush_after_leaves", Integration("stepped", "shared_frames_are_not_reused_before_the_cpus_of_both_spaces_have_flushed::x86_64")),
    ("takes_shared_at_once", Integration("stepped", "shared_frames_are_not_reused_before_the_cpus_of_both_spaces_have_flushed::x86_64")),
    ("skips_a_cpu", Integration("stepped", "unmap_flushes_all_cpus::x86_64")),
    ("skips_a_cpu", Integration("stepped", "discard_flushes_all_cpus::x86_64")),
    ("skips_a_cpu", Integration("stepped", "no_cpu_writes_to_a_page_that_became_read_only::x86_64")),
    ("skips_a_cpu", Integration("stepped", "a_fork_copies_the_state_after_all_cpus_have_flushed_writable_entries::x86_64")),
    ("flushes_one_page", Integration("stepped", "unmap_flushes_all_cpus::x86_64")),

    // A missing flush of entries that only some architectures cache.
    ("aarch64_global", Integration("architectures", "a_translation_of_one_space_is_not_used_in_another::aarch64")),
    ("fault_no_flush", Integration("stepped", "all_cpus_can_write_to_a_page_that_they_have_cached_read_only::aarch64")),
    ("fault_no_flush", Integration("stepped", "all_cpus_can_write_to_a_page_that_they_have_cached_read_only::sv48")),
    ("fault_keeps_tables", Integration("stepped", "all_cpus_can_write_to_a_page_that_they_have_cached_read_only::sv48")),
    ("prune_keeps_tables", Integration("stepped", "tables_are_not_reused_before_all_cpus_have_flushed::aarch64")),
    ("prune_keeps_tables", Integration("stepped", "tables_are_not_reused_before_all_cpus_have_flushed::sv48")),

    // An operation that does not wait for a flush.
    ("no_wait_for_flush", Integration("stepped", "changing_pages_that_are_being_flushed_waits::x86_64")),
    ("no_wait_for_parts", Integration("stepped", "unmapping_the_last_part_of_a_mapping_waits_for_unmaps_of_other_parts::x86_64")),
    ("no_wait_for_fork", Integration("stepped", "a_fork_copies_the_state_after_all_cpus_have_flushed_writable_entries::x86_64")),
    ("fault_while_forking", Integration("stepped", "a_fork_copies_the_state_after_all_cpus_have_flushed_writable_entries::x86_64")),
    ("fault_while_leaving", Integration("stepped", "accessing_a_page_that_is_being_discarded_waits::x86_64")),
    ("enters_while_flushing", Integration("stepped", "devices_and_the_kernel_wait_for_the_flush_of_the_old_page::x86_64")),
    ("unshare_while_flushing", Integration("stepped", "breaking_sharing_waits_for_the_flush_of_other_pages::x86_64")),

    // Large pages.
    ("large_stays", Integration("stepped", "large::changing_a_part_splits_a_large_page::x86_64")),
    ("splits_one_page", Integration("stepped", "large::changing_a_part_splits_a_large_page::x86_64")),
    ("links_while_flushing", Integration("stepped", "large::a_page_stays_away_until_all_cpus_have_flushed_the_large_page::x86_64")),
    ("changes_part_of_large", Integration("stepped", "large::a_fault_that_adds_a_permission_splits_a_large_page::x86_64")),
    ("promote_no_flush", Integration("stepped", "large::a_promotion_loses_no_store::x86_64")),

    // Lazy unmaps.
    ("one_tick_is_enough", Integration("stepped", "lazy::frames_are_not_reused_before_the_last_cpu_has_ticked::x86_64")),
    ("ticks_late", Integration("stepped", "lazy::translations_cached_after_the_flush_of_a_tick_stay::x86_64")),
    ("maps_what_lingers", Integration("stepped", "lazy::mapping_pages_that_others_have_cached_flushes_them::x86_64")),
    ("gives_what_lingers", Integration("stepped", "lazy::map_anywhere_does_not_reuse_pages_that_wait_for_a_tick::x86_64")),
    ("objects_linger", Integration("stepped", "lazy::unmapping_object_pages_or_many_pages_is_not_lazy::x86_64")),
    ("keeps_what_lingers", Integration("stepped", "lazy::a_lazy_unmap_flushes_only_the_calling_cpu::x86_64")),

    // Pinned pages.
    ("unmaps_pinned", Integration("pin", "every_write_of_a_device_arrives::x86_64")),
    ("shares_pinned", Integration("pin", "a_fork_copies_pinned_pages::x86_64")),
    ("takes_pinned", Integration("pin", "an_object_keeps_pinned_pages::x86_64")),

    // Swapped pages.
    ("swap_no_flush", Integration("stepped", "swap::the_device_gets_stores_through_cached_translations::x86_64")),
    ("swap_writes_first", Integration("stepped", "swap::a_store_at_any_time_is_not_lost::x86_64")),
    ("swap_in_uncounted", Integration("stepped", "swap::a_slot_is_not_reused_while_a_cpu_reads_it::x86_64")),
    ("swap_cleans", Integration("usage", "a_dirty_log_includes_swapped_pages")),
    ("put_back_shared", Integration("stepped", "swap::a_fork_at_any_time_copies_the_page::x86_64")),
    ("slot_freed_early", Integration("swap", "a_fork_and_its_original_both_have_the_swapped_pages::x86_64")),
    ("discard_keeps_slot", Integration("swap", "discarded_and_replaced_pages_do_not_come_back::x86_64")),
    ("swaps_shared", Integration("swap", "shared_pinned_and_object_pages_stay_in_memory::x86_64")),
    ("swaps_pinned", Integration("swap", "shared_pinned_and_object_pages_stay_in_memory::x86_64")),

    // Concurrent operations.
    ("visits_once", Integration("stepped", "races::removing_pages_from_an_object_finds_a_copy_that_is_being_made::x86_64")),
    ("copy_not_locked", Integration("stepped", "races::removing_pages_from_an_object_finds_a_copy_that_is_being_made::x86_64")),
    ("moves_together", Integration("stepped", "races::parts_of_a_mapping_that_two_cpus_move_keep_their_content::x86_64")),
    ("forks_last", Integration("stepped", "races::a_fork_does_not_wait_for_later_operations::x86_64")),
    ("forks_first", Integration("stepped", "races::an_operation_that_waits_for_a_fork_does_not_wait_for_the_next_fork::x86_64")),
    ("forks_for_ever", Integration("stepped", "races::forks_in_a_loop_wait_for_an_operation_that_removes_pages::x86_64")),

    // Frames that are lost, or that two users write to.
    ("frames_stay", Integration("stepped", "frames_are_not_reused_before_all_cpus_have_flushed::x86_64")),
    ("shared_frames_stay", Integration("stepped", "shared_frames_are_not_reused_before_the_cpus_of_both_spaces_have_flushed::x86_64")),
    ("unshare_no_release", Integration("stepped", "shared_frames_are_freed_when_no_space_maps_them::x86_64")),
    ("writes_to_shared", Integration("stepped", "a_fork_copies_the_state_after_all_cpus_have_flushed_writable_entries::x86_64")),

    // The lock protocol.
    ("node_lock", Loom("modelled::two_cpus_that_map_pages_of_a_new_leaf_both_succeed")),
    ("node_lock_slowly", Loom("modelled::two_cpus_that_map_pages_of_a_new_leaf_both_succeed")),
    ("node_unlock", Loom("modelled::two_cpus_that_map_pages_of_a_new_leaf_both_succeed")),
    ("child_add", Loom("modelled::a_new_branch_is_found_initialized")),
    ("child_load", Loom("modelled::a_new_branch_is_found_initialized")),
    ("extents_publish", Loom("modelled::a_reader_finds_the_extents_of_the_old_or_the_new_latch")),
    ("extents_load", Loom("modelled::a_reader_finds_the_extents_of_the_old_or_the_new_latch")),
    ("extents_write", Loom("modelled::a_reader_finds_the_extents_of_one_moment")),
    ("extents_version", Loom("modelled::a_reader_finds_the_extents_of_one_moment")),
    ("extents_no_release", Loom("modelled::a_reader_finds_the_extents_of_one_moment")),
    ("extents_no_acquire", Loom("modelled::a_reader_finds_the_extents_of_one_moment")),
    ("extents_read_once", Loom("modelled::a_reader_finds_the_extents_of_one_moment")),
    ("extents_read_once", Loom("modelled::extents_that_are_handed_down_are_found_in_the_parent_or_the_child")),
    ("lock_not_lowest", Loom("modelled::two_cpus_that_map_pages_of_a_new_leaf_both_succeed")),
    ("lock_not_above", Loom("modelled::one_of_two_overlapping_maps_succeeds")),
    ("locks_below_first", Loom("modelled::two_cpus_that_map_pages_of_a_new_leaf_both_succeed")),
    ("unlocks_above_first", Loom("modelled::a_lookup_in_a_new_leaf_does_not_disturb_the_cpu_that_creates_it")),
    ("adds_twice", Loom("modelled::two_cpus_that_fault_on_pages_without_a_leaf_share_the_new_leaf")),
    ("hands_down_late", Loom("modelled::an_extent_that_is_handed_down_to_a_branch_is_found")),
    ("hands_down_late", Loom("modelled::an_extent_that_is_handed_down_to_a_branch_is_found_without_a_leaf")),
    ("above_from_leaf", Loom("modelled::an_extent_that_is_handed_down_to_a_branch_is_found")),
    ("activates_unfenced", Loom("modelled::a_cpu_that_activates_a_space_does_not_keep_unmapped_pages")),
    ("no_wait_for_flush", Loom("modelled::a_page_that_is_mapped_again_has_no_old_content")),
    ("flush_last", Loom("modelled::a_page_that_is_discarded_can_be_faulted_in_again")),
    ("remove_no_flush", Loom("modelled::a_page_that_is_mapped_again_has_no_old_content")),
    ("fork_no_flush", Loom("modelled::a_copy_that_contains_a_store_contains_all_earlier_stores")),
    ("shared_frames_stay", Loom("modelled::a_fork_copies_all_pages_of_a_concurrent_unmap_or_none")),

    // The small protocols around the tree.
    ("flushing_load", Loom("modelled::parts::a_leaf_whose_flush_has_ended_was_flushed_on_all_cpus")),
    ("flushing_end", Loom("modelled::parts::a_leaf_whose_flush_has_ended_was_flushed_on_all_cpus")),
    ("forking_load", Loom("modelled::parts::a_space_whose_fork_has_ended_was_flushed_on_all_cpus")),
    ("forking_end", Loom("modelled::parts::a_space_whose_fork_has_ended_was_flushed_on_all_cpus")),
    ("ticks_end", Loom("modelled::parts::a_page_is_unused_when_all_cpus_have_ticked")),
    ("ticks_over", Loom("modelled::parts::a_page_is_unused_when_all_cpus_have_ticked")),
    ("ticks_late", Loom("modelled::parts::a_page_is_unused_when_all_cpus_have_ticked")),
    ("ticks_ticket_no_fence", Loom("modelled::parts::a_page_is_unused_when_all_cpus_have_ticked")),
    ("ticks_now_no_fence", Loom("modelled::parts::a_page_is_unused_when_all_cpus_have_ticked")),
    ("ticks_go", Loom("modelled::parts::a_cpu_that_goes_offline_no_longer_uses_pages")),
    ("ticks_over", Loom("modelled::parts::a_cpu_that_goes_offline_no_longer_uses_pages")),
    ("ticks_ticket_no_fence", Loom("modelled::parts::a_cpu_that_comes_online_sees_earlier_unmaps")),
    ("ticks_now_no_fence", Loom("modelled::parts::a_cpu_that_comes_online_sees_earlier_unmaps")),
    ("cpus_contains", Loom("modelled::parts::a_cpu_that_is_not_in_the_set_no_longer_uses_pages")),
    ("cpus_iter", Loom("modelled::parts::a_cpu_that_is_not_in_the_set_no_longer_uses_pages")),
    ("cpus_remove", Loom("modelled::parts::a_cpu_that_is_not_in_the_set_no_longer_uses_pages")),
    ("shares_load", Loom("modelled::parts::the_last_entry_of_a_frame_is_released_after_all_accesses_by_others")),
    ("shares_release", Loom("modelled::parts::the_last_entry_of_a_frame_is_released_after_all_accesses_by_others")),
    ("shares_load", Loom("modelled::parts::a_frame_that_is_not_shared_is_not_accessed_by_others")),
    ("shares_release", Loom("modelled::parts::a_frame_that_is_not_shared_is_not_accessed_by_others")),
    ("quota_lock", Loom("modelled::parts::two_cpus_that_charge_the_rest_of_a_quota_get_different_pages")),
    ("quota_unlock", Loom("modelled::parts::two_cpus_that_charge_the_rest_of_a_quota_get_different_pages")),
    ("tree_release", Loom("modelled::parts::a_tree_is_freed_after_all_accesses_by_its_owners")),
    ("remap_lock", Loom("modelled::parts::remaps_of_a_space_exclude_each_other")),
    ("remap_unlock", Loom("modelled::parts::remaps_of_a_space_exclude_each_other")),
    ("moves_together", Loom("modelled::parts::remaps_of_a_space_exclude_each_other")),
    ("settled_set", Loom("modelled::parts::a_page_is_unused_after_all_cpus_have_flushed_it")),
    ("settled_load", Loom("modelled::parts::a_page_is_unused_after_all_cpus_have_flushed_it")),
    ("shard_lock", Loom("modelled::parts::cpus_that_change_a_shard_exclude_each_other")),
    ("shard_unlock", Loom("modelled::parts::cpus_that_change_a_shard_exclude_each_other")),
    ("holders_put", Loom("modelled::parts::the_last_owner_of_an_object_frees_it_after_all_accesses_by_others")),
    ("eviction_begin", Loom("modelled::parts::operations_that_remove_pages_from_an_object_exclude_each_other")),
    ("eviction_end", Loom("modelled::parts::operations_that_remove_pages_from_an_object_exclude_each_other")),

    // Pages and tables that CPUs find without locks.
    ("page_publish", Loom("modelled::a_present_page_is_found_initialized")),
    ("protect_publish", Loom("modelled::a_protected_page_is_found_initialized")),
    ("table_publish", Loom("modelled::a_new_table_is_found_empty")),
    ("branch_publish", Loom("modelled::a_new_table_of_a_branch_is_found_empty")),

    // The index of an object's pages. Loom cannot model it, because loom's atomics are larger than the
    // index's entries.
    ("slot_get", Miri("backing::index::tests::a_cpu_that_finds_a_frame_sees_its_content")),
    ("slot_set", Miri("backing::index::tests::a_cpu_that_finds_a_frame_sees_its_content")),
    ("index_find", Miri("backing::index::tests::a_cpu_that_finds_a_frame_sees_its_content")),
    ("index_add", Miri("backing::index::tests::a_cpu_that_finds_a_frame_sees_its_content")),
    ("slot_replace", Miri("backing::index::tests::a_page_is_brought_in_again_only_after_the_last_use_of_its_frame")),
    ("index_make", Miri("backing::index::tests::a_page_is_brought_in_again_only_after_the_last_use_of_its_frame")),
    ("set_len_no_fence", Miri("backing::object_core::tests::a_truncation_waits_for_an_incoming_page_or_keeps_it_out")),
    ("is_within_no_fence", Miri("backing::object_core::tests::a_truncation_waits_for_an_incoming_page_or_keeps_it_out")),
    ("pins_remove", Miri("machine::pins::tests::a_frame_is_reused_after_the_last_access_through_a_pin")),
    ("pins_count", Miri("machine::pins::tests::a_frame_is_reused_after_the_last_access_through_a_pin")),
    ("index_walk", Miri("backing::index::tests::a_walk_sees_new_tables_zeroed")),

    // Pages that loom cannot model, because their content is written without atomics.
    ("copy_publish", Miri("hosted::processor::tests::a_cpu_that_finds_a_copied_page_sees_its_content")),
    ("hosted_walk", Miri("hosted::processor::tests::a_cpu_that_finds_a_copied_page_sees_its_content")),
    ("hosted_walk", Miri("hosted::processor::tests::a_cpu_that_finds_a_new_page_sees_it_zeroed")),

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
