//! What can be wrong, and who notices.

use Notices::{Interpreter, Model, Schedule, Torture, Unit};

/// Who notices a mutant.
pub(crate) enum Notices {
    /// A model of loom's, by name.
    Model(&'static str),
    /// A model of shuttle's, by name.
    Schedule(&'static str),
    /// The torture, in this mode.
    Torture(&'static [&'static str]),
    /// A unit test, by name.
    Unit(&'static str),
    /// A unit test, by name, which Miri runs.
    Interpreter(&'static str),
}

/// Mutants by their names in the sources.
#[rustfmt::skip]
pub(crate) const MUTANTS: &[(&str, Notices)] = &[
    // Whose heavy fence is missing, late, or the caller's own.
    ("own_fence", Torture(&["epoch"])),
    ("own_fence", Torture(&["hazard"])),
    ("own_fence", Torture(&["invalidation"])),
    ("own_fence", Torture(&["percpu"])),
    ("own_fence", Torture(&["rm"])),
    ("joins_late", Torture(&["epoch"])),
    ("no_fence", Torture(&["epoch"])),
    ("no_light_fence", Torture(&["epoch", "symmetric"])),
    ("hazard_no_fence", Torture(&["hazard"])),
    ("di_epoch_no_fence", Torture(&["invalidation"])),
    ("percpu_no_fence", Torture(&["percpu"])),
    ("refcache_group_no_fence", Torture(&["refcache"])),
    ("rm_no_fence", Torture(&["rm"])),
    ("rm_try_no_fence", Torture(&["rm"])),

    ("biased_left", Model("biased::modelled::owner_and_visitor_exclude_each_other")),
    ("biased_out", Model("biased::modelled::owner_and_visitor_exclude_each_other")),
    ("biased_own", Model("biased::modelled::owner_and_visitor_exclude_each_other")),
    ("biased_wait", Model("biased::modelled::owner_and_visitor_exclude_each_other")),
    ("biased_visit", Model("biased::modelled::owner_and_visitor_exclude_each_other")),
    ("no_light_fence", Model("biased::modelled::owner_and_visitor_exclude_each_other")),

    ("biased_again", Model("biased::modelled::an_owner_that_has_waited_sees_the_last_of_the_visits")),

    ("biased_crowd", Model("biased::modelled::visitors_exclude_each_other")),

    ("combiner_end", Model("combiner::modelled::who_returns_was_seen_by_a_barrier")),
    ("combiner_give", Model("combiner::modelled::who_returns_was_seen_by_a_barrier")),
    ("combiner_no_fence", Model("combiner::modelled::who_returns_was_seen_by_a_barrier")),
    ("combiner_over", Model("combiner::modelled::who_returns_was_seen_by_a_barrier")),
    ("combiner_take", Model("combiner::modelled::who_returns_was_seen_by_a_barrier")),
    ("joins_late", Model("combiner::modelled::who_returns_was_seen_by_a_barrier")),

    ("epoch_enter", Model("epoch::modelled::a_section_that_follows_another_one_does_not_hide_it")),
    ("epoch_enter_clock", Model("epoch::modelled::a_section_that_follows_another_one_does_not_hide_it")),
    ("epoch_leave", Model("epoch::modelled::a_section_that_follows_another_one_does_not_hide_it")),
    ("future", Model("epoch::modelled::a_section_that_follows_another_one_does_not_hide_it")),
    ("no_fence", Model("epoch::modelled::a_section_that_follows_another_one_does_not_hide_it")),

    ("epoch_refresh", Model("epoch::modelled::a_section_that_is_refreshed_lets_go_of_what_was_found_before")),
    ("epoch_refresh_clock", Model("epoch::modelled::a_section_that_is_refreshed_lets_go_of_what_was_found_before")),

    ("early", Model("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),
    ("epoch_look", Model("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),
    ("epoch_over", Model("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),
    ("epoch_read", Model("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),
    ("epoch_tag", Model("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),
    ("own_fence", Model("epoch::modelled::what_is_found_in_a_section_is_not_written_after_a_grace_period")),

    ("epoch_note", Model("epoch::modelled::a_stall_is_no_older_than_its_section_when_two_threads_scan")),
    ("epoch_seen", Model("epoch::modelled::a_stall_is_no_older_than_its_section_when_two_threads_scan")),

    ("epoch_note_any", Model("epoch::modelled::a_stall_is_that_of_one_section_and_names_its_thread")),
    ("epoch_stall", Model("epoch::modelled::a_stall_is_that_of_one_section_and_names_its_thread")),
    ("epoch_thread", Model("epoch::modelled::a_stall_is_that_of_one_section_and_names_its_thread")),

    ("epoch_drained", Model("epoch::modelled::a_barrier_waits_for_the_calls_of_a_barrier_that_began_before")),

    ("epoch_drain_no_fence", Model("epoch::modelled::a_barrier_and_an_owner_that_defers_exclude_each_other")),

    ("epoch_end_calls", Model("epoch::modelled::who_waits_for_a_barrier_sees_what_was_called")),
    ("epoch_ended", Model("epoch::modelled::who_waits_for_a_barrier_sees_what_was_called")),

    ("epoch_free", Model("epoch::modelled::what_another_one_has_looked_for_is_freed_after_all_reads")),

    ("event_sleep_no_fence", Model("event::modelled::who_sleeps_is_woken")),
    ("event_wake_no_fence", Model("event::modelled::who_sleeps_is_woken")),

    ("hazard_again", Model("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),
    ("hazard_clear", Model("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),
    ("hazard_look", Model("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),
    ("hazard_no_fence", Model("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),
    ("hazard_no_recheck", Model("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),
    ("hazard_protect", Model("hazard::modelled::a_slot_that_is_used_again_lets_go_of_what_it_had")),

    ("hazard_adopt", Model("hazard::modelled::who_frees_an_orphan_sees_what_was_done_with_it")),
    ("hazard_leave", Model("hazard::modelled::who_frees_an_orphan_sees_what_was_done_with_it")),

    ("slots_begin", Model("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_empty", Model("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_finish", Model("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_look", Model("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_mark", Model("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_marked", Model("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),
    ("slots_wait", Model("invalidation::modelled::a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before")),

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

    ("percpu_last", Model("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),
    ("percpu_no_fence", Model("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),
    ("percpu_no_mark", Model("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),
    ("table_iter", Model("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),

    ("percpu_begin", Model("refs::percpu::modelled::a_user_of_the_next_life_sees_its_beginning")),
    ("percpu_mode", Model("refs::percpu::modelled::a_user_of_the_next_life_sees_its_beginning")),

    ("percpu_reinit", Model("refs::percpu::modelled::who_begins_again_sees_what_former_users_did")),

    ("percpu_is_dead", Model("refs::percpu::modelled::who_finds_it_dead_sees_what_was_done_before")),
    ("percpu_kill", Model("refs::percpu::modelled::who_finds_it_dead_sees_what_was_done_before")),

    ("percpu_add_up", Model("refs::percpu::modelled::who_is_told_that_it_is_zero_sees_what_a_user_did_whom_another_one_has_added_up")),

    ("percpu_is_zero", Model("refs::percpu::modelled::who_is_told_that_it_is_zero_sees_what_its_users_did")),
    ("percpu_put", Model("refs::percpu::modelled::who_is_told_that_it_is_zero_sees_what_its_users_did")),

    ("epoch_load", Model("rcu::modelled::a_reader_sees_a_value_as_it_was_made_and_not_its_end")),
    ("epoch_replace", Model("rcu::modelled::a_reader_sees_a_value_as_it_was_made_and_not_its_end")),

    ("rcu_update", Model("rcu::modelled::updates_of_two_threads_are_both_there")),
    ("rcu_update_again", Model("rcu::modelled::updates_of_two_threads_are_both_there")),
    ("rcu_update_load", Model("rcu::modelled::updates_of_two_threads_are_both_there")),

    ("biased_skip", Model("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_finds_nothing")),
    ("refcache_early", Model("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_finds_nothing")),
    ("refcache_group_no_fence", Model("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_finds_nothing")),
    ("refcache_no_fence", Model("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_finds_nothing")),
    ("refcache_used_only", Model("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_finds_nothing")),

    ("snzi_load", Model("refs::snzi::modelled::who_finds_nobody_there_sees_what_those_did_who_were")),

    ("snzi_no_help", Model("refs::snzi::modelled::two_threads_at_one_leaf")),
    ("snzi_replace", Model("refs::snzi::modelled::two_threads_at_one_leaf")),
    ("snzi_unsets", Model("refs::snzi::modelled::two_threads_at_one_leaf")),

    ("registry_add", Model("registry::modelled::a_value_is_used_by_one_thread_after_the_other")),
    ("registry_release", Model("registry::modelled::a_value_is_used_by_one_thread_after_the_other")),
    ("registry_take", Model("registry::modelled::a_value_is_used_by_one_thread_after_the_other")),
    ("registry_walk", Model("registry::modelled::a_value_is_used_by_one_thread_after_the_other")),

    ("rm_clear", Model("rm::modelled::a_read_within_a_read_does_not_wait_for_a_writer")),
    ("rm_holds", Model("rm::modelled::a_read_within_a_read_does_not_wait_for_a_writer")),
    ("rm_no_fence", Model("rm::modelled::a_read_within_a_read_does_not_wait_for_a_writer")),

    ("rm_enter", Model("rm::modelled::a_reader_of_a_lock_that_was_opened_again_sees_the_write_before")),
    ("rm_no_recheck", Model("rm::modelled::a_reader_of_a_lock_that_was_opened_again_sees_the_write_before")),
    ("rm_open", Model("rm::modelled::a_reader_of_a_lock_that_was_opened_again_sees_the_write_before")),

    ("rm_enter", Model("rm::modelled::a_reader_of_a_lock_that_a_writer_gave_up_sees_the_write_before")),
    ("rm_try_no_fence", Model("rm::modelled::a_reader_of_a_lock_that_a_writer_gave_up_sees_the_write_before")),

    ("rm_try_no_fence", Model("rm::modelled::a_writer_that_does_not_wait_excludes_readers_or_gives_up")),

    ("rm_set_below", Model("rm::modelled::a_writer_that_finds_a_lock_below_in_a_slot_sees_the_end_of_the_read_before")),

    ("rm_set", Model("rm::modelled::a_writer_that_finds_another_lock_in_a_slot_sees_the_end_of_the_read_before")),

    ("table_get", Model("table::modelled::an_entry_is_seen_as_it_was_made")),
    ("table_lost", Model("table::modelled::an_entry_is_seen_as_it_was_made")),
    ("table_make", Model("table::modelled::an_entry_is_seen_as_it_was_made")),

    ("refcache_skips_zero", Unit("refs::refcache::mid_tick::a_reference_that_is_handed_around_between_flushes_is_seen_by_its_deltas_of_zero")),

    // What is of the process's threads, which loom does not have.
    ("box_exchange", Interpreter("hazard::tests::a_box_is_found_as_it_was_made")),
    ("box_store", Interpreter("hazard::tests::a_box_is_found_as_it_was_made")),

    ("conn_find", Interpreter("conn_table::tests::a_connection_is_found_whole_whatever_led_to_it")),
    ("conn_insert", Interpreter("conn_table::tests::a_connection_is_found_whole_whatever_led_to_it")),
    ("conn_remove", Interpreter("conn_table::tests::a_connection_is_found_whole_whatever_led_to_it")),

    ("pi_give", Interpreter("lock::tests::who_has_it_sees_what_was_done_with_it")),
    ("pi_take", Interpreter("lock::tests::who_has_it_sees_what_was_done_with_it")),

    // What is wrong in any order, in schedules of more threads than loom can have.
    ("joins_late", Schedule("combiner::scheduled::who_returns_was_seen_by_a_barrier")),

    ("epoch_adopts_all", Schedule("epoch::scheduled::threads_that_come_and_go_find_what_is_there_and_leave_nothing")),
    ("future", Schedule("epoch::scheduled::threads_that_come_and_go_find_what_is_there_and_leave_nothing")),

    ("early", Schedule("epoch::scheduled::a_wait_is_for_guards_and_for_sections_that_change_threads")),

    ("epoch_no_wait_for_calls", Schedule("epoch::scheduled::a_barrier_returns_when_all_was_called_that_was_deferred_before")),

    ("hazard_loses_orphans", Schedule("hazard::scheduled::objects_are_freed_once_and_not_while_one_of_three_readers_has_them")),
    ("hazard_no_recheck", Schedule("hazard::scheduled::objects_are_freed_once_and_not_while_one_of_three_readers_has_them")),

    ("registry_gives_twice", Schedule("invalidation::scheduled::slots_wait_for_who_marked")),
    ("slots_mark_once", Schedule("invalidation::scheduled::slots_wait_for_who_marked")),
    ("di_epoch_early", Schedule("invalidation::scheduled::an_epoch_waits_for_who_marked")),
    ("locked_keeps", Schedule("invalidation::scheduled::the_locked_form_waits_for_who_marked")),
    ("link_stays_open", Schedule("invalidation::scheduled::the_lock_free_form_waits_for_who_marked")),

    ("percpu_adds_twice", Schedule("refs::scheduled::each_life_of_a_count_ends_once_whoever_gets_and_puts_and_kills")),
    ("percpu_no_mark", Schedule("refs::scheduled::each_life_of_a_count_ends_once_whoever_gets_and_puts_and_kills")),
    ("percpu_no_mark", Schedule("refs::scheduled::a_count_that_two_threads_kill_is_dead_for_both")),

    ("snzi_no_help", Schedule("refs::scheduled::somebody_is_there_if_any_of_five_threads_is")),
    ("snzi_stays", Schedule("refs::scheduled::somebody_is_there_if_any_of_five_threads_is")),
    ("snzi_unsets", Schedule("refs::scheduled::somebody_is_there_if_any_of_five_threads_is")),

    ("refcache_early", Schedule("refs::refcache::scheduled::objects_stay_with_their_references_and_go_by_the_third_tick")),
    ("refcache_skips_zero", Schedule("refs::refcache::scheduled::objects_stay_with_their_references_and_go_by_the_third_tick")),

    ("rm_nested", Schedule("rm::scheduled::writers_exclude_three_readers_that_nest_and_come_and_go")),
    ("rm_no_recheck", Schedule("rm::scheduled::writers_exclude_three_readers_that_nest_and_come_and_go")),
];
