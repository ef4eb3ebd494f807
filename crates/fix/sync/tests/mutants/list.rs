//! The planted mutants of knee-sync, each with the test that must notice it.

use knee_models::Detector::{self, Loom, Miri, Shuttle, Torture, Unit};

/// The mutants, by their names in the sources.
#[rustfmt::skip]
pub(crate) const MUTANTS: &[(&str, Detector)] = &[
    // The heavy fence is missing, comes too late, or is executed only by the caller.
    ("own_fence", Torture("epoch", &[])),
    ("own_fence", Torture("hazard", &[])),
    ("own_fence", Torture("percpu", &[])),
    ("own_fence", Torture("rm", &[])),
    ("joins_late", Torture("epoch", &[])),
    ("no_fence", Torture("epoch", &[])),
    ("no_light_fence", Torture("epoch", &["symmetric"])),
    ("hazard_no_fence", Torture("hazard", &[])),
    ("percpu_no_fence", Torture("percpu", &[])),
    ("refcache_group_no_fence", Torture("refcache", &[])),
    ("rm_no_fence", Torture("rm", &[])),
    ("rm_try_no_fence", Torture("rm", &[])),

    ("biased_left", Loom("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),
    ("biased_out", Loom("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),
    ("biased_own", Loom("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),
    ("biased_wait", Loom("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),
    ("biased_visit", Loom("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),
    ("no_light_fence", Loom("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),

    ("biased_again", Loom("biased::modelled::an_owner_that_has_waited_acquires_the_last_remote_use")),

    ("biased_crowd", Loom("biased::modelled::remote_threads_exclude_each_other")),

    ("combiner_end", Loom("combiner::modelled::a_barrier_has_seen_the_earlier_store_when_the_call_returns")),
    ("combiner_give", Loom("combiner::modelled::a_barrier_has_seen_the_earlier_store_when_the_call_returns")),
    ("combiner_no_fence", Loom("combiner::modelled::a_barrier_has_seen_the_earlier_store_when_the_call_returns")),
    ("combiner_over", Loom("combiner::modelled::a_barrier_has_seen_the_earlier_store_when_the_call_returns")),
    ("combiner_take", Loom("combiner::modelled::a_barrier_has_seen_the_earlier_store_when_the_call_returns")),
    ("joins_late", Loom("combiner::modelled::a_barrier_has_seen_the_earlier_store_when_the_call_returns")),

    ("epoch_enter", Loom("epoch::modelled::a_section_does_not_hide_the_previous_section")),
    ("epoch_enter_clock", Loom("epoch::modelled::a_section_does_not_hide_the_previous_section")),
    ("epoch_leave", Loom("epoch::modelled::a_section_does_not_hide_the_previous_section")),
    ("future", Loom("epoch::modelled::a_section_does_not_hide_the_previous_section")),
    ("no_fence", Loom("epoch::modelled::a_section_does_not_hide_the_previous_section")),

    ("epoch_refresh", Loom("epoch::modelled::a_refreshed_section_releases_earlier_objects")),
    ("epoch_refresh_clock", Loom("epoch::modelled::a_refreshed_section_releases_earlier_objects")),

    ("early", Loom("epoch::modelled::a_grace_period_waits_for_every_reader")),
    ("epoch_look", Loom("epoch::modelled::a_grace_period_waits_for_every_reader")),
    ("epoch_over", Loom("epoch::modelled::a_grace_period_waits_for_every_reader")),
    ("epoch_read", Loom("epoch::modelled::a_grace_period_waits_for_every_reader")),
    ("epoch_tag", Loom("epoch::modelled::a_grace_period_waits_for_every_reader")),
    ("own_fence", Loom("epoch::modelled::a_grace_period_waits_for_every_reader")),

    ("epoch_note", Loom("epoch::modelled::a_stall_is_never_older_than_its_section")),
    ("epoch_seen", Loom("epoch::modelled::a_stall_is_never_older_than_its_section")),

    ("epoch_note_any", Loom("epoch::modelled::a_stall_belongs_to_one_section_and_names_its_thread")),
    ("epoch_stall", Loom("epoch::modelled::a_stall_belongs_to_one_section_and_names_its_thread")),
    ("epoch_thread", Loom("epoch::modelled::a_stall_belongs_to_one_section_and_names_its_thread")),

    ("barrier_unlock", Loom("epoch::modelled::a_barrier_waits_for_the_calls_of_the_previous_barrier")),

    ("epoch_drain_no_fence", Loom("epoch::modelled::a_barrier_and_an_owner_that_defers_exclude_each_other")),

    ("epoch_end_calls", Loom("epoch::modelled::a_barrier_acquires_what_the_calls_did")),
    ("epoch_ended", Loom("epoch::modelled::a_barrier_acquires_what_the_calls_did")),

    ("epoch_free", Loom("epoch::modelled::objects_that_another_scan_found_ready_are_freed_after_all_reads")),

    ("event_sleep_no_fence", Loom("event::modelled::a_sleeper_is_woken")),
    ("event_wake_no_fence", Loom("event::modelled::a_sleeper_is_woken")),

    ("hazard_again", Loom("hazard::modelled::a_reused_slot_releases_its_last_object")),
    ("hazard_clear", Loom("hazard::modelled::a_reused_slot_releases_its_last_object")),
    ("hazard_look", Loom("hazard::modelled::a_reused_slot_releases_its_last_object")),
    ("hazard_no_fence", Loom("hazard::modelled::a_reused_slot_releases_its_last_object")),
    ("hazard_no_recheck", Loom("hazard::modelled::a_reused_slot_releases_its_last_object")),
    ("hazard_protect", Loom("hazard::modelled::a_reused_slot_releases_its_last_object")),

    ("registry_release", Loom("hazard::modelled::the_thread_that_frees_an_orphan_acquires_its_uses")),

    ("hazard_barrier_no_fence", Loom("hazard::modelled::a_barrier_frees_an_object_that_an_earlier_scan_kept_for_a_guard")),
    ("hazard_barrier_no_wait", Loom("hazard::modelled::a_barrier_frees_an_object_that_an_earlier_scan_kept_for_a_guard")),

    ("epoch_ended", Loom("hazard::modelled::a_barrier_waits_for_the_destructors_of_an_adopting_thread")),
    ("hazard_barrier_no_last_wait", Loom("hazard::modelled::a_barrier_waits_for_the_destructors_of_an_adopting_thread")),

    ("barrier_unlock", Loom("hazard::modelled::a_barrier_waits_for_the_destructors_of_the_previous_barrier")),

    ("hazard_drain_no_fence", Loom("hazard::modelled::a_barrier_and_a_thread_that_retires_exclude_each_other")),

    ("slots_begin", Loom("invalidation::modelled::a_slot_in_a_later_section_shows_that_the_previous_section_has_ended")),
    ("slots_empty", Loom("invalidation::modelled::a_slot_in_a_later_section_shows_that_the_previous_section_has_ended")),
    ("slots_finish", Loom("invalidation::modelled::a_slot_in_a_later_section_shows_that_the_previous_section_has_ended")),
    ("slots_look", Loom("invalidation::modelled::a_slot_in_a_later_section_shows_that_the_previous_section_has_ended")),
    ("slots_mark", Loom("invalidation::modelled::a_slot_in_a_later_section_shows_that_the_previous_section_has_ended")),
    ("slots_marked", Loom("invalidation::modelled::a_slot_in_a_later_section_shows_that_the_previous_section_has_ended")),
    ("slots_wait", Loom("invalidation::modelled::a_slot_in_a_later_section_shows_that_the_previous_section_has_ended")),

    ("percpu_last", Loom("refs::percpu::modelled::a_new_user_comes_before_the_kill_or_is_refused")),
    ("percpu_no_fence", Loom("refs::percpu::modelled::a_new_user_comes_before_the_kill_or_is_refused")),
    ("percpu_no_mark", Loom("refs::percpu::modelled::a_new_user_comes_before_the_kill_or_is_refused")),
    ("table_iter", Loom("refs::percpu::modelled::a_new_user_comes_before_the_kill_or_is_refused")),

    ("percpu_begin", Loom("refs::percpu::modelled::a_user_after_reinit_sees_what_came_before_reinit")),
    ("percpu_mode", Loom("refs::percpu::modelled::a_user_after_reinit_sees_what_came_before_reinit")),

    ("percpu_reinit", Loom("refs::percpu::modelled::a_caller_of_reinit_sees_what_former_users_did")),

    ("percpu_is_dead", Loom("refs::percpu::modelled::a_caller_of_is_dead_sees_what_came_before_the_kill")),
    ("percpu_kill", Loom("refs::percpu::modelled::a_caller_of_is_dead_sees_what_came_before_the_kill")),

    ("percpu_add_up", Loom("refs::percpu::modelled::a_caller_of_is_zero_sees_what_users_did_before_the_fold")),

    ("percpu_is_zero", Loom("refs::percpu::modelled::a_caller_of_is_zero_sees_what_users_did")),
    ("percpu_put", Loom("refs::percpu::modelled::a_caller_of_is_zero_sees_what_users_did")),

    ("epoch_load", Loom("rcu::modelled::a_reader_sees_the_published_value_and_never_its_drop")),
    ("epoch_replace", Loom("rcu::modelled::a_reader_sees_the_published_value_and_never_its_drop")),

    ("rcu_update", Loom("rcu::modelled::no_update_of_two_threads_is_lost")),
    ("rcu_update_again", Loom("rcu::modelled::no_update_of_two_threads_is_lost")),
    ("rcu_update_load", Loom("rcu::modelled::no_update_of_two_threads_is_lost")),

    ("biased_skip", Loom("refs::refcache::modelled::an_upgrade_keeps_the_object_alive_or_fails")),
    ("refcache_early", Loom("refs::refcache::modelled::an_upgrade_keeps_the_object_alive_or_fails")),
    ("refcache_group_no_fence", Loom("refs::refcache::modelled::an_upgrade_keeps_the_object_alive_or_fails")),
    ("refcache_no_fence", Loom("refs::refcache::modelled::an_upgrade_keeps_the_object_alive_or_fails")),
    ("refcache_used_only", Loom("refs::refcache::modelled::an_upgrade_keeps_the_object_alive_or_fails")),

    ("snzi_load", Loom("refs::snzi::modelled::a_false_query_acquires_the_departures")),

    ("snzi_no_help", Loom("refs::snzi::modelled::a_query_is_correct_with_two_threads_at_one_leaf")),
    ("snzi_replace", Loom("refs::snzi::modelled::a_query_is_correct_with_two_threads_at_one_leaf")),
    ("snzi_unsets", Loom("refs::snzi::modelled::a_query_is_correct_with_two_threads_at_one_leaf")),

    ("registry_add", Loom("registry::modelled::a_node_has_one_owner_at_a_time")),
    ("registry_release", Loom("registry::modelled::a_node_has_one_owner_at_a_time")),
    ("registry_take", Loom("registry::modelled::a_node_has_one_owner_at_a_time")),
    ("registry_walk", Loom("registry::modelled::a_node_has_one_owner_at_a_time")),

    ("rm_clear", Loom("rm::modelled::a_read_within_a_read_does_not_wait_for_a_writer")),
    ("rm_holds", Loom("rm::modelled::a_read_within_a_read_does_not_wait_for_a_writer")),
    ("rm_no_fence", Loom("rm::modelled::a_read_within_a_read_does_not_wait_for_a_writer")),

    ("rm_enter", Loom("rm::modelled::a_reader_of_a_reopened_lock_sees_the_previous_write")),
    ("rm_no_recheck", Loom("rm::modelled::a_reader_of_a_reopened_lock_sees_the_previous_write")),
    ("rm_open", Loom("rm::modelled::a_reader_of_a_reopened_lock_sees_the_previous_write")),

    ("rm_enter", Loom("rm::modelled::a_reader_after_a_failed_try_write_sees_the_previous_write")),
    ("rm_try_no_fence", Loom("rm::modelled::a_reader_after_a_failed_try_write_sees_the_previous_write")),

    ("rm_try_no_fence", Loom("rm::modelled::a_try_write_excludes_readers_or_fails")),

    ("rm_set_below", Loom("rm::modelled::a_writer_that_finds_the_below_flag_in_a_slot_sees_the_end_of_the_previous_read")),

    ("rm_set", Loom("rm::modelled::a_writer_that_finds_another_lock_in_a_slot_sees_the_end_of_the_previous_read")),

    ("table_get", Loom("table::modelled::every_thread_sees_entries_initialised")),
    ("table_lost", Loom("table::modelled::every_thread_sees_entries_initialised")),
    ("table_make", Loom("table::modelled::every_thread_sees_entries_initialised")),

    ("refcache_skips_zero", Unit("refs::refcache::mid_tick::deltas_of_zero_keep_an_object_alive_while_its_reference_moves")),

    // Process-wide state, which loom does not model.
    ("box_exchange", Miri("hazard::tests::a_reader_sees_a_box_as_it_was_published")),
    ("box_store", Miri("hazard::tests::a_reader_sees_a_box_as_it_was_published")),

    ("pi_give", Miri("lock::tests::an_owner_sees_what_the_last_owner_wrote")),
    ("pi_take", Miri("lock::tests::an_owner_sees_what_the_last_owner_wrote")),

    // Logic errors that appear only with more threads than loom can explore.
    ("joins_late", Shuttle("combiner::scheduled::a_barrier_has_seen_the_earlier_store_when_the_call_returns")),

    ("epoch_adopts_all", Shuttle("epoch::scheduled::short_lived_threads_find_live_objects_and_leave_nothing_behind")),
    ("future", Shuttle("epoch::scheduled::short_lived_threads_find_live_objects_and_leave_nothing_behind")),

    ("early", Shuttle("epoch::scheduled::a_wait_covers_guards_and_migrating_sections")),

    ("epoch_no_wait_for_calls", Shuttle("epoch::scheduled::a_barrier_returns_after_all_earlier_calls")),

    ("hazard_barrier_no_last_wait", Shuttle("hazard::scheduled::a_barrier_returns_after_all_earlier_objects_are_freed")),

    ("hazard_adopts_none", Shuttle("hazard::scheduled::objects_are_freed_once_and_not_under_a_guard")),
    ("hazard_no_recheck", Shuttle("hazard::scheduled::objects_are_freed_once_and_not_under_a_guard")),

    ("registry_gives_twice", Shuttle("invalidation::scheduled::a_wait_covers_all_slots_that_have_marked_the_page")),
    ("slots_mark_once", Shuttle("invalidation::scheduled::a_wait_covers_all_slots_that_have_marked_the_page")),

    ("percpu_adds_twice", Shuttle("refs::scheduled::each_life_of_a_count_ends_once")),
    ("percpu_no_mark", Shuttle("refs::scheduled::each_life_of_a_count_ends_once")),
    ("percpu_no_mark", Shuttle("refs::scheduled::a_count_that_two_threads_kill_is_dead_for_both")),

    ("snzi_no_help", Shuttle("refs::scheduled::the_indicator_is_set_while_any_of_five_threads_has_arrived")),
    ("snzi_stays", Shuttle("refs::scheduled::the_indicator_is_set_while_any_of_five_threads_has_arrived")),
    ("snzi_unsets", Shuttle("refs::scheduled::the_indicator_is_set_while_any_of_five_threads_has_arrived")),

    ("refcache_early", Shuttle("refs::refcache::scheduled::an_object_lives_while_it_is_referenced_and_is_freed_by_the_third_tick")),
    ("refcache_skips_zero", Shuttle("refs::refcache::scheduled::an_object_lives_while_it_is_referenced_and_is_freed_by_the_third_tick")),

    ("rm_nested", Shuttle("rm::scheduled::writers_exclude_three_nesting_readers")),
    ("rm_no_recheck", Shuttle("rm::scheduled::writers_exclude_three_nesting_readers")),
];
