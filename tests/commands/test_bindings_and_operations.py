"""mq_bindings and mq_operations: what exchanges feed, and what the admin does in the background."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

from django_mq.checks import check_database
from django_mq.delivery.operator.queue_editor import edit_queue
from django_mq.delivery.queues import declare
from django_mq.models import Binding, Operation
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from tests.commands.conftest import Run


@pytest.fixture(autouse=True)
def queues(database: str) -> None:
    for name in ("orders", "mails"):
        declare(shared_store(database), name)


def bound(alias: str) -> set[tuple[str, ...]]:
    rows = Binding.objects.using(alias)
    return set(rows.values_list("exchange", "exchange_type", "pattern", "queue__name"))


def test_a_queue_is_bound_and_unbound(database: str, run: Run) -> None:
    topic = ["mq_bindings", "--bind", "events", "orders", "--type", "topic", "--pattern", "order.*"]
    assert json.loads(run(*topic, "--dry-run", "--json")) == {"would_bind": 1}
    assert bound(database) == set()

    assert run(*topic) == "'events' to 'orders' by 'order.*': bound.\n"
    assert json.loads(run(*topic, "--json")) == {"bound": 0}
    # A type that is not said is the exchange's.
    run("mq_bindings", "--bind", "events", "mails", "--pattern", "mail")
    assert bound(database) == {("events", "topic", "order.*", "orders"), ("events", "topic", "mail", "mails")}

    undo = ["mq_bindings", "--unbind", "events", "mails", "--pattern", "mail", "--json"]
    assert json.loads(run(*undo, "--dry-run")) == {"would_unbind": 1}
    assert json.loads(run(*undo)) == {"unbound": 1}
    with pytest.raises(SystemExit, match="1"):
        run(*undo)
    assert bound(database) == {("events", "topic", "order.*", "orders")}


def test_a_fanout_exchange_has_no_pattern(database: str, run: Run) -> None:
    run("mq_bindings", "--bind", "all", "orders", "--type", "fanout", "--pattern", "ignored")

    assert bound(database) == {("all", "fanout", "", "orders")}


def test_a_binding_without_a_pattern_is_reported_without_one(database: str, run: Run) -> None:
    assert run("mq_bindings", "--bind", "all", "orders", "--type", "fanout") == "'all' to 'orders': bound.\n"


def test_a_binding_has_a_selector_that_binding_again_changes(database: str, run: Run) -> None:
    binding = ["mq_bindings", "--bind", "regions", "orders", "--type", "headers", "--json", "--selector"]

    assert [json.loads(run(*binding, f"region = '{region}'")) for region in ("eu", "us", "us")] == [
        {"bound": 1},
        {"bound": 1},
        {"bound": 0},
    ]
    assert "region = 'us'" in run("mq_bindings", "regions")


def test_bindings_are_shown_by_exchange_and_by_queue(database: str, run: Run) -> None:
    run("mq_bindings", "--bind", "events", "orders", "--pattern", "a")
    run("mq_bindings", "--bind", "other", "mails", "--pattern", "b")
    events = {"exchange": "events", "type": "direct", "pattern": "a", "queue": "orders", "selector": ""}

    assert len(json.loads(run("mq_bindings", "--json"))) == 2
    assert json.loads(run("mq_bindings", "events", "--json")) == [events]
    assert json.loads(run("mq_bindings", "--queue", "orders", "--json")) == [events]
    assert run("mq_bindings", "events").split()[-4:] == ["events", "direct", "a", "orders"]
    assert run("mq_bindings", "none") == "There are no bindings to show.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bind", "events", "ordres"], "no queue 'ordres'.* Did you mean 'orders'"),
        (["--unbind", "events", "ordres"], "no queue 'ordres'"),
        (["--queue", "ordres"], "no queue 'ordres'"),
        (["--bind", "direct", "orders", "--type", "fanout"], "'direct' is a direct exchange"),
        (["--bind", "", "orders"], "cannot be called ''"),
        (["--bind", "x" * 300, "orders"], "cannot be called"),
        (["--bind", "events", "orders", "--pattern", "x" * 300], "cannot be stored"),
        (["other", "--bind", "events", "orders"], "take EXCHANGE QUEUE"),
        (["--unbind", "events", "orders", "--type", "topic"], "take EXCHANGE QUEUE"),
        (["--bind", "events"], "expected 2 arguments"),
        (["--bind", "events", "orders", "--selector", "a = "], "position"),
        (["--bind", "events", "orders", "--selector", "a = '" + "x" * 1000 + "'"], "at most 1000 characters"),
        (["--unbind", "events", "orders", "--selector", "a = 1"], "--selector"),
    ],
)
def test_a_binding_that_makes_no_sense_is_refused(
    database: str, run: Run, arguments: list[str], said: str
) -> None:
    run("mq_bindings", "--bind", "direct", "mails")

    with pytest.raises(CommandError, match=said):
        run("mq_bindings", *arguments)

    assert bound(database) == {("direct", "direct", "", "mails")}


def begun(alias: str, status: Operation.Status) -> Operation:
    now = timezone.now()
    given = {
        "act": "redrive",
        "user_name": "olga\x1b[2J",
        "filters": {"type": "a"},
        "newest": 9,
        "expected": 12_000,
    }
    return Operation.objects.using(alias).create(status=status, created_at=now, beat_at=now, **given)


def test_operations_are_shown_and_stopped(database: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    over, runs = begun(database, Operation.Status.DONE), begun(database, Operation.Status.RUNNING)

    shown = run("mq_operations")
    assert "12,000" in shown
    assert "\x1b" not in shown
    (found,) = json.loads(run("mq_operations", "--running", "--json"))
    assert (found["id"], found["status"], found["filters"]) == (runs.pk, "running", {"type": "a"})

    with pytest.raises(SystemExit, match="1"):
        run("mq_operations", "--stop", over.pk, runs.pk)

    assert f"Not running: {over.pk}." in capsys.readouterr().err
    runs.refresh_from_db()
    assert runs.status == "stopped"


def test_nothing_in_the_background_is_said(run: Run) -> None:
    assert run("mq_operations") == "There are no operations to show.\n"
    assert json.loads(run("mq_operations", "--json")) == []


def test_operations_of_another_version_are_left_and_named(
    database: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    late = timezone.now() - timedelta(hours=1)
    newer = Operation.objects.using(database).create(act="of_tomorrow", newest=9, created_at=late, beat_at=late)

    with pytest.raises(SystemExit) as end:
        run("mq_operations", "--take-over")

    assert end.value.code == 1
    assert f"another version of django_mq has begun them: {newer.pk}." in capsys.readouterr().err


def test_a_binding_by_which_dead_letters_come_back_is_named(
    database: str, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    edit_queue("orders", {"dead_letter_exchange": "failures"}, using=database)
    edit_queue("mails", {"dead_letter_queue": "orders"}, using=database)
    way = "on the way mails -> orders -> mails, as often as max_dead_letter_cycles says"
    sentence = f"Dead letters come back {way}"

    run("mq_bindings", "--bind", "failures", "mails", "--pattern", "orders")

    assert sentence in caplog.text
    assert [warning.msg for warning in check_database(databases=[database]) if "come back" in warning.msg] == [
        f"{sentence}."
    ]
