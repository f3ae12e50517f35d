"""mq_queue, mq_pause, mq_resume: create, edit, pause and delete queues from a terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.core.management.base import CommandError

from django_mq.api import publish
from django_mq.checks import check_database
from django_mq.delivery.operator.drift import log_differences
from django_mq.delivery.queues import declare
from django_mq.models import Queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite")


def queue(alias: str, name: str = "orders") -> Queue:
    return Queue.objects.using(alias).get(name=name)


def test_a_queue_is_created_with_the_defaults(database: str, run: Run) -> None:
    assert run("mq_queue", "create", "orders") == "Queue 'orders' is created.\n"

    assert (queue(database).kind, queue(database).levels, queue(database).max_attempts) == ("priority", 10, 10)


def test_a_declared_queue_is_created_with_the_options_of_the_settings(
    database: str, run: Run, settings: Settings
) -> None:
    declared = {"max_messages": 5, "max_attempts": 3, "dead_letter_queue": "dead"}
    settings.DJANGO_MQ = {"DATABASE": database, "QUEUES": {"orders": declared, "dead": {}}}

    run("mq_queue", "create", "orders", "--max-attempts=4", "--overflow=ring", "--closed")

    row = queue(database)
    assert (row.max_messages, row.dead_letter_queue) == (5, queue(database, "dead"))
    assert (row.max_attempts, row.overflow, row.closed) == (4, "ring", True)


def test_every_option_of_a_queue_can_be_given(database: str, run: Run) -> None:
    run("mq_queue", "create", "dead")
    options = (
        "--kind=fifo --levels=3 --due-order=keep_place --max-attempts=5 --dead-letter-queue=dead "
        "--backoff-seconds=2 --backoff-multiplier=3 --backoff-cap-seconds=60 --backoff-jitter=0.5 "
        "--backoff-ticks-per-second=1000 "
        "--max-messages=100 --ttl-seconds=60 --history-days=1 --history-body --closed "
        "--grouping=shared --strict --exclusive --max-consumers=2 --max-in-flight=9"
    )

    run("mq_queue", "create", "orders", *options.split())

    row = queue(database)
    assert (row.kind, row.levels, row.due_order, row.max_attempts) == ("fifo", 3, "keep_place", 5)
    assert (row.backoff_seconds, row.backoff_multiplier) == (2, 3)
    assert (row.backoff_cap_seconds, row.backoff_jitter) == (60, 0.5)
    assert row.options.backoff_ticks_per_second == 1000
    assert (row.dead_letter_queue, row.max_messages, row.ttl_seconds) == (queue(database, "dead"), 100, 60)
    assert (row.history_days, row.history_body, row.closed) == (1, True, True)
    assert (row.grouping, row.strict, row.exclusive) == ("shared", True, True)
    assert (row.max_consumers, row.max_in_flight) == (2, 9)


def test_every_rule_at_publish_can_be_given(database: str, run: Run) -> None:
    run("mq_queue", "create", "late")
    options = (
        "--kind=last_value --last-value-key=sku --max-bytes=999 --overflow=ring --wait-seconds=2 --dedup-count=7 "
        "--dedup-seconds=60 --min-ttl-seconds=5 --max-ttl-seconds=9 --expiry-queue=late"
    )

    run("mq_queue", "create", "orders", *options.split())

    row = queue(database)
    assert (row.kind, row.last_value_key) == ("last_value", "sku")
    assert (row.max_bytes, row.overflow, row.wait_seconds) == (999, "ring", 2)
    assert (row.dedup_count, row.dedup_seconds) == (7, 60)
    assert (row.min_ttl_seconds, row.max_ttl_seconds) == (5, 9)
    assert row.expiry_queue == queue(database, "late")


def test_editing_changes_what_is_named_and_nothing_else(database: str, run: Run) -> None:
    run("mq_queue", "create", "orders", "--levels=3", "--max-messages=5", "--history-body")

    run("mq_queue", "edit", "orders", "--no-max-messages", "--no-history-body", "--closed")
    run("mq_queue", "edit", "orders", "--backoff-ticks-per-second=10")

    row = queue(database)
    assert row.options.backoff_ticks_per_second == 10
    assert (row.levels, row.max_messages, row.history_body, row.closed) == (3, None, False, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["edit", "orders"], "Name at least one option"),
        (["edit", "orders", "--overflow=ring"], "the queue has no limit"),
        (["edit", "orders", "--backoff-ticks-per-second=-1"], "backoff_ticks_per_second is -1; use 0 to 1000000"),
        (["edit", "orders", "--kind=last_value"], "needs last_value_key"),
        (["edit", "nowhere", "--levels=3"], "There is no queue 'nowhere'"),
        (["edit", "orders", "--dead-letter-queue=nowhere"], "There is no queue 'nowhere'"),
        (["edit", "orders", "--dead-letter-queue=orders"], "dead letters would come back"),
        (["edit", "orders", "--max-messages=0"], "max_messages is 0"),
        (["edit", "orders", "--backoff-jitter=nan"], "backoff_jitter is nan"),
        (["edit", "orders", "--ttl-seconds=-1"], "ttl_seconds is -1.0"),
        (["edit", "orders", "--levels=11"], "levels is 11; use 1 to 10"),
        (["edit", "orders", "--levels=many"], "invalid int value: 'many'"),
        (["edit", "orders", "--selectors=size >"], "selectors has 'size >': Expected a value"),
        (["create", "orders"], "There is a queue 'orders' already"),
        (["create", ""], "name: "),
        (["create", "q" * 201], "name: "),
        (["create", "new", "--max-attempts=-1"], "max_attempts is -1"),
        (["delete", "nowhere"], "There is no queue 'nowhere'"),
        (["delete", "orders", "--database=elsewhere"], "There is no database 'elsewhere'"),
        ([], "required: create"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(
    database: str, run: Run, arguments: list[str], sentence: str
) -> None:
    run("mq_queue", "create", "orders")

    with pytest.raises(CommandError, match=sentence):
        run("mq_queue", *arguments)

    assert Queue.objects.using(database).count() == 1


def test_dead_letters_may_not_travel_in_a_circle(database: str, run: Run) -> None:
    for name in ("a", "b", "c"):
        run("mq_queue", "create", name)
    run("mq_queue", "edit", "a", "--dead-letter-queue=b")
    run("mq_queue", "edit", "b", "--dead-letter-queue=c")

    with pytest.raises(CommandError, match="with a as its dead-letter queue, dead letters would come back"):
        run("mq_queue", "edit", "c", "--dead-letter-queue=a")


def test_a_queue_that_holds_messages_is_deleted_by_force_only(database: str, run: Run) -> None:
    run("mq_queue", "create", "orders")
    publish("orders")
    with pytest.raises(CommandError, match=r"'orders' still holds messages\. With force .*--force"):
        run("mq_queue", "delete", "orders")

    assert run("mq_queue", "delete", "orders", "--force") == "Queue 'orders' is deleted, and 1 message with it.\n"

    assert not Queue.objects.using(database).exists()


def test_a_queue_is_paused_and_resumed(database: str, run: Run) -> None:
    run("mq_queue", "create", "orders")

    run("mq_pause", "orders", "--reason=stocktaking", "--seconds=60")
    assert (queue(database).paused, queue(database).paused_reason) == (True, "stocktaking")
    assert queue(database).paused_until

    run("mq_resume", "orders")
    assert not queue(database).paused


def test_the_database_may_be_named(committed_database: str, run: Run) -> None:
    run("mq_queue", "create", "orders", "--database", committed_database)

    assert queue(committed_database)


@pytest.fixture
def drifted(database: str, settings: Settings) -> str:
    """Two declared queues: one has kept an older option, and another option of an operator; one is missing."""
    settings.DJANGO_MQ = {"DATABASE": database, "QUEUES": {"orders": {"levels": 3, "max_attempts": 5}, "dead": {}}}
    declare(shared_store(database), "orders")
    Queue.objects.using(database).update(levels=7, history_days=2.0)
    return database


def test_sync_creates_what_is_missing_and_keeps_what_differs(drifted: str, run: Run) -> None:
    kept = "Queue 'orders': levels is 7, and DJANGO_MQ['QUEUES'] says 3 (kept; --force overwrites it).\n"

    assert run("mq_queue", "sync", "--dry-run") == f"Queue 'dead' would be created.\n{kept}"
    assert not Queue.objects.using(drifted).filter(name="dead").exists()
    assert run("mq_queue", "sync") == f"Queue 'dead' is created.\n{kept}"
    assert queue(drifted).levels == 7


def test_sync_with_force_overwrites_the_options_that_the_settings_name(drifted: str, run: Run) -> None:
    would = json.loads(run("mq_queue", "sync", "orders", "--force", "--dry-run", "--json"))
    change = {"queue": "orders", "option": "levels", "declared": 3, "stored": 7}
    assert (would, queue(drifted).levels) == ({"would_create": [], "would_change": [change]}, 7)

    assert run("mq_queue", "sync", "orders", "--force").endswith(" (overwritten).\n")

    assert (queue(drifted).levels, queue(drifted).max_attempts, queue(drifted).history_days) == (3, 5, 2.0)
    assert run("mq_queue", "sync", "orders").startswith("All options that the settings name are as the settings")


def test_sync_with_force_creates_the_dead_letter_queue_that_the_settings_name(
    drifted: str, run: Run, settings: Settings
) -> None:
    settings.DJANGO_MQ = {"DATABASE": drifted, "QUEUES": {"orders": {"dead_letter_queue": "dead"}, "dead": {}}}

    run("mq_queue", "sync", "orders", "--force")

    assert queue(drifted).dead_letter_queue == Queue.objects.using(drifted).get(name="dead")


def test_show_names_both_values_of_an_option(drifted: str, run: Run) -> None:
    assert "levels = 7 (the settings: 3)\n" in run("mq_queue", "show", "orders")
    shown = json.loads(run("mq_queue", "show", "orders", "--json"))
    assert (shown["options"]["levels"], shown["differing"]) == (7, {"levels": 3})
    assert "sort_as_text" not in shown["options"], "only queues in memory have it"


def test_sync_refuses_a_queue_that_is_not_declared(drifted: str, run: Run) -> None:
    with pytest.raises(CommandError, match=r"does not declare 'ordres'. Did you mean 'orders'\?"):
        run("mq_queue", "sync", "ordres", f"--database={drifted}")


def test_the_check_the_doctor_and_a_worker_name_the_difference(
    drifted: str, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = "levels is 7, and DJANGO_MQ['QUEUES'] says 3"

    [found] = [each for each in check_database(databases=[drifted]) if each.id == "django_mq.W006"]
    assert found.msg == f"Queue 'orders': {sentence}."
    assert sentence in run("mq_doctor")
    log_differences(["orders"], using=drifted)
    assert sentence in caplog.text
