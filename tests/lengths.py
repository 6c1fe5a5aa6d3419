"""Which tests `make test` leaves to `make test-long`, and which `pytest -m quick` runs.

A test is long where a shorter one touches what it protects, and length only makes it likelier that something is found:
more schedules, every kind of loss, each point of a program, a cluster instead of a broker. `.ci/run` runs a share of
the long tests, another one for another commit. The table stands here and not as marks in the tests' files, so that what
is left out can be read in one place.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Final

from tests.plugged import of_branches

LONG: Final[Mapping[str, tuple[str, ...]]] = {
    # Hostile streams: the first tenth of them, and one planted defect.
    "tests/branches/bounds/test_standing.py::test_no_bound_is_wrong": ("0",),
    "tests/branches/bounds/test_standing.py::test_a_planted_defect_is_found": ("nearest",),
    "tests/branches/bounds/test_proof.py::test_corrupted_proofs_are_refused": ("30",),
    # Simulated worlds: fewer schedules, and the planted defects that are found soon.
    "tests/simulation/test_simulation.py::test_the_promise_holds_in_random_worlds": ("0",),
    "tests/branches/late_labels/test_worlds.py::test_the_promise_holds_where_labels_come_later": ("0",),
    "tests/simulation/test_simulation.py::test_the_shipped_code_breaks_nothing_where_a_defect_is_found": (
        "1 a pending cut is kept as positions only",
    ),
    # A stretch on borders of spans, off them, and of everything; each further test has a trainer of its own.
    # The trunk without a branch: on a real broker as on the embedded one.
    "tests/branches/test_removed.py::test_a_stream_goes_through_without_it": ("*-embedded",),
    "tests/branches/history/test_building.py::test_a_model_of_a_stretch_is_of_exactly_its_rows": ("100-500", "0-640"),
    "tests/branches/history/test_building.py::test_where_a_bucket_cannot_be_made_again_nothing_is_changed": (),
    # The memory that keeps everything; those that forget are read again by the same code.
    "tests/branches/history/test_erasing.py::test_what_is_learned_is_that_of_a_stream_that_rejected_the_rows": ("all",),
    # Four processes of the command line.
    "tests/branches/history/test_erasing.py::test_a_command_that_is_killed_leaves_nothing_that_is_used": (
        "erase.marked",
    ),
    "tests/branches/history/test_erasing.py::test_a_row_is_erased_once_and_others_are_named": (),
    # Several labels under every memory: the window goes through the same code, and restarts through a screened leaf.
    "tests/branches/memories/test_several_labels.py::test_memories_that_forget_know_seven_labels": ("embedded-window",),
    "tests/consumers/test_classes.py::test_seven_labels_are_rolled_back_and_named": ("embedded",),
    "tests/consumers/test_onnx.py::test_copies_of_seven_labels_answer_alike": ("real-one_vs_one-linear",),
    "tests/faults/test_challenges.py::test_equals_challenge_each_other_under_kills": (),
    "tests/faults/test_classes.py::test_kills_at_random_moments_change_nothing": (),
    # The fault matrix: of each row that takes a process and a broker, the shortest form; rows of which none is kept are
    # about what the simulation does to the same code (clocks, kills, frozen and lost processes, lost answers).
    "tests/faults/test_broker.py::test_a_pause_only_delays": (),
    "tests/faults/test_broker.py::test_a_stop_without_a_broker_ends": (),
    "tests/faults/test_broker_backpressure.py::test_pausing_loses_nothing": (),
    "tests/faults/test_clock.py::test_a_clock_that_jumps_changes_no_model": (),
    "tests/faults/test_cluster.py::test_a_killed_leader_only_delays": (),
    "tests/faults/test_cluster.py::test_a_leader_that_is_gone_gives_no_marks": (),
    "tests/faults/test_cluster.py::test_below_the_minimum_it_waits": (),
    "tests/faults/test_copies.py::test_a_kill_leaves_no_version_without_its_copy_and_no_copy_without_its_version": (),
    "tests/faults/test_deadletters.py::test_an_outage_of_the_dead_letters_only_delays_them": (),
    "tests/faults/test_disk.py::test_a_daemon_goes_on_without_its_disk": (),
    "tests/faults/test_forgetting.py::test_kills_of_a_trainer_that_forgets_change_nothing": ("adaptive",),
    "tests/faults/test_forgetting.py::test_kills_within_a_screened_span_change_nothing": (),
    "tests/faults/test_frozen.py::test_a_frozen_trainer_whose_copy_went_on_is_fenced": (),
    "tests/faults/test_hostile_records.py::test_a_flood_ends_nothing_and_adds_up": ("4000",),
    "tests/faults/test_hostile_http.py::test_probes_are_answered_among_hostile_connections": ("http",),
    "tests/faults/test_kill.py::test_a_kill_at_any_named_point_changes_nothing": ("0",),
    "tests/faults/test_kill.py::test_a_kill_at_a_random_moment_changes_nothing": (),
    "tests/faults/test_kill.py::test_kills_around_a_tuning_change_nothing": (),
    "tests/faults/test_kill.py::test_kills_within_a_screened_leaf_change_nothing": (),
    "tests/faults/test_late_labels.py::test_three_readings_of_the_same_logs_give_the_same_versions": ("4000",),
    "tests/faults/test_late_labels.py::test_kills_with_a_join_open_change_nothing": (),
    "tests/faults/test_late_labels.py::test_a_trainer_that_forgets_what_waits_is_found": (),
    "tests/faults/test_log.py::test_duplicates_and_disorder_count_by_offset": (),
    "tests/faults/test_memory.py::test_memory_stays_flat_when_training_is_slow": (),
    "tests/faults/test_network.py::test_silence_only_delays": (),
    "tests/faults/test_network.py::test_slowness_only_delays": (),
    "tests/faults/test_outages.py::test_an_outage_longer_than_a_transaction_only_delays": (),
    "tests/faults/test_oversize.py::test_a_limit_that_a_model_may_exceed_is_refused_at_start": (),
    "tests/faults/test_pin.py::test_a_pin_holds_while_versions_are_published": (),
    "tests/faults/test_poisoning.py::test_the_documented_recovery_gives_readers_a_clean_model": (),
    "tests/faults/test_power.py::test_a_second_power_loss_while_recovering_from_the_first": (),
    "tests/faults/test_power.py::test_the_trainer_goes_on_from_states_after_a_power_loss": (),
    "tests/faults/test_scorers.py::test_a_frozen_scorer_that_wakes_adds_nothing": (),
    "tests/faults/test_scorers.py::test_a_kill_at_any_named_point_doubles_and_loses_nothing": (),
    "tests/faults/test_scorers.py::test_a_killed_scorer_is_succeeded_in_its_slot": ("scores.placed",),
    "tests/faults/test_scorers.py::test_a_scorer_frozen_before_a_transaction_adds_nothing": (),
    "tests/faults/test_scorers.py::test_a_scorer_frozen_within_a_transaction_holds_up_nobody_for_ever": (),
    "tests/faults/test_scorers.py::test_kills_at_random_moments_double_and_lose_nothing": (),
    "tests/faults/test_scorers.py::test_scorers_that_start_at_once_come_to_a_slot_each": (),
    "tests/faults/test_security.py::test_a_permission_revoked_in_flight_ends_the_trainer_with_a_line": (),
    "tests/faults/test_security.py::test_a_scorer_and_a_subscriber_work_with_theirs": (),
    "tests/faults/test_security.py::test_an_expired_certificate_ends_a_start_and_only_delays_a_running_trainer": (),
    "tests/faults/test_security.py::test_another_authority_is_not_trusted_unless_a_flag_says_so": (),
    "tests/faults/test_security.py::test_every_verb_works_over_tls_with_each_mechanism": ("SCRAM-SHA-512",),
    "tests/faults/test_security.py::test_people_do_their_work_with_the_documented_permissions_and_no_others": (),
    "tests/faults/test_security.py::test_people_look_as_subscribers_and_pin_with_one_permission_more": (),
    "tests/faults/test_security.py::test_what_the_client_repeats_for_ever_is_said_once": (),
    "tests/faults/test_security.py::test_without_reading_versions_a_trainer_does_not_start_again": (),
    "tests/faults/test_standby.py::test_a_killed_copy_is_succeeded_and_no_version_is_lost": (),
    "tests/consumers/test_standing_by.py::test_a_copy_whose_turn_is_over_ends_and_is_started_again": ("embedded",),
    "tests/consumers/test_standing_by.py::test_a_copy_that_stands_by_stops_when_told_to": ("embedded",),
    "tests/consumers/test_standing_by.py::test_the_next_copy_goes_on_at_once_where_one_stops": ("real",),
    "tests/faults/test_topics.py::test_a_new_partition_is_learned": (),
    "tests/faults/test_topics.py::test_a_recreated_topic_is_refused_or_begun_anew": (),
    "tests/faults/test_topics.py::test_a_truncated_topic_is_refused_or_begun_anew": (),
    "tests/faults/test_transactions.py::test_a_strangers_transaction_is_waited_for": (),
    "tests/faults/test_transactions_expired.py::test_a_forgotten_rival_is_noticed": (),
    "tests/faults/test_transactions_expired.py::test_an_expired_id_is_renewed": (),
    "tests/faults/test_transactions_unanswered.py::test_a_commit_answered_at_the_second_time_is_done": (),
    "tests/faults/test_transactions_unanswered.py::test_a_late_commit_does_nothing": (),
    "tests/faults/test_transactions_unanswered.py::test_an_unanswered_commit_is_looked_up": ("True",),
    "tests/faults/test_transactions_unanswered.py::test_an_unanswered_commit_shows_a_defect": (),
    # Markers that a broker loses: all of a transaction's at once, of a trainer and of a scorer, alive and dead.
    "tests/consumers/test_settling.py::test_a_batch_whose_markers_are_lost_is_answered_once": (
        "scores+letters+positions",
    ),
    "tests/consumers/test_settling.py::test_a_successor_completes_what_a_dead_trainer_left": (
        "publish.answered-models+aliases+audit",
    ),
    "tests/consumers/test_settling.py::test_a_version_whose_markers_are_lost_is_published_once": (
        "the third-models+aliases+audit",
    ),
    "tests/consumers/test_settling.py::test_the_next_scorer_of_a_slot_completes_what_a_dead_one_left": (
        "settle.swept-scores+positions",
    ),
    # Commands as processes, one after the other: what they do is tested without a process in the same files.
    "tests/consumers/test_cli.py::test_an_unreachable_broker_is_retryable": (),
    "tests/consumers/test_cli.py::test_replay_train_show_and_score_by_command_line": (),
    "tests/consumers/test_demo.py::test_the_demo_gives_the_same_models_every_time": (),
    "tests/branches/workers/test_backfill.py::test_a_backfill_that_was_stopped_goes_on": (),
    "tests/branches/workers/test_backfill.py::test_half_backfilled_and_half_streamed_is_all_streamed": (),
    "tests/branches/workers/test_group_workers.py::test_a_group_of_workers_shares_partitions_out": (),
    "tests/branches/workers/test_group_workers.py::test_a_reset_begins_anew_for_workers_too": (),
    "tests/branches/workers/test_group_workers.py::test_a_stream_goes_on_from_one_process_to_workers_and_back": (),
    "tests/branches/workers/test_group_workers.py::test_a_trainer_that_was_away_goes_on_past_what_retention_took": (),
    "tests/branches/workers/test_group_workers.py::test_a_trainer_without_newest_checkpoints_adopts_what_is_there": (),
    "tests/branches/workers/test_group_workers.py::test_foreign_records_are_passed_over_by_name": (),
    "tests/branches/workers/test_group_workers.py::test_split_brain_for_a_whole_run_changes_nothing": (),
    "tests/consumers/test_models.py::test_the_commands_do_and_show_it": (),
    "tests/consumers/test_scorer.py::test_a_broker_that_restarts_costs_no_point": (),
    "tests/consumers/test_scorer.py::test_scorers_that_come_and_go_score_each_point_once": (),
    "tests/branches/bounds/test_certified_versions.py::test_the_command_says_what_is_proven": (),
    "tests/consumers/test_verify.py::test_the_command_says_what_it_found": (),
    "tests/branches/workers/test_workers.py::test_a_replay_ends_exactly_at_the_newest_version": (),
    "tests/branches/workers/test_workers.py::test_a_stream_goes_on_through_restarts_and_other_numbers_of_workers": (),
    "tests/branches/workers/test_workers.py::test_a_worker_ends_with_its_trainer": (),
    "tests/branches/workers/test_workers.py::test_a_wrong_stream_is_refused_by_the_worker_that_reads_it": (),
    "tests/branches/workers/test_workers.py::test_new_partitions_are_taken_up": (),
    "tests/branches/workers/test_workers.py::test_workers_write_dead_letters": (),
    "tests/faults/test_group_workers.py::test_a_kill_at_a_named_point_of_a_trainer_changes_nothing": (),
    "tests/faults/test_group_workers.py::test_a_kill_at_a_named_point_of_a_worker_changes_nothing": (
        "coresets.parts:3",
    ),
    "tests/faults/test_group_workers.py::test_kills_and_a_stop_of_workers_change_nothing": (),
    "tests/faults/test_group_workers.py::test_two_groups_that_own_everything_change_nothing": (),
    "tests/faults/test_workers.py::test_kills_and_stops_of_workers_change_nothing": (),
    "tests/branches/workers/test_coreset_log.py::test_at_every_prefix_the_highest_manifest_is_complete": (
        "coreset0",
        "coreset7",
    ),
    "tests/test_anchoring.py::test_every_command_withstands_the_forgery": (),
    # Brokers that are killed: the fault matrix keeps one.
    "tests/kafka/test_reading.py::test_marks_are_told_again_after_the_broker_was_killed": (),
    "tests/test_subscriber.py::test_a_broker_that_restarts_is_followed_on": (),
    # Subscribers in other languages: the linear machine.
    "tests/interop/test_subscribers.py::test_every_language_follows_and_agrees": ("linear",),
    "tests/interop/test_subscribers.py::test_every_language_refuses_what_no_trusted_key_signed": (),
    "tests/interop/test_packages.py::test_node_reads_every_compression": (
        "librdkafka-zstd",
        "librdkafka-snappy",
        "Java-lz4",
    ),
    # A session of commands after one another: what each does has tests of its own.
    "tests/consumers/test_first_hour.py::test_the_page_goes_as_it_says": (),
    "tests/consumers/test_first_hour.py::test_the_page_goes_as_it_says_in_an_empty_environment": (),
    # Large files: a smaller one, or the other format.
    "tests/test_sources.py::test_a_wide_row_of_a_csv_is_read": (),
    "tests/test_sources.py::test_reading_takes_memory_for_a_batch_and_not_for_the_file": (".csv",),
    # Batches, restarts and copies of the default reducer; each other reducer, structure and option is in the long form.
    "tests/test_learner.py::test_a_restored_learner_goes_on_as_if_never_stopped": ("calibrated-tree", "uniform-chain"),
    "tests/test_learner.py::test_batches_do_not_matter": ("calibrated-tree", "uniform-chain"),
    "tests/coreset/test_screening.py::test_a_restart_within_a_screened_leaf_changes_nothing": ("tree",),
    "tests/coreset/test_screening.py::test_batches_do_not_matter_to_a_screened_leaf": ("chain",),
    "tests/estimators/test_classes.py::test_portions_do_not_matter": ("options0",),
    "tests/estimators/test_classes.py::test_skops_brings_it_back": ("options0",),
    "tests/estimators/test_coresetsvc.py::test_a_copy_goes_on_to_the_last_bit": ("True-options0", "False-options2"),
    "tests/estimators/test_coresetsvc.py::test_skops_brings_it_back": ("options0",),
    # Optima that take long to reach, and bounds that many models are tried against.
    "tests/svm/test_fast.py::test_large_unequal_boxes_reach_the_optimum": ("htru2-*",),
    "tests/papers/test_clustered.py::test_no_model_gives_a_point_more_than_its_bound": ("1.0-4",),
    "tests/codec/test_points.py::test_far_exponents_have_one_value": ("True",),
    # Intervals that are to hold in so many of many draws: the hardest streams.
    "tests/coreset/test_audit.py::test_the_interval_covers_the_truth": ("heavy-log-uniform-*", "fraud-*", "htru2-1-*"),
    "tests/svm/test_threshold.py::test_intervals_hold_what_comes": ("recall-0.9",),
    # Statistics over many draws: the default reducer and the plain one.
    "tests/estimators/test_coresetsvc.py::test_a_weight_is_worth_repetitions_in_distribution": ("2",),
    "tests/estimators/test_coresetsvc.py::test_accuracy_holds_on_average": ("200-options0-2", "1000-options2-2"),
    "tests/estimators/test_coresetsvc.py::test_class_weights_hold_on_average": ("1000-options2",),
    "tests/estimators/test_coresetsvc.py::test_probabilities_come_near_those_of_all_the_data": (
        "sigmoid-linear",
        "isotonic-rbf",
    ),
    "tests/coreset/test_reduce.py::test_a_bias_of_two_percent_would_be_found": ("*-uniform", "*-sensitivity"),
    "tests/coreset/test_reduce.py::test_estimates_have_no_bias": ("uniform",),
    "tests/coreset/test_reduce.py::test_total_weight_is_right_in_expectation": ("sensitivity",),
    # scikit-learn's checks: one linear and one kernel machine of each estimator, each by itself.
    "tests/estimators/test_coresetsvc.py::test_scikit_learns_checks": ("CoresetSVC(C=1.0,tol=1e-08)-*",),
    "tests/estimators/test_coresetsvc.py::test_what_reduction_breaks_is_listed": ("smallest0",),
    "tests/drop_in/test_stdasvc.py::test_scikit_learns_checks": (
        "STDASVC(gamma=0.1,tol=1e-10)-*",
        "STDASVC(kernel='sigmoid')-*",
    ),
    "tests/drop_in/test_single.py::test_scikit_learns_checks": (
        "STDASVR(gamma=0.1,tol=1e-10)-*",
        "STDAOneClassSVM(gamma=0.1,tol=1e-10)-*",
    ),
    "tests/drop_in/test_linear.py::test_scikit_learns_checks": (
        "STDALinearSVC(loss='hinge',max_iter=1000000,tol=1e-10)-*",
    ),
    # Hostile bytes: the first quarter of the same sequence.
    "tests/fuzz/test_fuzz.py::test_nothing_escapes": ("*-a quarter",),
    # Live runs of a minute each; what they are judged by is tested with histories by hand.
    "tests/histories/test_live.py::test_nothing_is_wrong_with_a_short_run": (),
    "tests/histories/test_live.py::test_a_planted_defect_is_found": (),
    # Memory and time of decoding, each in a process of its own: a machine, and a hostile message.
    "tests/codec/test_large_models.py::test_decoding_takes_a_multiple_of_the_message": ("linear", "empty lists"),
    # Benchmarks: that each can be loaded (`test_loading.py`), and what they compute with.
    "tests/benchmarks/test_classes.py::test_every_method_has_its_row": (),
    "tests/benchmarks/test_coreset.py::test_kernel_rows_compare_accuracies_at_equal_memory": (),
    "tests/benchmarks/test_coreset.py::test_partitions_share_the_memory": (),
    "tests/benchmarks/test_drop_in.py::test_every_case_has_its_rows": (),
    "tests/benchmarks/test_drop_in.py::test_who_does_not_answer_in_time_is_stopped": (),
    "tests/benchmarks/test_event_formats.py::test_a_tiny_run_reports_every_contender": (),
    "tests/benchmarks/test_ingest.py::test_every_format_comes_from_topic_to_model": (),
    "tests/benchmarks/test_linear.py::test_every_case_has_its_line": (),
    "tests/benchmarks/test_paper_a.py::test_a_stopped_run_goes_on": (),
    "tests/benchmarks/test_paper_a.py::test_a_tiny_run_has_the_table_and_every_figure": (),
    "tests/benchmarks/test_paper_b.py::test_a_stopped_run_goes_on": (),
    "tests/benchmarks/test_paper_b.py::test_another_number_of_rows_is_another_run": (),
    "tests/benchmarks/test_paper_b.py::test_it_measures_reports_and_draws": (),
    "tests/benchmarks/test_peers.py::test_each_contender_at_hand_has_its_row": (),
    "tests/benchmarks/test_pipeline.py::test_a_tiny_run_reports_every_contender": (),
    "tests/benchmarks/test_reader_start.py::test_a_tiny_run_measures_every_move": (),
    "tests/benchmarks/test_scale.py::test_every_number_of_workers_has_its_row": (),
    "tests/benchmarks/test_scorer.py::test_rates_and_pins_are_measured": (),
    "tests/benchmarks/test_seal.py::test_every_case_has_its_figures_beside_another_checkout": (),
    "tests/benchmarks/test_start.py::test_every_daemon_starts_and_is_compared": (),
    "tests/benchmarks/test_swaps.py::test_every_score_belongs_wholly_to_one_version": (),
    "tests/benchmarks/test_tuning.py::test_a_small_run_says_both_sides": (),
}
"""Of each long test, the cases that `make test` runs too, by what stands in brackets in their ids; `*` is any."""

OWN_LONG_CASES: Final[Mapping[str, tuple[str, ...]]] = {
    # Defects that only many schedules show, a minute of them together.
    "tests/simulation/test_simulation.py::test_a_planted_defect_is_found": (
        "10 the end is the last stable offset",
        "6 the transactional id names the incarnation",
        "9 checkpoints are ordered by the producer's epoch",
        "a generation of an ended incarnation is gone on from",
        "the tuning in force ends with the process",
        "who was fenced does not wait for the owner record",
    ),
    "tests/simulation/test_simulation.py::test_the_promise_holds_in_every_schedule_of_the_smallest_worlds": (
        "one instance",
    ),
}

LONG_CASES: Final[Mapping[str, tuple[str, ...]]] = {
    name: (*cases, *(case for found in of_branches("lengths", "LONG_CASES") for case in found.get(name, ())))
    for name, cases in OWN_LONG_CASES.items()
}
"""Of tests that `make test` runs, the cases that it leaves out; those of branches among them."""

EMBEDDED_ENOUGH: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/branches/bounds/test_certified_versions.py": ("test_a_certificate_is_of_all_rows",),
    "tests/consumers/test_keeping.py": (),
    "tests/consumers/test_models.py": ("test_a_pin_holds_readers_until_it_is_taken_away",),
    "tests/consumers/test_probability.py": (),
    "tests/consumers/test_tuning.py": ("test_verify_chooses_again",),
    "tests/consumers/test_verify.py": ("test_what_a_trainer_published_is_clean",),
    "tests/test_anchoring.py": ("test_a_forged_record_is_loaded_by_no_number",),
}
"""Files whose tests run on both brokers, and in `make test` on the embedded one; and those that run on both there too.

