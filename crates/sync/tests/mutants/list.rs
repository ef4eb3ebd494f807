//! What can be wrong, and who notices.

use Notices::{Model, Torture, Unit};

/// Who notices a mutant.
pub(crate) enum Notices {
    /// A model, by name.
    Model(&'static str),
    /// The torture, in this mode.
    Torture(&'static [&'static str]),
    /// A unit test, by name.
    Unit(&'static str),
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

    ("di_epoch_no_fence", Model("invalidation::modelled::an_epoch_is_waited_for_without_a_lock")),

    ("percpu_last", Model("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),
    ("percpu_no_fence", Model("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),
    ("percpu_no_mark", Model("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),
    ("table_iter", Model("refs::percpu::modelled::a_new_user_comes_before_the_end_or_not_at_all")),

    ("percpu_begin", Model("refs::percpu::modelled::a_user_of_the_next_life_sees_its_beginning")),
    ("percpu_mode", Model("refs::percpu::modelled::a_user_of_the_next_life_sees_its_beginning")),

    ("percpu_reinit", Model("refs::percpu::modelled::who_begins_again_sees_what_former_users_did")),

    ("percpu_is_dead", Model("refs::percpu::modelled::who_finds_it_dead_sees_what_was_done_before")),
    ("percpu_kill", Model("refs::percpu::modelled::who_finds_it_dead_sees_what_was_done_before")),

    ("percpu_is_zero", Model("refs::percpu::modelled::who_is_told_that_it_is_zero_sees_what_its_users_did")),
    ("percpu_put", Model("refs::percpu::modelled::who_is_told_that_it_is_zero_sees_what_its_users_did")),

    ("rcu_load", Model("rcu::modelled::a_reader_sees_a_value_as_it_was_made_and_not_its_end")),
    ("rcu_replace", Model("rcu::modelled::a_reader_sees_a_value_as_it_was_made_and_not_its_end")),

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

    ("rm_try_no_fence", Model("rm::modelled::a_writer_that_does_not_wait_excludes_readers_or_gives_up")),

    ("rm_set_below", Model("rm::modelled::a_writer_that_finds_a_lock_below_in_a_slot_sees_the_end_of_the_read_before")),

    ("rm_set", Model("rm::modelled::a_writer_that_finds_another_lock_in_a_slot_sees_the_end_of_the_read_before")),

    ("table_get", Model("table::modelled::an_entry_is_seen_as_it_was_made")),
    ("table_lost", Model("table::modelled::an_entry_is_seen_as_it_was_made")),
    ("table_make", Model("table::modelled::an_entry_is_seen_as_it_was_made")),

    ("refcache_skips_zero", Unit("refs::refcache::mid_tick::a_reference_that_is_handed_around_between_flushes_is_seen_by_its_deltas_of_zero")),
];
