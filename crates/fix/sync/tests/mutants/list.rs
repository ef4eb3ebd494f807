//! The planted mutants of knee-sync, each with the test that has to notice it.

use knee_models::Detector::{self, Loom, Miri, Shuttle, Torture, Unit};

/// Mutants by their names in the sources.
#[rustfmt::skip]
pub(crate) const MUTANTS: &[(&str, Detector)] = &[
    // Whose heavy fence is missing, late, or the caller's own.
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

    ("biased_left", Loom("biased::modelled::owner_and_visitor_exclude_each_other")),
    ("biased_out", Loom("biased::modelled::owner_and_visitor_exclude_each_other")),
    ("biased_own", Loom("biased::modelled::owner_and_visitor_exclude_each_other")),
    ("biased_wait", Loom("biased::modelled::owner_and_visitor_exclude_each_other")),
    ("biased_visit", Loom("biased::modelled::owner_and_visitor_exclude_each_other")),
    ("no_light_fence", Loom("biased::modelled::owner_and_visitor_exclude_each_other")),

    ("biased_again", Loom("biased::modelled::an_owner_that_has_waited_sees_the_last_of_the_visits")),

    ("biased_crowd", Loom("biased::modelled::visitors_exclude_each_other")),

    ("combiner_end", Loom("combiner::modelled::who_returns_was_seen_by_a_barrier")),
    ("combiner_give", Loom("combiner::modelled::who_returns_was_seen_by_a_barrier")),
    ("combiner_no_fence", Loom("combiner::modelled::who_returns_was_seen_by_a_barrier")),
    ("combiner_over", Loom("combiner::modelled::who_returns_was_seen_by_a_barrier")),
    ("combiner_take", Loom("combiner::modelled::who_returns_was_seen_by_a_barrier")),
    ("joins_late", Loom("combiner::modelled::who_returns_was_seen_by_a_barrier")),

    ("epoch_enter", Loom("epoch::modelled::a_section_that_follows_another_one_does_not_hide_it")),
    ("epoch_enter_clock", Loom("epoch::modelled::a_section_that_follows_another_one_does_not_hide_it")),
    ("epoch_leave", Loom("epoch::modelled::a_section_that_follows_another_one_does_not_hide_it")),
    ("future", Loom("epoch::modelled::a_section_that_follows_another_one_does_not_hide_it")),
    ("no_fence", Loom("epoch::modelled::a_section_that_follows_another_one_does_not_hide_it")),

    ("epoch_refresh", Loom("epoch::modelled::a_section_that_is_refreshed_lets_go_of_what_was_found_before")),
    ("epoch_refresh_clock", Loom("epoch::modelled::a_section_that_is_refreshed_lets_go_of_what_was_found_before")),

    ("early", Loom("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),
    ("epoch_look", Loom("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),
    ("epoch_over", Loom("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),
    ("epoch_read", Loom("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),
    ("epoch_tag", Loom("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),
    ("own_fence", Loom("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),

    ("epoch_note", Loom("epoch::modelled::a_stall_is_no_older_than_its_section_when_two_threads_scan")),
    ("epoch_seen", Loom("epoch::modelled::a_stall_is_no_older_than_its_section_when_two_threads_scan")),

    ("epoch_note_any", Loom("epoch::modelled::a_stall_is_that_of_one_section_and_names_its_thread")),
    ("epoch_stall", Loom("epoch::modelled::a_stall_is_that_of_one_section_and_names_its_thread")),
    ("epoch_thread", Loom("epoch::modelled::a_stall_is_that_of_one_section_and_names_its_thread")),

    ("epoch_drained", Loom("epoch::modelled::a_barrier_waits_for_the_calls_of_a_barrier_that_began_before")),

    ("epoch_drain_no_fence", Loom("epoch::modelled::a_barrier_and_an_owner_that_defers_exclude_each_other")),

    ("epoch_end_calls", Loom("epoch::modelled::who_waits_for_a_barrier_sees_what_was_called")),
    ("epoch_ended", Loom("epoch::modelled::who_waits_for_a_barrier_sees_what_was_called")),

    ("epoch_free", Loom("epoch::modelled::what_another_one_has_looked_for_is_freed_after_all_reads")),

    ("event_sleep_no_fence", Loom("event::modelled::who_sleeps_is_woken")),
    ("event_wake_no_fence", Loom("event::modelled::who_sleeps_is_woken")),

    ("hazard_again", Loom("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),
    ("hazard_clear", Loom("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),
    ("hazard_look", Loom("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),
    ("hazard_no_fence", Loom("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),
    ("hazard_no_recheck", Loom("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),
    ("hazard_protect", Loom("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),

    ("hazard_adopt", Loom("hazard::modelled::who_frees_an_orphan_sees_what_was_done_with_it")),
    ("hazard_leave", Loom("hazard::modelled::who_frees_an_orphan_sees_what_was_done_with_it")),

    ("slots_begin", Loom("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_empty", Loom("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_finish", Loom("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_look", Loom("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_mark", Loom("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_marked", Loom("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_wait", Loom("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),

    ("percpu_last", Loom("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),
    ("percpu_no_fence", Loom("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),
    ("percpu_no_mark", Loom("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),
    ("table_iter", Loom("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),

    ("percpu_begin", Loom("refs::percpu::modelled::a_user_of_the_next_life_sees_its_beginning")),
    ("percpu_mode", Loom("refs::percpu::modelled::a_user_of_the_next_life_sees_its_beginning")),

    ("percpu_reinit", Loom("refs::percpu::modelled::who_begins_again_sees_what_former_users_did")),

    ("percpu_is_dead", Loom("refs::percpu::modelled::who_finds_it_dead_sees_what_was_done_before")),
    ("percpu_kill", Loom("refs::percpu::modelled::who_finds_it_dead_sees_what_was_done_before")),

    ("percpu_add_up", Loom("refs::percpu::modelled::who_is_told_that_it_is_zero_sees_what_a_user_did_whom_another_one_has_added_up")),

    ("percpu_is_zero", Loom("refs::percpu::modelled::who_is_told_that_it_is_zero_sees_what_its_users_did")),
    ("percpu_put", Loom("refs::percpu::modelled::who_is_told_that_it_is_zero_sees_what_its_users_did")),

    ("rcu_load", Loom("rcu::modelled::a_reader_sees_a_value_as_it_was_made_and_not_its_end")),
    ("rcu_replace", Loom("rcu::modelled::a_reader_sees_a_value_as_it_was_made_and_not_its_end")),

    ("rcu_update", Loom("rcu::modelled::updates_of_two_threads_are_both_there")),
    ("rcu_update_again", Loom("rcu::modelled::updates_of_two_threads_are_both_there")),
    ("rcu_update_load", Loom("rcu::modelled::updates_of_two_threads_are_both_there")),

    ("biased_skip", Loom("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_finds_nothing")),
    ("refcache_early", Loom("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_finds_nothing")),
    ("refcache_group_no_fence", Loom("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_finds_nothing")),
    ("refcache_no_fence", Loom("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_finds_nothing")),
    ("refcache_used_only", Loom("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_finds_nothing")),

    ("snzi_load", Loom("refs::snzi::modelled::who_finds_nobody_there_sees_what_those_did_who_were")),

    ("snzi_no_help", Loom("refs::snzi::modelled::two_threads_at_one_leaf")),
    ("snzi_replace", Loom("refs::snzi::modelled::two_threads_at_one_leaf")),
    ("snzi_unsets", Loom("refs::snzi::modelled::two_threads_at_one_leaf")),

    ("registry_add", Loom("registry::modelled::a_value_is_used_by_one_thread_after_the_other")),
    ("registry_release", Loom("registry::modelled::a_value_is_used_by_one_thread_after_the_other")),
    ("registry_take", Loom("registry::modelled::a_value_is_used_by_one_thread_after_the_other")),
    ("registry_walk", Loom("registry::modelled::a_value_is_used_by_one_thread_after_the_other")),

    ("rm_clear", Loom("rm::modelled::a_read_within_a_read_does_not_wait_for_a_writer")),
    ("rm_holds", Loom("rm::modelled::a_read_within_a_read_does_not_wait_for_a_writer")),
    ("rm_no_fence", Loom("rm::modelled::a_read_within_a_read_does_not_wait_for_a_writer")),

    ("rm_enter", Loom("rm::modelled::a_reader_of_a_lock_that_was_opened_again_sees_the_write_before")),
    ("rm_no_recheck", Loom("rm::modelled::a_reader_of_a_lock_that_was_opened_again_sees_the_write_before")),
    ("rm_open", Loom("rm::modelled::a_reader_of_a_lock_that_was_opened_again_sees_the_write_before")),

    ("rm_enter", Loom("rm::modelled::a_reader_of_a_lock_that_a_writer_gave_up_sees_the_write_before")),
    ("rm_try_no_fence", Loom("rm::modelled::a_reader_of_a_lock_that_a_writer_gave_up_sees_the_write_before")),

    ("rm_try_no_fence", Loom("rm::modelled::a_writer_that_does_not_wait_excludes_readers_or_gives_up")),

    ("rm_set_below", Loom("rm::modelled::a_writer_that_finds_a_lock_below_in_a_slot_sees_the_end_of_the_read_before")),

    ("rm_set", Loom("rm::modelled::a_writer_that_finds_another_lock_in_a_slot_sees_the_end_of_the_read_before")),

    ("table_get", Loom("table::modelled::an_entry_is_seen_as_it_was_made")),
    ("table_lost", Loom("table::modelled::an_entry_is_seen_as_it_was_made")),
    ("table_make", Loom("table::modelled::an_entry_is_seen_as_it_was_made")),

    ("refcache_skips_zero", Unit("refs::refcache::mid_tick::a_reference_that_is_handed_around_between_flushes_is_seen_by_its_deltas_of_zero")),

    // What is of the process's threads, which loom does not have.
    ("box_exchange", Miri("hazard::tests::a_box_is_found_as_it_was_made")),
    ("box_store", Miri("hazard::tests::a_box_is_found_as_it_was_made")),

    ("pi_give", Miri("lock::tests::who_has_it_sees_what_was_done_with_it")),
    ("pi_take", Miri("lock::tests::who_has_it_sees_what_was_done_with_it")),

    // What is wrong in any order, in schedules of more threads than loom can have.
    ("joins_late", Shuttle("combiner::scheduled::who_returns_was_seen_by_a_barrier")),

    ("epoch_adopts_all", Shuttle("epoch::scheduled::threads_that_come_and_go_find_what_is_there_and_leave_nothing")),
    ("future", Shuttle("epoch::scheduled::threads_that_come_and_go_find_what_is_there_and_leave_nothing")),

    ("early", Shuttle("epoch::scheduled::a_wait_is_for_guards_and_for_sections_that_change_threads")),

    ("epoch_no_wait_for_calls", Shuttle("epoch::scheduled::a_barrier_returns_when_all_was_called_that_was_deferred_before")),

    ("hazard_loses_orphans", Shuttle("hazard::scheduled::objects_are_freed_once_and_not_while_one_of_three_readers_has_them")),
    ("hazard_no_recheck", Shuttle("hazard::scheduled::objects_are_freed_once_and_not_while_one_of_three_readers_has_them")),

    ("registry_gives_twice", Shuttle("invalidation::scheduled::slots_wait_for_who_marked")),
    ("slots_mark_once", Shuttle("invalidation::scheduled::slots_wait_for_who_marked")),

    ("percpu_adds_twice", Shuttle("refs::scheduled::each_life_of_a_count_ends_once_whoever_gets_and_puts_and_kills")),
    ("percpu_no_mark", Shuttle("refs::scheduled::each_life_of_a_count_ends_once_whoever_gets_and_puts_and_kills")),
    ("percpu_no_mark", Shuttle("refs::scheduled::a_count_that_two_threads_kill_is_dead_for_both")),

    ("snzi_no_help", Shuttle("refs::scheduled::somebody_is_there_if_any_of_five_threads_is")),
    ("snzi_stays", Shuttle("refs::scheduled::somebody_is_there_if_any_of_five_threads_is")),
    ("snzi_unsets", Shuttle("refs::scheduled::somebody_is_there_if_any_of_five_threads_is")),

    ("refcache_early", Shuttle("refs::refcache::scheduled::objects_stay_with_their_references_and_go_by_the_third_tick")),
    ("refcache_skips_zero", Shuttle("refs::refcache::scheduled::objects_stay_with_their_references_and_go_by_the_third_tick")),

    ("rm_nested", Shuttle("rm::scheduled::writers_exclude_three_readers_that_nest_and_come_and_go")),
    ("rm_no_recheck", Shuttle("rm::scheduled::writers_exclude_three_readers_that_nest_and_come_and_go")),
];