They are about what stands in topics. How a real broker keeps topics is what `tests/kafka` and the daemons' tests show.
"""

REAL_ENOUGH: Final = (
    "tests/consumers/test_gatekeeping.py",
    "tests/consumers/test_outliers.py",
    "tests/consumers/test_quality.py",
    "tests/consumers/test_scorer.py",
    "tests/consumers/test_threshold.py",
    "tests/consumers/test_trainer.py",
    "tests/faults/test_damage.py",
    "tests/test_bad_models.py",
    "tests/test_subscriber.py",
)
"""Files of daemons whose tests run on both brokers, and in `make test` on the real one where one can be had."""

QUICK: Final = (
    "tests/codec/",
    "tests/delivery/",
    "tests/histories/test_checker.py",
    "tests/kafka/test_backoff.py",
    "tests/kafka/test_failures.py",
    "tests/test_comparison.py",
    "tests/test_config.py",
    "tests/test_delivery.py",
    "tests/test_drift.py",
    "tests/test_gate.py",
)
"""Where nothing takes long, compiled or not: what does no I/O and runs next to no kernels of coresets and solvers."""

SLOW: Final = frozenset({"broker", "real_broker", "embedded_broker", "stage", "faulty", "open_browser"})
"""Fixtures that start a process, or threads of one."""

NOT_QUICK: Final = (
    "tests/codec/test_bounds.py::test_no_bomb_goes_off",
    "tests/codec/test_half_precision.py",
    "tests/codec/test_large_models.py::test_decoding_takes_a_multiple_of_the_message",
    "tests/codec/test_model.py",
    "tests/codec/test_onnx.py",
    "tests/codec/test_parts.py",
    "tests/codec/test_points.py::test_far_exponents_have_one_value",
    "tests/codec/test_schema_header.py",
    "tests/delivery/test_pipeline.py::test_a_cut_that_nobody_trains_costs_no_pilot_and_no_reduction",
    "tests/test_config.py::test_a_budget_of_bytes_is_kept_and_used",
)
"""Tests and files of those that start a process all the same, compute for seconds, or compile a solver."""


def examples(many: int) -> int:
    """Return how many cases hypothesis tries where `make test-long` tries this many."""
    return many if os.environ.get("STREAMSVM_TEST_EXAMPLES") == "all" else many // 10


def is_long(nodeid: str, all_ids: Collection[str], *, real: bool) -> bool:
    """Tell whether a test, one of these, is left to `make test-long`, where there is a real broker or none."""
    name, _, case = nodeid.partition("[")
    case = case.removesuffix("]")
    if name in LONG:
        return not any(fnmatchcase(case, kept) for kept in LONG[name])
    if case in LONG_CASES.get(name, ()):
        return True
    file, _, function = name.partition("::")
    if real and file in REAL_ENOUGH:
        return _on_another_broker(name, case, "embedded", "real") in all_ids
    if function not in EMBEDDED_ENOUGH.get(file, (function,)):
        return _on_another_broker(name, case, "real", "embedded") in all_ids
    return False


def _on_another_broker(name: str, case: str, this: str, other: str) -> str:
    """Return the id of the same case on the other broker; of a case that is not on this one, an empty text."""
    parts = case.split("-")
    return f"{name}[{'-'.join(other if part == this else part for part in parts)}]" if this in parts else ""


def is_quick(nodeid: str, fixtures: Collection[str]) -> bool:
    """Tell whether `pytest -m quick` runs a test that is not long, by its id and the names of its fixtures."""
    name = nodeid.partition("[")[0]
    return name.startswith(QUICK) and not name.startswith(NOT_QUICK) and SLOW.isdisjoint(fixtures)


def unmatched(nodeids: Collection[str]) -> list[str]:
    """Return the cases that the tables name and that are not among these tests, of tests of which there is any.

    A case that is renamed in its file would otherwise change its length by mistake.
    """
    named = {**LONG, **LONG_CASES}
    cases: dict[str, list[str]] = {name: [] for name in named}
    for nodeid in nodeids:
        name, _, case = nodeid.partition("[")
        cases.get(name, []).append(case.removesuffix("]"))
    return [
        f"{name}[{kept}]"
        for name, found in cases.items()
        if found
        for kept in named[name]
        if not any(fnmatchcase(case, kept) for case in found)
    ]


if __name__ == "__main__":  # for `make test-quick`: to collect all others takes longer than to run these
    print(*QUICK)
