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

    ("biased_left", Model("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),
    ("biased_out", Model("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),
    ("biased_own", Model("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),
    ("biased_wait", Model("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),
    ("biased_visit", Model("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),
    ("no_light_fence", Model("biased::modelled::the_owner_and_a_remote_thread_exclude_each_other")),

    ("biased_again", Model("biased::modelled::an_owner_that_has_waited_acquires_the_last_remote_use")),

    ("biased_crowd", Model("biased::modelled::remote_threads_exclude_each_other")),

    ("combiner_end", Model("combiner::modelled::a_barrier_has_seen_every_caller_that_returns")),
    ("combiner_give", Model("combiner::modelled::a_barrier_has_seen_every_caller_that_returns")),
    ("combiner_no_fence", Model("combiner::modelled::a_barrier_has_seen_every_caller_that_returns")),
    ("combiner_over", Model("combiner::modelled::a_barrier_has_seen_every_caller_that_returns")),
    ("combiner_take", Model("combiner::modelled::a_barrier_has_seen_every_caller_that_returns")),
    ("joins_late", Model("combiner::modelled::a_barrier_has_seen_every_caller_that_returns")),

    ("epoch_enter", Model("epoch::modelled::a_section_does_not_hide_the_one_before")),
    ("epoch_enter_clock", Model("epoch::modelled::a_section_does_not_hide_the_one_before")),
    ("epoch_leave", Model("epoch::modelled::a_section_does_not_hide_the_one_before")),
    ("future", Model("epoch::modelled::a_section_does_not_hide_the_one_before")),
    ("no_fence", Model("epoch::modelled::a_section_does_not_hide_the_one_before")),

    ("epoch_refresh", Model("epoch::modelled::a_refreshed_section_releases_earlier_objects")),
    ("epoch_refresh_clock", Model("epoch::modelled::a_refreshed_section_releases_earlier_objects")),

    ("early", Model("epoch::modelled::a_grace_period_waits_for_every_reader")),
    ("epoch_look", Model("epoch::modelled::a_grace_period_waits_for_every_reader")),
    ("epoch_over", Model("epoch::modelled::a_grace_period_waits_for_every_reader")),
    ("epoch_read", Model("epoch::modelled::a_grace_period_waits_for_every_reader")),
    ("epoch_tag", Model("epoch::modelled::a_grace_period_waits_for_every_reader")),
    ("own_fence", Model("epoch::modelled::a_grace_period_waits_for_every_reader")),

    ("epoch_note", Model("epoch::modelled::a_stall_is_never_older_than_its_section")),
    ("epoch_seen", Model("epoch::modelled::a_stall_is_never_older_than_its_section")),

    ("epoch_note_any", Model("epoch::modelled::a_stall_is_of_one_section_and_names_its_thread")),
    ("epoch_stall", Model("epoch::modelled::a_stall_is_of_one_section_and_names_its_thread")),
    ("epoch_thread", Model("epoch::modelled::a_stall_is_of_one_section_and_names_its_thread")),

    ("epoch_drained", Model("epoch::modelled::a_barrier_waits_for_the_calls_of_the_one_before")),

    ("epoch_drain_no_fence", Model("epoch::modelled::a_barrier_and_an_owner_that_defers_exclude_each_other")),

    ("epoch_end_calls", Model("epoch::modelled::a_barrier_acquires_what_the_calls_did")),
    ("epoch_ended", Model("epoch::modelled::a_barrier_acquires_what_the_calls_did")),

    ("epoch_free", Model("epoch::modelled::objects_found_ready_by_another_scan_are_freed_after_all_reads")),

    ("event_sleep_no_fence", Model("event::modelled::a_sleeper_is_woken")),
    ("event_wake_no_fence", Model("event::modelled::a_sleeper_is_woken")),

    ("hazard_again", Model("hazard::modelled::a_reused_slot_releases_its_last_object")),
    ("hazard_clear", Model("hazard::modelled::a_reused_slot_releases_its_last_object")),
    ("hazard_look", Model("hazard::modelled::a_reused_slot_releases_its_last_object")),
    ("hazard_no_fence", Model("hazard::modelled::a_reused_slot_releases_its_last_object")),
    ("hazard_no_recheck", Model("hazard::modelled::a_reused_slot_releases_its_last_object")),
    ("hazard_protect", Model("hazard::modelled::a_reused_slot_releases_its_last_object")),

    ("hazard_adopt", Model("hazard::modelled::the_thread_that_frees_an_orphan_acquires_its_uses")),
    ("hazard_leave", Model("hazard::modelled::the_thread_that_frees_an_orphan_acquires_its_uses")),

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

    ("percpu_last", Model("refs::percpu::modelled::a_new_user_comes_before_the_kill_or_is_refused")),
    ("percpu_no_fence", Model("refs::percpu::modelled::a_new_user_comes_before_the_kill_or_is_refused")),
    ("percpu_no_mark", Model("refs::percpu::modelled::a_new_user_comes_before_the_kill_or_is_refused")),
    ("table_iter", Model("refs::percpu::modelled::a_new_user_comes_before_the_kill_or_is_refused")),

    ("percpu_begin", Model("refs::percpu::modelled::a_user_of_the_next_life_sees_its_beginning")),
    ("percpu_mode", Model("refs::percpu::modelled::a_user_of_the_next_life_sees_its_beginning")),

    ("percpu_reinit", Model("refs::percpu::modelled::reinit_sees_what_former_users_did")),

    ("percpu_is_dead", Model("refs::percpu::modelled::is_dead_acquires_the_kill")),
    ("percpu_kill", Model("refs::percpu::modelled::is_dead_acquires_the_kill")),

    ("percpu_add_up", Model("refs::percpu::modelled::is_zero_acquires_what_a_folded_user_did")),

    ("percpu_is_zero", Model("refs::percpu::modelled::is_zero_acquires_what_its_users_did")),
    ("percpu_put", Model("refs::percpu::modelled::is_zero_acquires_what_its_users_did")),

    ("epoch_load", Model("rcu::modelled::a_reader_sees_a_value_as_published_and_not_its_drop")),
    ("epoch_replace", Model("rcu::modelled::a_reader_sees_a_value_as_published_and_not_its_drop")),

    ("rcu_update", Model("rcu::modelled::no_update_of_two_threads_is_lost")),
    ("rcu_update_again", Model("rcu::modelled::no_update_of_two_threads_is_lost")),
    ("rcu_update_load", Model("rcu::modelled::no_update_of_two_threads_is_lost")),

    ("biased_skip", Model("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_fails")),
    ("refcache_early", Model("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_fails")),
    ("refcache_group_no_fence", Model("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_fails")),
    ("refcache_no_fence", Model("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_fails")),
    ("refcache_used_only", Model("refs::refcache::modelled::an_upgrade_comes_before_the_end_or_fails")),

    ("snzi_load", Model("refs::snzi::modelled::a_false_query_acquires_the_departures")),

    ("snzi_no_help", Model("refs::snzi::modelled::two_threads_at_one_leaf")),
    ("snzi_replace", Model("refs::snzi::modelled::two_threads_at_one_leaf")),
    ("snzi_unsets", Model("refs::snzi::modelled::two_threads_at_one_leaf")),

    ("registry_add", Model("registry::modelled::a_node_has_one_owner_at_a_time")),
    ("registry_release", Model("registry::modelled::a_node_has_one_owner_at_a_time")),
    ("registry_take", Model("registry::modelled::a_node_has_one_owner_at_a_time")),
    ("registry_walk", Model("registry::modelled::a_node_has_one_owner_at_a_time")),

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

    ("table_get", Model("table::modelled::an_entry_is_seen_initialised")),
    ("table_lost", Model("table::modelled::an_entry_is_seen_initialised")),
    ("table_make", Model("table::modelled::an_entry_is_seen_initialised")),

    ("refcache_skips_zero", Unit("refs::refcache::mid_tick::a_reference_that_is_handed_around_between_flushes_is_seen_by_its_deltas_of_zero")),

    // What is of the process's threads, which loom does not have.
    ("box_exchange", Interpreter("hazard::tests::a_reader_sees_a_box_as_it_was_published")),
    ("box_store", Interpreter("hazard::tests::a_reader_sees_a_box_as_it_was_published")),

    ("conn_find", Interpreter("conn_table::tests::a_connection_is_found_whole_whatever_led_to_it")),
    ("conn_insert", Interpreter("conn_table::tests::a_connection_is_found_whole_whatever_led_to_it")),
    ("conn_remove", Interpreter("conn_table::tests::a_connection_is_found_whole_whatever_led_to_it")),

    ("pi_give", Interpreter("lock::tests::an_owner_acquires_what_the_last_one_did")),
    ("pi_take", Interpreter("lock::tests::an_owner_acquires_what_the_last_one_did")),

    // What is wrong in any order, in schedules of more threads than loom can have.
    ("joins_late", Schedule("combiner::scheduled::a_barrier_has_seen_every_caller_that_returns")),

    ("epoch_adopts_all", Schedule("epoch::scheduled::short_threads_find_live_objects_and_leave_nothing_behind")),
    ("future", Schedule("epoch::scheduled::short_threads_find_live_objects_and_leave_nothing_behind")),

    ("early", Schedule("epoch::scheduled::a_wait_covers_guards_and_migrating_sections")),

    ("epoch_no_wait_for_calls", Schedule("epoch::scheduled::a_barrier_returns_after_all_earlier_calls")),

    ("hazard_loses_orphans", Schedule("hazard::scheduled::objects_are_freed_once_and_not_under_a_guard")),
    ("hazard_no_recheck", Schedule("hazard::scheduled::objects_are_freed_once_and_not_under_a_guard")),

    ("registry_gives_twice", Schedule("invalidation::scheduled::slots_wait_for_who_marked")),
    ("slots_mark_once", Schedule("invalidation::scheduled::slots_wait_for_who_marked")),
    ("di_epoch_early", Schedule("invalidation::scheduled::an_epoch_waits_for_who_marked")),
    ("locked_keeps", Schedule("invalidation::scheduled::the_locked_form_waits_for_who_marked")),
    ("link_stays_open", Schedule("invalidation::scheduled::the_lock_free_form_waits_for_who_marked")),

    ("percpu_adds_twice", Schedule("refs::scheduled::each_life_of_a_count_ends_once")),
    ("percpu_no_mark", Schedule("refs::scheduled::each_life_of_a_count_ends_once")),
    ("percpu_no_mark", Schedule("refs::scheduled::a_count_that_two_threads_kill_is_dead_for_both")),

    ("snzi_no_help", Schedule("refs::scheduled::the_indicator_is_set_while_any_of_five_threads_has_arrived")),
    ("snzi_stays", Schedule("refs::scheduled::the_indicator_is_set_while_any_of_five_threads_has_arrived")),
    ("snzi_unsets", Schedule("refs::scheduled::the_indicator_is_set_while_any_of_five_threads_has_arrived")),

    ("refcache_early", Schedule("refs::refcache::scheduled::objects_live_as_long_as_references_and_three_ticks")),
    ("refcache_skips_zero", Schedule("refs::refcache::scheduled::objects_live_as_long_as_references_and_three_ticks")),

    ("rm_nested", Schedule("rm::scheduled::writers_exclude_three_nesting_readers")),
    ("rm_no_recheck", Schedule("rm::scheduled::writers_exclude_three_nesting_readers")),
];
