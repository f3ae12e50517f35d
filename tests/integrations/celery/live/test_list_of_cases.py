"""What a live worker must do, each with its test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
LIVE = "tests/integrations/celery/live"
DAY = "tests/journeys/test_a_workers_day.py"
KILLED = "tests/journeys/test_killed_workers.py"
OUTAGES = "tests/journeys/test_outages.py"

CASES = {
    "an idle worker is woken, and does not poll": (
        f"{LIVE}/test_waking.py",
        "test_a_worker_that_never_looks_by_itself_is_woken_for_each_task",
    ),
    "strict priority": (KILLED, "test_messages_start_strictly_by_priority"),
    "priority across queues": ("tests/integrations/celery/test_kombu.py", "test_several_queues_share_by_priority"),
    "ETA out of the worker's memory": (
        f"{LIVE}/test_complaints.py",
        "test_tasks_with_an_eta_neither_fill_the_worker_nor_widen_its_prefetch",
    ),
    "a retry with a countdown is held in the database": (
        DAY,
        "test_a_retry_with_a_countdown_waits_in_the_database",
    ),
    "an ETA survives restarts": (
        f"{LIVE}/test_remote_control.py",
        "test_a_revoked_task_that_is_due_later_is_gone_whoever_restarts",
    ),
    "prefetch": (DAY, "test_a_worker_holds_no_more_than_its_prefetch"),
    "early acks, recorded once": (DAY, "test_a_task_runs_and_leaves_one_row_of_history"),
    "late acks outlive the worker's kill -9": (KILLED, "test_a_killed_workers_messages_come_back"),
    "what never began comes back uncharged": (
        KILLED,
        "test_killed_workers_do_not_dead_letter_what_they_never_started",
    ),
    "kill -9 of a pool child": (DAY, "test_a_task_whose_process_was_killed_comes_back"),
    "a worker that hangs loses its tasks": (KILLED, "test_a_frozen_worker_loses_its_messages_and_begins_anew"),
    "warm shutdown": (KILLED, "test_a_warm_shutdown_finishes_what_runs_and_gives_back_the_rest_at_once"),
    "warm shutdown amid a backlog": (
        f"{LIVE}/test_stopping_amid_a_backlog.py",
        "test_what_a_child_was_given_runs_once_and_the_rest_goes_back",
    ),
    "soft shutdown": (
        f"{LIVE}/test_worker_options.py",
        "test_a_soft_shutdown_gives_back_what_did_not_end_in_time",
    ),
    "cold shutdown": (KILLED, "test_a_cold_shutdown_gives_back_what_was_running"),
    "restart of the database": (OUTAGES, "test_a_restart_of_postgresql_loses_nothing"),
    "restart of Redis": (OUTAGES, "test_losing_redis_loses_nothing_and_work_goes_on"),
    "connections cut": (OUTAGES, "test_reconnecting_leaves_nothing_behind"),
    "remote control": (DAY, "test_the_commands_of_celery_work_from_another_process"),
    "pool_grow and pool_shrink": (
        f"{LIVE}/test_remote_control.py",
        "test_the_pool_grows_and_shrinks_and_the_prefetch_follows",
    ),
    "events": (f"{LIVE}/test_remote_control.py", "test_events_reach_who_listens"),
    "revoke": (
        f"{LIVE}/test_remote_control.py",
        "test_a_revoked_task_in_the_backlog_never_runs_and_the_others_do",
    ),
    "revoke with terminate": (f"{LIVE}/test_remote_control.py", "test_a_running_task_is_terminated"),
    "purge": (DAY, "test_purge_removes_what_waits_and_counts_it"),
    "autoscale": (f"{LIVE}/test_worker_options.py", "test_an_autoscaled_pool_claims_for_all_it_may_become"),
    "children are recycled": (
        f"{LIVE}/test_worker_options.py",
        "test_children_are_recycled_amid_a_backlog_and_each_task_runs_once",
    ),
    "threads and solo": (KILLED, "test_other_pools_work_too"),
    "gevent": (
        f"{LIVE}/test_green_threads.py",
        "test_green_threads_work_side_by_side_and_give_back_what_they_did_not_begin",
    ),
    "django-celery-beat": (
        f"{LIVE}/test_companions.py",
        "test_the_database_scheduler_of_django_celery_beat_publishes_what_is_due",
    ),
    "Flower": (f"{LIVE}/test_companions.py", "test_flower_sees_the_workers_and_what_they_do"),
}


@pytest.mark.parametrize(("file", "name"), CASES.values(), ids=list(CASES))
def test_the_case_has_its_test(file: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
